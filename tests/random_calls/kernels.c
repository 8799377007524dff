/* tests/random_calls/kernels.c - kernels, functions of the host, and memory that lives in a
 * stream. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/random_calls/world.h"

enum { MIX, ADD, SLOW, TABLE, MANY, KERNELS };

#define HEAD(name, params) ".visible .entry " name "(" params ") {\n"
#define INDEX                                                                                      \
	"	.reg .pred %p<4>; .reg .b32 %r<12>; .reg .b64 %d<8>;\n"                                  \
	"	mov.u32 %r0, %ctaid.x; mov.u32 %r1, %ntid.x; mov.u32 %r2, %tid.x;\n"                     \
	"	mad.lo.s32 %r3, %r0, %r1, %r2;\n"
#define BOUND "	setp.ge.u32 %p0, %r3, %r4; @%p0 ret;\n"

static const char ptx[] = ".version 7.0\n.target sm_75\n.address_size 64\n"
			  ".visible .global .align 16 .b8 table[65536];\n"
	/* mix: p[i] = p[i] * 5 + value + i, bytes */
	HEAD("mix", ".param .u64 p, .param .u32 n, .param .u32 value") INDEX
	"	ld.param.u64 %d0, [p]; ld.param.u32 %r4, [n]; ld.param.u32 %r5, [value];\n" BOUND
	"	cvt.u64.u32 %d1, %r3; add.s64 %d0, %d0, %d1;\n"
	"	ld.global.u8 %r6, [%d0]; mad.lo.s32 %r6, %r6, 5, %r5; add.s32 %r6, %r6, %r3;\n"
	"	st.global.u8 [%d0], %r6; ret;\n}\n"
	/* add: to[i] = to[i] + from[i], bytes */
	HEAD("add", ".param .u64 to, .param .u64 from, .param .u32 n") INDEX
	"	ld.param.u64 %d0, [to]; ld.param.u64 %d2, [from]; ld.param.u32 %r4, [n];\n" BOUND
	"	cvt.u64.u32 %d1, %r3; add.s64 %d0, %d0, %d1; add.s64 %d2, %d2, %d1;\n"
	"	ld.global.u8 %r6, [%d0]; ld.global.u8 %r7, [%d2]; add.s32 %r6, %r6, %r7;\n"
	"	st.global.u8 [%d0], %r6; ret;\n}\n"
	/* slow: p[i] = p[i] + value, bytes, after some time */
	HEAD("slow", ".param .u64 p, .param .u32 n, .param .u32 value") INDEX
	"	ld.param.u64 %d0, [p]; ld.param.u32 %r4, [n]; ld.param.u32 %r5, [value];\n" BOUND
	"	cvt.u64.u32 %d1, %r3; add.s64 %d0, %d0, %d1; mov.u32 %r7, 0;\n"
	"LOOP:	add.s32 %r7, %r7, 1; setp.lt.u32 %p1, %r7, 2000; @%p1 bra LOOP;\n"
	"	ld.global.u8 %r6, [%d0]; add.s32 %r6, %r6, %r5;\n"
	"	st.global.u8 [%d0], %r6; ret;\n}\n"
	/* addtable: p[i] = p[i] + table[i], bytes */
	HEAD("addtable", ".param .u64 p, .param .u32 n") INDEX
	"	ld.param.u64 %d0, [p]; ld.param.u32 %r4, [n];\n" BOUND
	"	cvt.u64.u32 %d1, %r3; add.s64 %d0, %d0, %d1; mov.u64 %d2, table; add.s64 %d2, %d2, "
	"%d1;\n"
	"	ld.global.u8 %r6, [%d0]; ld.global.u8 %r7, [%d2]; add.s32 %r6, %r6, %r7;\n"
	"	st.global.u8 [%d0], %r6; ret;\n}\n"
	/* many: *to[0] += *from[0] and so on, by a structure of pointers */
	HEAD("many", ".param .align 8 .b8 all[64], .param .u32 n") INDEX
	"	ld.param.u64 %d0, [all]; ld.param.u64 %d2, [all+24]; ld.param.u64 %d3, [all+48]; "
	"ld.param.u32 %r4, [n];\n" BOUND "	cvt.u64.u32 %d1, %r3; add.s64 %d0, %d0, %d1; "
	"add.s64 %d2, %d2, %d1; add.s64 %d3, %d3, %d1;\n"
	"	ld.global.u8 %r6, [%d0]; ld.global.u8 %r7, [%d2]; ld.global.u8 %r8, [%d3];\n"
	"	add.s32 %r6, %r6, %r7; xor.b32 %r6, %r6, %r8; st.global.u8 [%d0], %r6; ret;\n}\n";

static const char *const names[KERNELS] = {"mix", "add", "slow", "addtable", "many"};

void load_kernels(struct world *w)
{
	CALL(w, cuModuleLoadData, &w->module, ptx);
	for (int i = 0; i < KERNELS; i++)
		CALL(w, cuModuleGetFunction, &w->function[i], w->module, names[i]);
}

/* A launch, as the graphs' nodes have it too. */
static void prepare_two(struct world *w, struct launch *l, struct buffer *to, struct buffer *from)
{
	l->n = 1 + below(w, 600);
	l->n = l->n > to->size ? (unsigned)to->size : l->n;
	l->n = l->n > from->size ? (unsigned)from->size : l->n;
	l->to = to->device + below(w, (unsigned)(to->size - l->n + 1));
	l->from = from->device + below(w, (unsigned)(from->size - l->n + 1));
	l->uses[l->count++] = (struct use){to, true};
	if (from != to)
		l->uses[l->count++] = (struct use){from, false};
}

