/*
 * client/wire/object.h - the objects behind the handles that the application holds.
 *
 * A handle is the address of a slot in one reserved region, so that any value can be checked
 * without touching memory that may not be there. The slot's index is the object's id on the
 * wire (D6): the client names things.
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
	CK_OBJECT_MODULE,		/* and libraries: .library tells */
	CK_OBJECT_FUNCTION,		/* and kernels of libraries */
	/* Kinds without a structure of their own here hold nothing but the head. */
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
	struct ck_context *context;	/* owner; NULL for what belongs to no context */
};

/* What the server watches for us, so that it is not asked again: client/wire/status.h. */
struct ck_watch {
	_Atomic uint64_t of;		/* what is watched, or was last; 0: nothing ever */
	_Atomic uint64_t number;
	_Atomic uint64_t asked_ns;	/* when the server said last that it is not done */
};

struct ck_local;			/* context-local storage, client/objects/context.c */

struct ck_context {
	struct ck_object object;
	struct ck_client *client;	/* whose it is: what is done in it is done there */
	int device;			/* ordinal of the application */
	unsigned int flags;
	bool primary;
	_Atomic bool active;		/* primary: retained by someone; others: not destroyed */
	bool was_active;
	unsigned int retained;		/* primary: how often */
	_Atomic uint64_t unique_id;	/* cuCtxGetId; new after a reset, never used again */
	_Atomic int fault;		/* CUresult that every call returns from now on, or 0 */
	_Atomic uint64_t synced;	/* number of the last command that a synchronise covered */
	_Atomic uint64_t legacy_synced;	/* the same of its legacy stream alone */
	_Atomic uint64_t legacy_done;	/* as a stream's done and watch */
	struct ck_watch legacy_watch;
	struct ck_green *green;		/* whose converted form this is, or NULL */
	uint64_t copies;		/* id of the stream that moves managed pages, or 0 */
};

struct ck_green {
	struct ck_object object;
	int device;
	struct ck_context *context;	/* its converted form, once asked for */
};

struct ck_stream {
	struct ck_object object;
	unsigned int flags;
	int priority;
	uint64_t born;			/* number of the last command before it was made */
	_Atomic uint64_t synced;	/* number of the last command that was waited for in it */
	_Atomic uint64_t done;		/* the same, as a query has told */
	struct ck_watch watch;
	_Atomic uint64_t capture;	/* client/objects/capture.h: the one that it is or was part of */
	CUgreenCtx green;		/* whose stream it is, or NULL */
};

struct ck_event {
	struct ck_object object;
	unsigned int flags;
	_Atomic uint64_t capture;	/* in which it was last recorded; 0: in none */
	_Atomic bool recorded;
	_Atomic bool elsewhere;		/* graphs, kernels or other processes may record it */
	/* Of records, client/objects/event.c: of the last one, odd while one is being sent; and that number, of
	 * the one that is known to be done, of the one that was waited for. */
	_Atomic uint64_t version, done, waited;
	_Atomic uint64_t stream, at;	/* id of the last record's stream; a command not before it */
	struct ck_watch watch;
};

/* A graph's nodes as far as the application has been told of them; client/graphs/graph.h. */
struct ck_graph {
	struct ck_object object;
	struct ck_node *nodes;
	struct ck_node *inside;		/* the node that it belongs to: a child, a conditional's */
	struct ck_graph *next;		/* the next one in that node */
};

struct ck_node {
	struct ck_object object;
	struct ck_graph *graph;
	struct ck_node *next, *prev;	/* in it */
	struct ck_graph *inner;		/* the first of its own graphs */
	void *kept;			/* what the last question for its parameters points to */
};

struct ck_exec {
	struct ck_object object;
	uint64_t *mirrors;		/* host memory of its copies: client/copy/mirror.h */
	unsigned int mirror_count;
};

#define CK_LAUNCHED 8 /* more devices share places */

struct ck_function {
	struct ck_object object;
	struct ck_module *module;
	const struct ck_kernel *kernel;	/* name and parameter layout; lives with the module */
	_Atomic bool announced;		/* ck_function has been sent */
	_Atomic uint8_t launched[CK_LAUNCHED];	/* by device: mark of the context of the last launch */
	_Atomic int max_dynamic_shared;	/* as set by cuFuncSetAttribute; 0: the default */
	uint16_t set;			/* bit per attribute that has been set, */
	int value[CU_FUNC_ATTRIBUTE_MAX]; /* and to what */
};

struct ck_module {
	struct ck_object object;
	bool library;
	struct ck_code *code;		/* kernels by name; shared with the library's module */
	struct ck_function **functions;	/* by index in code; made when first asked for */
	struct ck_module *origin;	/* of a library's module in some context: the library */
	struct ck_module *modules, *next; /* a library's modules, one a context at most */
	uint64_t *variables;		/* addresses noted as allocations */
	unsigned int variable_count;
};

struct ck_pool {
	struct ck_object object;
	uint64_t unique;		/* tells it from all others, past ones included */
	unsigned int handle_types;	/* CUmemAllocationHandleType, or-ed */
	bool located;			/* device is known */
	int device;			/* ordinal of the application */
};

struct ck_physical {
	struct ck_object object;
	uint64_t unique;
	CUmemAllocationProp prop;	/* its device is the application's */
};

/* An array or a reference: it may live inside a mipmapped array or a module. */
struct ck_inmate {
	struct ck_object object;
	uint64_t parent;		/* id of what it goes with; 0: nothing */
	_Atomic bool described;
	CUDA_ARRAY3D_DESCRIPTOR desc;	/* of an array, once it has been asked for */
};

/* A log that the application wants: its buffer, the room in it, and the slot that held the room
 * and takes the length. */
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

/* A new object of @kind, zeroed but for its head; NULL when there is no room. */
void *ck_object_new(enum ck_object_kind kind, struct ck_context *context);
void ck_object_free(void *object);

/* @object has been filled in: a thread whose ck_object_check finds it sees it so, in whatever way the
 * application has handed it over. For objects that the application learns of while others are used. */
void ck_object_filled(void *object);

/* The object behind @handle if it is a live one of @kind, else NULL; never faults. */
void *ck_object_check(const void *handle, enum ck_object_kind kind);

/*
 * What generated stubs do with kinds that need no more than a handle. make: a new object of the
 * current context, or of none where CUDA says so; OUT_OF_MEMORY. by_id: a live object, or NULL.
 * end: free it, if it is there.
 */
CUresult ck_object_make(enum ck_object_kind kind, uint64_t *id);
void *ck_object_by_id(enum ck_object_kind kind, uint64_t id);
void ck_object_end(enum ck_object_kind kind, uint64_t id);

/* The object of an id that the server has told: it may have picked the id itself, and the object
 * is then made here when first told. NULL: out of memory, or of another kind. */
void *ck_object_named(enum ck_object_kind kind, uint64_t id);

/* Call @fn for each live object of @context; it may free the object. */
void ck_object_each(struct ck_context *context, void (*fn)(struct ck_object *object));

#endif
