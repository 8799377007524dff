/*
 * tests/random_calls/world.h - a random program of the driver API, as one thread makes it.
 *
 * A world has a context, streams, events, graphs and buffers of all kinds of memory. The program is
 * legal: whatever uses a buffer is ordered behind what it conflicts with. To know what is ordered,
 * each stream, and the host as stream 0, has a vector clock: known[s][t] is how many operations of
 * stream t are complete when the next one of stream s begins.
 */
#ifndef CK_TEST_RANDOM_CALLS_WORLD_H
#define CK_TEST_RANDOM_CALLS_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "driver.h"

enum { HOST, LEGACY, PER_THREAD, FIRST_CREATED, STREAMS = FIRST_CREATED + 4 };
enum { BUFFERS = 20, ARRAYS = 4, EVENTS = 6, GRAPHS = 3, USES = 8 };

enum kind {
	DEVICE,
	PITCHED,
	POOLED,
	MAPPED,
	MANAGED,
	PINNED,
	REGISTERED,
	PAGEABLE,
	VARIABLE,
	KINDS
};

struct buffer {
	enum kind kind;
	unsigned char *host; /* NULL: the host has no access */
	CUdeviceptr device;  /* 0: a kernel has none */
	size_t size;
	void *allocated;
	CUmemGenericAllocationHandle memory;
	CUdeviceptr range, alias;	   /* of MAPPED */
	CUarray array;			   /* NULL: it is none; the rest is of an array */
	size_t width, height, depth, unit; /* bytes, rows, planes, bytes of an element */
	int graphs;			   /* that name it */
};

/* What is known of the order, of a program or of a capture. */
struct order {
	unsigned known[STREAMS][STREAMS];
	struct {
		unsigned writer, written;
		unsigned read[STREAMS];
	} of[BUFFERS + ARRAYS];
};

struct use {
	struct buffer *buffer;
	bool write;
};

enum { MOST_KERNELS = 8 };

/* A launch of some kernel, and what it uses. */
struct launch {
	CUfunction function;
	CUdeviceptr to, from, all[8];
	unsigned n, value, blocks, threads, count;
	struct use uses[3];
	void *params[3];
};

enum { NODES = 8 };

/* A node of a graph that is built, and what it uses. */
struct node {
	CUgraphNode node;
	CUgraphNodeParams params;
	struct launch launch;
	struct use uses[3];
	unsigned count;
};

struct graph {
	CUgraph graph;
	CUgraphExec exec;
	struct use uses[BUFFERS + ARRAYS];
	unsigned count;
	struct node nodes[NODES]; /* of one that was built */
	unsigned built;
};

struct world {
	unsigned number, step;
	uint64_t seed, random;
	bool shared; /* its context, with other worlds */
	bool arrays; /* it has some: seeds below 1000 remain the programs that they were */
	CUdevice device;
	CUcontext context;
	CUmodule module;
	CUfunction function[MOST_KERNELS];
	struct buffer *table; /* the module's variable, or NULL */
	struct job *jobs;     /* of host functions */
	CUmemoryPool pool;
	CUstream stream[STREAMS];
	bool blocking[STREAMS];
	CUevent event[EVENTS];
	struct buffer buffer[BUFFERS + ARRAYS]; /* the last ones are arrays */
	struct graph graph[GRAPHS];
	CUdeviceptr flags; /* a word a stream, for waits for values */
	cuuint32_t flag;
	struct order real, captured, *order; /* the latter is one of the others */
	struct graph *capture;		     /* NULL: none */
	unsigned capturing, forked;	     /* its first stream, and a bit a stream */
	_Atomic uint64_t heard;		     /* what host functions have seen */
	char *out;
	size_t length, room;
};

/* The driver's function NAME, looked up once. */
void *look_up(const char *name);
#define CU(name)                                                                                   \
	({                                                                                         \
		static __typeof__(((struct ck_driver *)0)->name) found;                            \
		if (found == NULL)                                                                 \
			found = look_up(#name);                                                    \
		found;                                                                             \
	})
/* Calls NAME, and notes an error. */
#define CALL(w, name, ...) note(w, #name, CU(name)(__VA_ARGS__))

CUresult note(struct world *w, const char *name, CUresult err);
__attribute__((format(printf, 2, 3))) void say(struct world *w, const char *format, ...);
__attribute__((format(printf, 2, 3))) void trace(const struct world *w, const char *format, ...);

/* Random numbers: the same for a seed. below(w, 0) is not called. */
uint64_t draw(struct world *w);
unsigned below(struct world *w, unsigned end);
bool one_in(struct world *w, unsigned chances);
size_t some_size(struct world *w, size_t most);
uint64_t digest(const void *bytes, size_t size);
void scribble(struct world *w, void *bytes, size_t size);

/* order.c */
void keep_in_graph(struct graph *g, const struct use *use);
void submit(struct world *w, unsigned s, const struct use *uses, unsigned count);
void use_one(struct world *w, unsigned s, struct buffer *b, bool write);
void use_as_memory(struct world *w, unsigned s, struct buffer *b);
void use_two(struct world *w, unsigned s, struct buffer *dst, struct buffer *src);
void waited(struct world *w, unsigned s);
void waited_for_all(struct world *w);
unsigned reads_of(struct world *w, unsigned s, struct buffer *b);
void read_is_over(struct world *w, unsigned s, struct buffer *b, unsigned before);
unsigned some_stream(struct world *w);
void wait_somehow(struct world *w);

/* buffers.c */
bool make_buffer(struct world *w, struct buffer *b);
void free_buffer(struct world *w, struct buffer *b);
void renew_buffer(struct world *w);
void observe(struct world *w, struct buffer *b);
void observe_one(struct world *w);
void host_write(struct world *w);
void ask_pointer(struct world *w);
struct buffer *some_buffer(struct world *w, bool (*fits)(const struct buffer *));
bool on_device(const struct buffer *b);
bool on_host(const struct buffer *b);
bool any(const struct buffer *b);

/* copies.c */
void await_source(struct world *w, struct buffer *src);
void returned(struct world *w, unsigned s, struct buffer *dst, struct buffer *src, unsigned before);
bool prepare_copy(struct world *w, CUDA_MEMCPY3D *copy, struct use *uses);
void copy(struct world *w);
void copy_rectangle(struct world *w);
void copy_batch(struct world *w);
void fill(struct world *w);

/* arrays.c */
void renew_array(struct world *w);
void observe_array(struct world *w);
void copy_array(struct world *w);
bool prepare_array_node(struct world *w, CUDA_MEMCPY3D *copy, struct use *uses);
void free_array(struct world *w, struct buffer *a);

/* kernels.c */
void load_kernels(struct world *w);
void prepare_launch(struct world *w, struct launch *l);
CUDA_HOST_NODE_PARAMS prepare_job(struct world *w, struct use *use);
void free_jobs(struct world *w);
void launch(struct world *w);
void host_function(struct world *w);
void scratch(struct world *w);

/* graphs.c */
void capture_graph(struct world *w);
void build_graph(struct world *w);
void change_graph(struct world *w);
void launch_graph(struct world *w);
void drop_graph(struct world *w, struct graph *g);

/* mistakes.c */
void mistake(struct world *w);

#endif