/* Parameters of some kernel, and what it uses. A sum of two places of one buffer would be a
 * race. */
void prepare_launch(struct world *w, struct launch *l)
{
	unsigned kind = below(w, KERNELS);
	struct buffer *to = some_buffer(w, on_device), *from = some_buffer(w, on_device),
		      *third = some_buffer(w, on_device);

	*l = (struct launch){.value = (unsigned)draw(w)};
	if ((kind == ADD || kind == MANY) && to == from)
		kind = MIX;
	if ((kind == MANY && (third == to || third == from || third->size < 600)) ||
	    (kind == TABLE && w->table == NULL) || (kind == TABLE && w->table == to))
		kind = MIX;
	prepare_two(w, l, to, kind == ADD || kind == MANY ? from : kind == TABLE ? w->table : to);
	l->function = w->function[kind];
	l->params[0] = &l->to;
	l->params[1] = kind == ADD ? (void *)&l->from : (void *)&l->n;
	l->params[2] = kind == ADD ? (void *)&l->n : (void *)&l->value;
	if (kind == MANY) {
		l->all[0] = l->to;
		l->all[3] = l->from;
		l->all[6] = third->device;
		l->params[0] = l->all;
		l->uses[l->count++] = (struct use){third, false};
	}
	l->threads = 32u << below(w, 3);
	l->blocks = (l->n + l->threads - 1) / l->threads;
}

void launch(struct world *w)
{
	unsigned s = some_stream(w);
	struct launch l;
	CUlaunchConfig config;

	prepare_launch(w, &l);
	submit(w, s, l.uses, l.count);
	config = (CUlaunchConfig){l.blocks, 1, 1, l.threads, 1, 1, 0, w->stream[s], NULL, 0};
	if (one_in(w, 3))
		CALL(w, cuLaunchKernelEx, &config, l.function, l.params, NULL);
	else
		CALL(w, cuLaunchKernel, l.function, l.blocks, 1, 1, l.threads, 1, 1, 0,
		     w->stream[s], l.params, NULL);
}

/* What a function of the host does to a buffer; it lives as long as the world. */
struct job {
	struct job *next;
	struct world *world;
	unsigned char *bytes;
	size_t size;
	unsigned char value;
	bool writes;
	unsigned sleep;
};

static void do_job(void *data)
{
	struct job *job = data;

	if (job->sleep != 0)
		usleep(job->sleep);
	if (job->writes)
		for (size_t i = 0; i < job->size; i++)
			job->bytes[i] = (unsigned char)(job->bytes[i] * 3 + job->value + i);
	else
		job->world->heard += digest(job->bytes, job->size) * (2u * job->value + 1);
}

static void do_callback(CUstream stream, CUresult status, void *data)
{
	(void)stream;
	if (status == CUDA_SUCCESS)
		do_job(data);
}

/* A function for a graph or a stream, which uses what is in @use. */
CUDA_HOST_NODE_PARAMS prepare_job(struct world *w, struct use *use)
{
	struct buffer *b = some_buffer(w, on_host);
	struct job *job = calloc(1, sizeof(*job));

	job->world = w;
	job->bytes = b->host + below(w, (unsigned)b->size);
	job->size = 1 + below(w, (unsigned)(b->host + b->size - job->bytes));
	job->value = (unsigned char)draw(w);
	job->writes = one_in(w, 2);
	job->sleep = one_in(w, 4) ? below(w, 3000) : 0;
	*use = (struct use){b, job->writes};
	job->next = w->jobs;
	w->jobs = job;
	return (CUDA_HOST_NODE_PARAMS){do_job, job};
}

void host_function(struct world *w)
{
	unsigned s = some_stream(w);
	struct use use;
	CUDA_HOST_NODE_PARAMS job = prepare_job(w, &use);

	submit(w, s, &use, 1);
	if (w->capture == NULL && one_in(w, 4))
		CALL(w, cuStreamAddCallback, w->stream[s], do_callback, job.userData, 0);
	else
		CALL(w, cuLaunchHostFunc, w->stream[s], job.fn, job.userData);
}

void free_jobs(struct world *w)
{
	while (w->jobs != NULL) {
		struct job *job = w->jobs;

		w->jobs = job->next;
		free(job);
	}
}

/* Memory that a stream allocates, uses and frees; what was in it comes into a buffer. */
void scratch(struct world *w)
{
	struct buffer *b = some_buffer(w, on_device);
	unsigned s = some_stream(w), n = 1 + below(w, 500), value = (unsigned)draw(w);
	CUdeviceptr memory = 0;
	void *params[] = {&memory, &n, &value};

	n = n > b->size ? (unsigned)b->size : n;
	use_one(w, s, b, true);
	if (CALL(w, cuMemAllocAsync, &memory, n + some_size(w, 1 << 20), w->stream[s]) !=
	    CUDA_SUCCESS)
		return;
	CALL(w, cuMemsetD8Async, memory, (unsigned char)value, n, w->stream[s]);
	CALL(w, cuLaunchKernel, w->function[one_in(w, 2) ? MIX : SLOW], (n + 63) / 64, 1, 1, 64, 1,
	     1, 0, w->stream[s], params, NULL);
	CALL(w, cuMemcpyDtoDAsync_v2, b->device, memory, n, w->stream[s]);
	CALL(w, cuMemFreeAsync, memory, w->stream[s]);
}
