/*
 * tests/e2e/throw_make.c - messages to throw: every procedure of the table with plausible values,
 * one in two of them mutated.
 */
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "cricket.h"
#include "cuda/types.h"
#include "rpc/proc.h"
#include "rpc/record.h"
#include "tests/e2e/throw.h"
#include "util/util.h"

const char image_good[] = ".version 8.0\n.target sm_90\n.address_size 64\n"
			  ".visible .global .align 4 .u32 counter[16];\n"
			  ".visible .entry store(.param .u64 p, .param .u32 n)\n{\n"
			  "\t.reg .b32 %r<4>;\n\t.reg .b64 %rd<4>;\n\t.reg .pred %p<2>;\n"
			  "\tld.param.u64 %rd1, [p];\n\tld.param.u32 %r1, [n];\n"
			  "\tcvta.to.global.u64 %rd2, %rd1;\n\tsetp.eq.u32 %p1, %r1, 0;\n"
			  "\t@%p1 bra DONE;\n\tst.global.u32 [%rd2], %r1;\nDONE:\n\tret;\n}\n";

/* xorshift64*: the same messages from the same seed, anywhere. */
static uint64_t draw64(struct world *w)
{
	w->random ^= w->random >> 12;
	w->random ^= w->random << 25;
	w->random ^= w->random >> 27;
	return w->random * 0x2545f4914f6cdd1dull;
}

uint32_t draw(struct world *w, uint32_t below)
{
	return (uint32_t)(((draw64(w) >> 32) * below) >> 32);
}

void draw_bytes(struct world *w, void *out, size_t size)
{
	for (size_t i = 0; i < size; i++)
		((unsigned char *)out)[i] = (unsigned char)draw(w, 256);
}

uint64_t draw_number(struct world *w)
{
	static const uint64_t edge[] = {
		0,
		1,
		2,
		3,
		4,
		7,
		8,
		16,
		255,
		256,
		4095,
		4096,
		65535,
		65536,
		0x7fffffff,
		0x80000000,
		0xffffffff,
		0x100000000,
		0x7fffffffffffffff,
		0x8000000000000000,
		~(uint64_t)0 - 1,
		~(uint64_t)0,
		~(uint64_t)0 - 4095,
		0xdeadbeefdeadbeef,
	};

	switch (draw(w, 4)) {
	case 0:
		return draw64(w);
	case 1:
		return draw(w, 100);
	default:
		return edge[draw(w, CK_ARRAY_SIZE(edge))];
	}
}

static uint64_t draw_id(struct world *w)
{
	switch (draw(w, 8)) {
	case 0:
		return draw_number(w);
	case 1:
		return draw(w, 3); /* the streams that everyone has; no context */
	case 2:
		return ID_FREE + draw(w, ID_END - ID_FREE);
	default:
		return ID_CONTEXT + draw(w, ID_FREE - ID_CONTEXT);
	}
}

static uint64_t draw_address(struct world *w)
{
	switch (draw(w, 8)) {
	case 0:
		return draw_number(w);
	case 1:
		return w->memory + THROW_MEMORY - draw(w, 16);
	case 2:
		return w->memory + draw_number(w);
	default:
		return w->memory + draw(w, 256) * 4;
	}
}

size_t image_make(struct world *w, char *out, size_t size)
{
	const uint32_t magic = 0xba55ed50;
	size_t n = ck_min(sizeof(image_good) - 1, size);

	memcpy(out, image_good, n);
	if (draw(w, 4) == 0) {
		draw_bytes(w, out, n);
		memcpy(out, draw(w, 2) ? (const char *)&magic : "\177ELF", 4);
		return n;
	}
	for (uint32_t i = 1 + draw(w, 4); i > 0; i--) {
		size_t from = draw(w, (uint32_t)n), to = draw(w, (uint32_t)n);
		size_t some = ck_min((size_t)draw(w, 40), n - ck_max(from, to));

		if (draw(w, 2))
			out[to] = (char)(1 + draw(w, 255));
		else
			memmove(out + to, out + from, some);
	}
	return draw(w, 8) ? n : draw(w, (uint32_t)n) + 1;
}

/* --- plausible values of the table's fields */
static char scratch[1 << 17]; /* what strings and byte fields point to */

static void fill_string(struct world *w, char **out)
{
	static const char *const good[] = {"store", "counter", "", "%s%n%s%n", "\033[2J\n\r"};
	uint32_t size = draw(w, 64) == 0 ? CK_STRING_MAX : draw(w, 300);

	if (draw(w, 2)) {
		*out = (char *)good[draw(w, CK_ARRAY_SIZE(good))];
		return;
	}
	memset(scratch, 1 + (int)draw(w, 255), size);
	scratch[size] = '\0';
	*out = scratch;
}

