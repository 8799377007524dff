/*
 * client/wire/object.h - the objects behind the handles that the application holds.
 *
 * A handle is the address of a slot in one reserved region. So any value can be checked without
 * touching memory that may not be mapped. The slot's index is the object's id on the wire (D6): the
 * client assigns ids.
 */
#ifndef CK_CLIENT_WIRE_OBJECT_H
#define CK_CLIENT_WIRE_OBJECT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "cuda/types.h"
#include "elf/kernels.h"

enum ck_object_kind {
	CK_OBJECT_NONE,
	CK_OBJECT_CONTEXT,
	CK_OBJECT_STREAM,
	CK_OBJECT_EVENT,
	CK_OBJECT_MODULE,		/* or a library: see .library */
	CK_OBJECT_FUNCTION,		/* or a kernel of a library */
	/* Kinds without a structure of their own consist of the head only. */
	CK_OBJECT_GRAPH,
	CK_OBJECT_NODE,
	CK_OBJECT_EXEC,
	CK_OBJECT_ARRAY,
	CK_OBJECT_MIPMAP,
	CK_OBJECT_POOL,
	CK_OBJECT_PHYSICAL,		/* CUmemGenericAllocationHandle */
	CK_OBJECT_GREEN,
	CK_OBJECT_RESOURCES,		/* CUdevResourceDesc */
	CK_OBJECT_LINK,
	CK_OBJECT_TEXREF,
	CK_OBJECT_SURFREF,
	CK_OBJECT_USER,
};

struct ck_object {
	uint32_t magic;			/* 0 in a free slot */
	uint32_t kind;
	uint64_t id;			/* on the wire; never 0, 1 or 2 */
	struct ck_context *context;	/* owner; NULL: belongs to no context */
};

/* An object that the server watches for the client, to save queries: client/wire/status.h. */
struct ck_watch {
	_Atomic uint64_t of;		/* the current or last target; 0: none yet */
	_Atomic uint64_t number;
	_Atomic uint64_t asked_ns;	/* when the server last reported "not done" */
};

struct ck_local;			/* context-local storage, client/objects/context.c */

struct ck_context {
	struct ck_object object;
	struct ck_client *client;	/* its session: calls in this context go there */
	int device;			/* ordinal of the application */
	unsigned int flags;
	bool primary;
	_Atomic bool active;		/* primary: retained; others: not destroyed */
	bool was_active;
	unsigned int retained;		/* primary: retain count */
	_Atomic uint64_t unique_id;	/* cuCtxGetId; new after a reset, never reused */
	_Atomic int fault;		/* CUresult that every call returns from now on, or 0 */
	_Atomic uint64_t synced;	/* number of the last command that a synchronise covered */
	_Atomic uint64_t legacy_synced;	/* the same for its legacy stream alone */
	_Atomic uint64_t legacy_done;	/* as the fields of a stream */
	struct ck_watch legacy_watch;
	struct ck_green *green;		/* whose converted form this is, or NULL */
	uint64_t copies;		/* id of the stream that moves managed pages, or 0 */
};

struct ck_green {
	struct ck_object object;
	int device;
	struct ck_context *context;	/* its converted form, once requested */
};

struct ck_stream {
	struct ck_object object;
	unsigned int flags;
	int priority;
	uint64_t born;			/* number of the last command before it was created */
	_Atomic uint64_t synced;	/* number of the last command that a wait in it covered */
	_Atomic uint64_t done;		/* the same, as found by a query */
	struct ck_watch watch;
	_Atomic uint64_t capture;	/* client/objects/capture.h: current or last capture */
	CUgreenCtx green;		/* set if it is a green context's stream, or NULL */
};

struct ck_event {
	struct ck_object object;
	unsigned int flags;
	_Atomic uint64_t capture;	/* of its last record; 0: none */
	_Atomic bool recorded;
	_Atomic bool elsewhere;		/* graphs, kernels or other processes may record it */
	/* Versions of records (client/objects/event.c): of the last record, odd while it is being
	 * sent; of the last one known to be done; of the last one waited for. */
	_Atomic uint64_t version, done, waited;
	_Atomic uint64_t stream, at;	/* id of the last record's stream; a command not before it */
	struct ck_watch watch;
};

