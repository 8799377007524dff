/*
 * client/link/object.h - the objects behind the handles that the application holds.
 *
 * A handle is the address of a slot in one reserved region. So any value can be checked without
 * touching memory that may not be mapped. The slot's index is the object's id on the wire (D6): the
 * client assigns ids.
 */
#ifndef CK_CLIENT_LINK_OBJECT_H
#define CK_CLIENT_LINK_OBJECT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "cuda/types.h"
#include "elf/kernels.h"

enum ckc_object_kind {
	CK_OBJECT_NONE,
	CK_OBJECT_CONTEXT,
	CK_OBJECT_STREAM,
	CK_OBJECT_EVENT,
	CK_OBJECT_MODULE,   /* or a library: see .library */
	CK_OBJECT_FUNCTION, /* or a kernel of a library */
	/* Kinds without a structure of their own consist of the head only. */
	CK_OBJECT_GRAPH,
	CK_OBJECT_NODE,
	CK_OBJECT_EXEC,
	CK_OBJECT_ARRAY,
	CK_OBJECT_MIPMAP,
	CK_OBJECT_POOL,
	CK_OBJECT_PHYSICAL, /* CUmemGenericAllocationHandle */
	CK_OBJECT_GREEN,
	CK_OBJECT_RESOURCES, /* CUdevResourceDesc */
	CK_OBJECT_LINK,
	CK_OBJECT_TEXREF,
	CK_OBJECT_SURFREF,
	CK_OBJECT_USER,
};

#define CKC_ALL_SESSIONS 0xffff /* libraries and their kernels are on each server, under one id */

struct ckc_object {
	uint32_t magic; /* 0 in a free slot */
	uint16_t kind;
	uint16_t session;	     /* index of its session (servers.h) */
	uint64_t id;		     /* on the wire; never 0, 1 or 2 */
	struct ckc_context *context; /* owner; NULL: belongs to no context */
};

/* An object that the server watches for the client, to save queries: client/wire/status.h. */
struct ckc_watch {
	_Atomic uint64_t of; /* the current or last target; 0: none yet */
	_Atomic uint64_t number;
	_Atomic uint64_t asked_ns; /* when the server last reported "not done" */
};

struct ck_local; /* context-local storage, client/objects/context.c */

struct ckc_context {
	struct ckc_object object;
	struct ckc_client *client; /* its session: calls in this context go there */
	int device;		   /* ordinal of the application */
	unsigned int flags;
	bool primary;
	_Atomic bool active; /* primary: retained; others: not destroyed */
	bool was_active;
	unsigned int retained;		/* primary: retain count */
	_Atomic uint64_t unique_id;	/* cuCtxGetId; new after a reset, never reused */
	_Atomic int fault;		/* CUresult that every call returns from now on, or 0 */
	_Atomic uint64_t synced;	/* number of the last command that a synchronise covered */
	_Atomic uint64_t legacy_synced; /* the same for its legacy stream alone */
	_Atomic uint64_t legacy_done;	/* as the fields of a stream */
	struct ckc_watch legacy_watch;
	struct ckc_green *green; /* whose converted form this is, or NULL */
	uint64_t copies;	 /* id of the stream that moves managed pages, or 0 */
};

struct ckc_green {
	struct ckc_object object;
	int device;
	struct ckc_context *context; /* its converted form, once requested */
};

struct ckc_stream {
	struct ckc_object object;
	unsigned int flags;
	int priority;
	uint64_t born;		 /* number of the last command before it was created */
	_Atomic uint64_t synced; /* number of the last command that a wait in it covered */
	_Atomic uint64_t done;	 /* the same, as found by a query */
	struct ckc_watch watch;
	_Atomic uint64_t capture; /* client/objects/capture.h: current or last capture */
	CUgreenCtx green;	  /* set if it is a green context's stream, or NULL */
};

struct ckc_event {
	struct ckc_object object;
	unsigned int flags;
	_Atomic uint64_t capture; /* of its last record; 0: none */
	_Atomic bool recorded;
	_Atomic bool elsewhere; /* graphs, kernels or other processes may record it */
	/* Versions of records (client/objects/event.c): of the last record, odd while it is being
	 * sent; of the last one known to be done; of the last one waited for. */
	_Atomic uint64_t version, done, waited;
	_Atomic uint64_t stream, at; /* id of the last record's stream; a command not before it */
	_Atomic uint64_t before;     /* the last command before it */
	_Atomic uint64_t order;	     /* client/objects/event_times.c: its number; 0: none */
	struct ckc_watch watch;
};

/* The nodes of a graph that the application has been given; client/graphs/graph.h. */
struct ckc_graph {
	struct ckc_object object;
	struct ckc_node *nodes;
	struct ckc_node *inside; /* the node that contains it */
	struct ckc_graph *next;	 /* the next graph in that node */
	size_t count;		 /* its nodes, if @counted: graphs/graph.h */
	bool counted;
};

struct ckc_node {
	struct ckc_object object;
	struct ckc_graph *graph;
	struct ckc_node *next, *prev; /* in the graph */
	struct ckc_graph *inner;      /* the first graph inside it */
	void *kept;		      /* memory behind the last returned parameters */
};

