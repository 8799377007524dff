/*
 * tests/e2e/throw_judge.c - a model of how the server must treat a message.
 *
 * It decodes with the server's own coders. So a mutation that keeps the session alive can be told
 * from one that must end it, and the server is held to that.
 */
#include <errno.h>
#include <arpa/inet.h>
#include <string.h>

#include "cricket.h"
#include "rpc/proc.h"
#include "rpc/record.h"
#include "tests/e2e/throw.h"
#include "util/util.h"

#define AHEAD ((uint64_t)1 << 40) /* a call may wait for a command no further off */
#define WAIT_FOR_MORE 4096	  /* a long record is judged when so much of it has come */

static uint32_t word_at(const unsigned char *at)
{
	uint32_t word;

	memcpy(&word, at, sizeof(word));
	return ntohl(word);
}

/* Join the message's fragments in @body: their length, -1: not allowed, -2: more is to come. */
static long join(const struct message *m, unsigned char *body)
{
	size_t at = 0, got = 0;
	uint32_t mark;

	do {
		size_t n;

		if (m->size - at < 4)
			return -2;
		mark = word_at(m->bytes + at);
		n = mark & ~LAST;
		at += 4;
		if (n == 0 && (!(mark & LAST) || got == 0))
			return -1;
		if ((!(mark & LAST) || got > 0) && n > CK_RECORD_MAX - got)
			return -1;
		if (n > m->size - at)
			return -2;
		memcpy(body + got, m->bytes + at, n);
		got += n;
		at += n;
	} while (!(mark & LAST));
	return at == m->size ? (long)got : -2;
}

static size_t bulk_of(const struct ck_proc *proc, const char *args)
{
	u_int size = 0;

	for (const struct ck_field *f = proc->in; proc->bulk_in && f && f->name; f++) {
		if (f->kind == CK_FIELD_BULK)
			memcpy(&size, args + f->offset, sizeof(size));
	}
	return CK_ALIGN_UP((size_t)size, 4u);
}

/* A kernel of so many blocks runs for hours: that is no malformed message. */
static bool runs_long(uint32_t number, const void *args)
{
	const ck_launch_args *a = args;

	return number == CK_PROC_launch && a->gx && a->gy && a->gz && a->bx && a->by && a->bz &&
	       (uint64_t)a->gx * a->gy > 1000 / a->gz;
}

/* Of the right procedure for its connection: does it decode, and is it its turn? */
static enum fate judge_args(const struct world *w, bool command, uint32_t number,
			    const unsigned char *body, size_t at, size_t size)
{
	static uint64_t args[ARGS_WORDS];
	const struct ck_proc *proc = ck_proc(number);
	/* No more of a long record than this is looked at. */
	size_t seen = size > CK_RECORD_MAX ? WAIT_FOR_MORE : size;
	const struct ck_head *head = (const void *)args;
	enum fate fate = GOES_ON;
	XDR xdrs;

	memset(args, 0, sizeof(args));
	xdrmem_create(&xdrs, (char *)body + at, (u_int)(seen - at), XDR_DECODE);
	if (!proc->xdr_args(&xdrs, args) ||
	    at + xdr_getpos(&xdrs) + bulk_of(proc, (char *)args) != size)
		fate = ENDS;
	else if (command)
		fate = head->seq != w->seq + 1 ? ENDS : GOES_ON;
	else if (head->seq > w->seq)
		fate = head->seq > 2 * AHEAD ? ENDS : UNKNOWN;
	if (fate == GOES_ON && runs_long(number, args))
		fate = UNKNOWN;
	xdr_free(proc->xdr_args, (char *)args);
	return fate;
}

void message_judge(const struct world *w, struct message *m)
{
	static unsigned char body[THROW_MAX];
	struct ck_call_header header;
	const struct ck_proc *proc;
	long size = join(m, body);
	int ret;

	m->fate = size == -2 ? UNKNOWN : ENDS;
	if (size < 0)
		return;
	ret = ck_call_decode(body, (size_t)size, &header);
	if (ret == -EPROTONOSUPPORT && !m->command)
		m->fate = GOES_ON;
	if (ret < 0)
		return;
	proc = ck_proc(header.proc);
	if (m->command) {
		if (header.program != CK_PROGRAM || header.version != CK_VERSION || !proc ||
		    !proc->one_way)
			return;
	} else if (header.program != CK_PROGRAM || header.version != CK_VERSION || !proc) {
		m->fate = header.proc == CK_BYE ? UNKNOWN : GOES_ON;
		return;
	} else if (proc->one_way) {
		return;
	}
	m->fate = judge_args(w, m->command, header.proc, body, header.size, (size_t)size);
}