/* The nodes of a graph that the application has been given; client/graphs/graph.h. */
struct ck_graph {
	struct ck_object object;
	struct ck_node *nodes;
	struct ck_node *inside;		/* the node that contains it */
	struct ck_graph *next;		/* the next graph in that node */
};

struct ck_node {
	struct ck_object object;
	struct ck_graph *graph;
	struct ck_node *next, *prev;	/* in the graph */
	struct ck_graph *inner;		/* the first graph inside it */
	void *kept;			/* memory behind the last returned parameters */
};

struct ck_exec {
	struct ck_object object;
	uint64_t *mirrors;		/* host memory of its copies: client/copy/mirror.h */
	unsigned int mirror_count;
};

#define CK_LAUNCHED 8 /* further devices share entries */

struct ck_function {
	struct ck_object object;
	struct ck_module *module;
	const struct ck_kernel *kernel;	/* name and parameter layout; lives with the module */
	_Atomic bool announced;		/* ck_function has been sent */
	_Atomic uint8_t launched[CK_LAUNCHED];	/* by device: mark of its last launch's context */
	_Atomic int max_dynamic_shared;	/* as set by cuFuncSetAttribute; 0: the default */
	uint16_t set;			/* a bit for each attribute that was set */
	int value[CU_FUNC_ATTRIBUTE_MAX]; /* and its value */
};

struct ck_module {
	struct ck_object object;
	bool library;
	struct ck_code *code;		/* kernels by name; shared with the library's module */
	struct ck_function **functions;	/* by index in code; made on first use */
	struct ck_module *origin;	/* the library, for a library's module in some context */
	struct ck_module *modules, *next; /* a library's modules, at most one per context */
	uint64_t *variables;		/* addresses noted as allocations */
	unsigned int variable_count;
};

struct ck_pool {
	struct ck_object object;
	uint64_t unique;		/* distinguishes it from all others, past ones included */
	unsigned int handle_types;	/* CUmemAllocationHandleType, or-ed */
	bool located;			/* device is known */
	int device;			/* ordinal of the application */
};

struct ck_physical {
	struct ck_object object;
	uint64_t unique;
	CUmemAllocationProp prop;	/* its device is the application's */
};

/* An array or a reference; it may belong to a mipmapped array or a module. */
struct ck_inmate {
	struct ck_object object;
	uint64_t parent;		/* id of the object it is freed with; 0: none */
	_Atomic bool described;
	CUDA_ARRAY3D_DESCRIPTOR desc;	/* of an array, once it has been queried */
};

/* A log that the application requested: its buffer, the size of it, and the slot that held the size
 * and receives the length. */
struct ck_jit_log {
	char *buffer;
	size_t room;
	void **size;
};

struct ck_link {
	struct ck_object object;
	struct ck_jit_log info, error;
	void *cubin;			/* once it is complete */
	size_t size;
};

/* Make an object of @kind, zeroed except for its head. NULL: out of memory. */
void *ck_object_new(enum ck_object_kind kind, struct ck_context *context);
void ck_object_free(void *object);

/* Publish @object: a thread that finds it with ck_object_check sees it complete, however the
 * application passed the handle. For objects that are filled while other threads may use them. */
void ck_object_filled(void *object);

/* The live object of @kind behind @handle, else NULL; never faults. */
void *ck_object_check(const void *handle, enum ck_object_kind kind);

/*
 * Used by generated stubs, for kinds that need only a handle. make: a new object of the current
 * context, or of none where CUDA says so; OUT_OF_MEMORY. by_id: a live object, or NULL. end: free
 * it, if it exists.
 */
CUresult ck_object_make(enum ck_object_kind kind, uint64_t *id);
void *ck_object_by_id(enum ck_object_kind kind, uint64_t id);
void ck_object_end(enum ck_object_kind kind, uint64_t id);

/* The object of an id from the server. The server may have chosen the id; the object is then made
 * here on first sight. NULL: out of memory, or the id is of another kind. */
void *ck_object_named(enum ck_object_kind kind, uint64_t id);

/* Call @fn for each live object of @context; it may free the object. */
void ck_object_each(struct ck_context *context, void (*fn)(struct ck_object *object));

#endif