/* Parameters of the kernel, launch attributes, options: what its name says, or anything. */
static void fill_bytes(struct world *w, const char *name, void *at)
{
	struct {
		u_int len;
		char *val;
	} field = {0, scratch};
	CUlaunchAttribute attribute = {.id = (CUlaunchAttributeID)draw(w, 20)};
	const uint64_t params[2] = {draw(w, 200) ? w->memory + 4 * draw(w, 99) : draw_number(w),
				    draw(w, 3)};

	if (strcmp(name, "params") == 0 && draw(w, 4)) {
		memcpy(scratch, params, sizeof(params));
		field.len = sizeof(params);
	} else if (strcmp(name, "attributes") == 0 && draw(w, 4)) {
		draw_bytes(w, &attribute.value, draw(w, 2) ? 8 : 0);
		memcpy(scratch, &attribute, sizeof(attribute));
		field.len = draw(w, 2) ? sizeof(attribute) : 0;
	} else {
		field.len = draw(w, 64) ? draw(w, 300) : draw(w, sizeof(scratch));
		draw_bytes(w, scratch, ck_min(field.len, 300u));
	}
	memcpy(at, &field, sizeof(field));
}

/* A few ids, most of them of something. */
static void fill_ids(struct world *w, void *at)
{
	static uint64_t ids[16];
	struct {
		u_int len;
		uint64_t *val;
	} field = {draw(w, CK_ARRAY_SIZE(ids)), ids};

	for (u_int i = 0; i < field.len; i++)
		ids[i] = draw_id(w);
	memcpy(at, &field, sizeof(field));
}

/* Shapes of copies; other structures are small. */
static void fill_pod(struct world *w, void *at, size_t size)
{
	CUDA_MEMCPY3D c = {
		.srcMemoryType = (CUmemorytype)(1 + draw(w, 2)),
		.dstMemoryType = (CUmemorytype)(1 + draw(w, 2)),
		.srcDevice = draw_address(w),
		.dstDevice = draw_address(w),
		.srcPitch = draw(w, 256),
		.dstPitch = draw(w, 256),
		.srcHeight = draw(w, 16),
		.dstHeight = draw(w, 16),
		.WidthInBytes = draw(w, 64),
		.Height = draw(w, 8),
		.Depth = draw(w, 4),
	};
	uint64_t number = draw_number(w);

	if (size < sizeof(c)) {
		draw_bytes(w, at, draw(w, 2) ? size : 0);
		return;
	}
	memcpy(at, &c, sizeof(c));
	if (draw(w, 3) == 0)
		memcpy((char *)at + 8 * draw(w, sizeof(c) / 8), &number, sizeof(number));
}

static uint32_t draw_uint(struct world *w, const char *name)
{
	/* gx to bz: blocks and threads, few of them, or so many that they are refused */
	if (strlen(name) == 2 && strchr("gb", name[0]) && strchr("xyz", name[1]))
		return draw(w, 64) ? 1 + draw(w, 2) : 0x80000000u * draw(w, 2);
	return draw(w, 2) ? draw(w, 4) : (uint32_t)draw_number(w);
}

static void fill_field(struct world *w, const struct ck_field *f, char *at, size_t size,
		       u_int payload)
{
	uint64_t number = draw(w, 3) ? draw(w, 512) : draw_number(w);
	uint32_t word;

	switch (f->kind) {
	case CK_FIELD_INT:
	case CK_FIELD_UINT:
	case CK_FIELD_FLOAT:
		word = draw_uint(w, f->name);
		memcpy(at, &word, sizeof(word));
		break;
	case CK_FIELD_ID:
	case CK_FIELD_POINTER:
		number = f->kind == CK_FIELD_ID ? draw_id(w) : draw_address(w);
		/* fall through */
	case CK_FIELD_U64:
		memcpy(at, &number, sizeof(number));
		break;
	case CK_FIELD_IDS:
		fill_ids(w, at);
		break;
	case CK_FIELD_HASH:
		draw_bytes(w, at, CK_HASH);
		break;
	case CK_FIELD_BYTES:
		fill_bytes(w, f->name, at);
		break;
	case CK_FIELD_STRING:
		fill_string(w, (char **)at);
		break;
	case CK_FIELD_POD:
		fill_pod(w, at, size);
		break;
	case CK_FIELD_BULK:
		memcpy(at, &payload, sizeof(payload));
		break;
	case CK_FIELD_END:
		break;
	}
}

/* What takes the ground from under the rest of a session is thrown less often. */
static bool destroys(uint32_t proc)
{
	return proc == CK_PROC_context_destroy || proc == CK_PROC_primary_release ||
	       proc == CK_PROC_primary_reset || proc == CK_PROC_cuMemFree_v2 ||
	       proc == CK_PROC_cuModuleUnload || proc == CK_PROC_cuLibraryUnload ||
	       proc == CK_PROC_cuStreamDestroy_v2 || proc == CK_PROC_cuEventDestroy_v2;
}

/* What makes a stream, or the call itself, wait until the client has done its part, or until a
 * value is written: this one never does. */