struct ckc_exec {
	struct ckc_object object;
	uint64_t *mirrors; /* host memory of its copies: client/copy/mirror.h */
	unsigned int mirror_count;
	bool clash; /* they cannot give its copies the right bytes */
	bool launched;
};

#define CK_LAUNCHED 8 /* further devices share entries */

struct ck_function {
	struct ckc_object object;
	struct ckc_module *module;
	const struct ck_kernel *kernel; /* name and parameter layout; lives with the module */
	_Atomic uint16_t announced;	/* ck_function has been sent: a bit for each session */
	_Atomic uint8_t launched[CK_LAUNCHED]; /* by device: mark of its last launch's context */
	_Atomic int max_dynamic_shared;	       /* as set by cuFuncSetAttribute; 0: the default */
	uint16_t set;			       /* a bit for each attribute that was set */
	int value[CU_FUNC_ATTRIBUTE_MAX];      /* and its value */
};

struct ckc_module {
	struct ckc_object object;
	bool library;
	bool tuned;			/* compiled from PTX with options */
	uint16_t absent;		/* library: a bit for each session that has no code of it */
	struct ckc_code *code;		/* kernels by name; shared with the library's module */
	struct ck_function **functions; /* by index in code; made on first use */
	struct ckc_module *origin;	/* the library, for a library's module in some context */
	struct ckc_module *modules, *next; /* a library's modules, at most one per context */
	uint64_t *variables;		   /* addresses noted as allocations */
	unsigned int variable_count;
};

/* The bytes of a pool's allocations in the session's arena; the server knows the rest. */
struct ckc_pool_use {
	_Atomic uint64_t used, used_high;	  /* bytes */
	_Atomic uint64_t reserved, reserved_high; /* whole chunks; kept when freed */
	_Atomic uint64_t threshold;		  /* bytes that stay reserved after a synchronise */
	_Atomic bool elsewhere; /* other devices or processes use it: the server allocates */
};

struct ckc_pool {
	struct ckc_object object;
	uint64_t unique;	   /* distinguishes it from all others, past ones included */
	unsigned int handle_types; /* CUmemAllocationHandleType, or-ed */
	bool located;		   /* device is known */
	bool standard;		   /* the default pool of its device: its use is the arena's */
	bool host;     /* the server does not know it (client/memory/pools/host_pool.h) */
	uint8_t reuse; /* host: a bit per attribute, as set */
	int device;    /* ordinal of the application */
	struct ckc_pool_use use;
	CUmemLocation place; /* host: where */
	uint64_t most;	     /* host: bytes that it may reserve */
	uint64_t access;     /* host: a bit per device, as set */
};

struct ckc_physical {
	struct ckc_object object;
	uint64_t unique;
	CUmemAllocationProp prop;   /* its device is the application's */
	int device;		    /* that has the memory, also if it is the host's */
	_Atomic unsigned int again; /* times that the program was given the same handle again */
};

/* An array or a reference; it may belong to a mipmapped array or a module. */
struct ckc_inmate {
	struct ckc_object object;
	uint64_t parent; /* id of the object it is freed with; 0: none */
	_Atomic bool described;
	CUDA_ARRAY3D_DESCRIPTOR desc; /* of an array, once it has been queried */
};

/* A log that the application requested: its buffer, the size of it, and the slot that held the size
 * and receives the length. */
struct ckc_jit_log {
	char *buffer;
	size_t room;
	void **size;
};

struct ckc_link {
	struct ckc_object object;
	struct ckc_jit_log info, error;
	void *cubin; /* once it is complete */
	size_t size;
};

/* Make an object of @kind, zeroed except for its head. NULL: out of memory. */
void *ckc_object_new(enum ckc_object_kind kind, struct ckc_context *context);
void ckc_object_free(void *object);

/* Publish @object: a thread that finds it with ckc_object_check sees it complete, however the
 * application passed the handle. For objects that are filled while other threads may use them. */
void ckc_object_filled(void *object);

/* The live object of @kind behind @handle, else NULL; never faults. */
void *ckc_object_check(const void *handle, enum ckc_object_kind kind);

/*
 * Used by generated stubs, for kinds that need only a handle. make: a new object of the current
 * context, or of none where CUDA says so; OUT_OF_MEMORY. by_id: a live object, or NULL. end: free
 * it, if it exists.
 */
CUresult ckc_object_make(enum ckc_object_kind kind, uint64_t *id);
void *ckc_object_by_id(enum ckc_object_kind kind, uint64_t id);
void ckc_object_end(enum ckc_object_kind kind, uint64_t id);

/* The object of an id from the server. The server may have chosen the id; the object is then made
 * here on first sight. NULL: out of memory, or the id is of another kind. */
void *ckc_object_named(enum ckc_object_kind kind, uint64_t id);

/* The session and the context of the object with this id; NULL: of all sessions, or unknown. */
struct ckc_client *ckc_object_session(uint64_t id, struct ckc_context **context);

/* Call @fn for each live object of @context; it may free the object. */
void ckc_object_each(struct ckc_context *context,
		     void (*fn)(struct ckc_object *object, void *closure), void *closure);

#endif