static bool waits_for_client(uint32_t proc)
{
	return proc == CK_PROC_callback_next || proc == CK_PROC_delivery_next ||
	       proc == CK_PROC_host_function || proc == CK_PROC_m3_news || proc == CK_PROC_words ||
	       proc == CK_PROC_upload_joined || proc == CK_PROC_nccl_wait ||
	       proc == CK_PROC_cuStreamWaitValue32_v2 || proc == CK_PROC_cuStreamWaitValue64_v2 ||
	       proc == CK_PROC_stream_operations;
}

static uint32_t draw_proc(struct world *w)
{
	uint32_t number;

	do
		number = draw(w, CK_PROC_END);
	while (!ck_proc(number) || waits_for_client(number) || (destroys(number) && draw(w, 40)));
	return number;
}

static size_t draw_payload(struct world *w)
{
	uint32_t rare = draw(w, 2000);

	return rare == 0 ? draw(w, 2u << 20) : rare < 20 ? draw(w, 65536) : draw(w, 200);
}

/* A whole and well-formed message of procedure @number; false: values that have no encoding. */
static bool message_encode(struct world *w, struct message *m, uint32_t number)
{
	static uint64_t args[ARGS_WORDS]; /* aligned */
	const struct ck_proc *proc = ck_proc(number);
	struct ck_head head = {.ctx = draw(w, 16) ? ID_CONTEXT : draw_id(w)};
	size_t payload = proc->bulk_in ? draw_payload(w) : 0;
	long n;

	if (proc->args_size > sizeof(args))
		abort();
	memset(args, 0, sizeof(args));
	head.seq = proc->one_way ? w->seq + 1 : w->seq - draw(w, 2) * draw(w, (uint32_t)w->seq);
	memcpy(args, &head, sizeof(head));
	for (const struct ck_field *f = proc->in; f && f->name; f++) {
		size_t end = f[1].name ? f[1].offset : proc->args_size;

		fill_field(w, f, (char *)args + f->offset, end - f->offset, (u_int)payload);
	}
	n = ck_call_encode(m->bytes, THROW_MAX, draw(w, UINT32_MAX), number, proc->xdr_args, args,
			   payload);
	if (n < 0)
		return false;
	draw_bytes(w, m->bytes + n, ck_min(payload, (size_t)256));
	m->size = (size_t)n + CK_ALIGN_UP(payload, 4u);
	m->command = proc->one_way;
	return true;
}

/* --- mutations */
static void put_word(unsigned char *at, uint32_t word)
{
	word = htonl(word);
	memcpy(at, &word, sizeof(word));
}

static void set_mark(struct message *m)
{
	put_word(m->bytes, LAST | (uint32_t)(m->size - 4));
}

/* Two fragments of one record. */
static void split(struct world *w, struct message *m)
{
	size_t body = m->size - 4, first = draw(w, (uint32_t)body);

	memmove(m->bytes + 8 + first, m->bytes + 4 + first, body - first);
	put_word(m->bytes, (uint32_t)first);
	put_word(m->bytes + 4 + first, LAST | (uint32_t)(body - first));
	m->size += 4;
}

static void mutate(struct world *w, struct message *m)
{
	/* Payload is data: what matters stands before it. */
	uint32_t head = (uint32_t)ck_min(m->size, (size_t)600);
	uint32_t at = draw(w, head), extra = 4 * draw(w, 16);

	switch (draw(w, 16)) {
	case 0:
		m->size = 4 + draw(w, (uint32_t)m->size - 4);
		if (draw(w, 2))
			set_mark(m);
		break;
	case 1:
		draw_bytes(w, m->bytes + m->size, extra);
		m->size += extra;
		if (draw(w, 4))
			set_mark(m);
		break;
	case 2:
		put_word(m->bytes + (at & ~3u), (uint32_t)draw_number(w));
		break;
	case 3:
		m->command = !m->command;
		break;
	case 4:
		draw_bytes(w, m->bytes + 4, m->size - 4 < 4096 ? m->size - 4 : 4096);
		break;
	case 5:
	case 6:
		split(w, m);
		break;
	case 7:
		put_word(m->bytes + 24, draw(w, 4) ? draw_proc(w) : (uint32_t)draw_number(w));
		break;
	case 8: /* the command's number, or the one that a call waits for */
		put_word(m->bytes + CK_CALL_HEADER + 4 * draw(w, 2), (uint32_t)draw_number(w));
		break;
	default:
		for (uint32_t i = 1 + draw(w, 4); i > 0; i--) {
			at = CK_CALL_HEADER + 16 + draw(w, head);
			if (at < head)
				m->bytes[at] ^= (unsigned char)(1u << draw(w, 8));
		}
		break;
	}
}

void message_make(struct world *w, struct message *m)
{
	while (!message_encode(w, m, draw_proc(w)))
		;
	if (draw(w, 2))
		mutate(w, m);
	message_judge(w, m);
}
