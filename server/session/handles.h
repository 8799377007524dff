/*
 * server/session/handles.h - objects of a session: the client's id on the wire, and the driver's
 * handle.
 *
 * The client chooses ids (small integers, dense), and creation is one-way. An entry knows its kind
 * and context. So a wrong kind, a stale id or an object of a destroyed context never reaches the
 * driver. Safe from all threads of a session.
 */
#ifndef CK_SERVER_SESSION_HANDLES_H
#define CK_SERVER_SESSION_HANDLES_H

#include <stdbool.h>
#include <stdint.h>

#include "cuda/types.h"

struct cks_request;
struct cks_handles;

#define CK_MAX_OBJECTS (1u << 24) /* ids are below this */
#define CK_OWN_OBJECTS (1u << 23) /* the server chooses ids from here on */

enum cks_kind {
	CK_KIND_NONE,
	CK_KIND_CONTEXT,
	CK_KIND_STREAM,
	CK_KIND_EVENT,
	CK_KIND_MODULE,
	CK_KIND_LIBRARY,
	CK_KIND_FUNCTION,
	CK_KIND_KERNEL,
	CK_KIND_GRAPH,
	CK_KIND_NODE,
	CK_KIND_EXEC,
	CK_KIND_ARRAY,
	CK_KIND_MIPMAP,
	CK_KIND_POOL,
	CK_KIND_PHYSICAL,
	CK_KIND_GREEN,
	CK_KIND_RESOURCES,
	CK_KIND_LINK,
	CK_KIND_TEXREF,
	CK_KIND_SURFREF,
	CK_KIND_USER,
};

#define CK_KIND_BIT(kind) (1u << (kind))

int cks_handles_create(struct cks_handles **handles);
void cks_handles_destroy(struct cks_handles *handles);

/* Note @handle under @id for context @ctx (0: none). INVALID_VALUE: the id is out of range or
 * taken. */
CUresult cks_handles_put(struct cks_handles *handles, uint64_t id, enum cks_kind kind, uint64_t ctx,
			 void *handle);

/* The same for a child of the object @parent, which ends with it: a function in its module.
 * INVALID_HANDLE: @parent does not exist (any more). */
CUresult cks_handles_put_child(struct cks_handles *handles, uint64_t id, enum cks_kind kind,
			       uint64_t ctx, void *handle, uint64_t parent);

/* An entry. */
struct cks_object {
	void *handle;
	enum cks_kind kind;
	uint64_t ctx;
	uint64_t serial; /* unique to this entry: ids and handles are reused */
};

/* The handle of @id; NULL: none of that kind. */
void *cks_handles_get(struct cks_handles *handles, uint64_t id, enum cks_kind kind);

/* The object of @id, if its kind is one of @kinds (CK_KIND_BIT, or-ed). */
bool cks_handles_find(struct cks_handles *handles, uint64_t id, unsigned int kinds,
		      struct cks_object *object);

/*
 * The id of a handle from the driver: its known id, else a new one of the server's own, as a child
 * of @parent unless that is 0. INVALID_VALUE: NULL; OUT_OF_MEMORY.
 */
CUresult cks_handles_name(struct cks_handles *handles, enum cks_kind kind, uint64_t ctx,
			  void *handle, uint64_t parent, uint64_t *id);

/* The id of a handle from the driver, if it has one. */
bool cks_handles_known(struct cks_handles *handles, enum cks_kind kind, const void *handle,
		       uint64_t *id);

/* The id of the parent of @id; 0: none. */
uint64_t cks_handles_parent(struct cks_handles *handles, uint64_t id);
/* Make @id a child of @parent. INVALID_HANDLE: there is no such parent, or it is inside @id. */
CUresult cks_handles_adopt(struct cks_handles *handles, uint64_t id, uint64_t parent);
/* The children of @id of @kind: an array of @count ids; NULL for none. */
uint64_t *cks_handles_children(struct cks_handles *handles, uint64_t id, enum cks_kind kind,
			       size_t *count);

/* The object of @kind with the next id after *@id, which is advanced to it; false: no more. */
bool cks_handles_next(struct cks_handles *handles, uint64_t *id, enum cks_kind kind,
		      struct cks_object *object);

/* Set the mark of @id for its users; returns the previous one, 0 for an unknown id. */
unsigned char cks_handles_mark(struct cks_handles *handles, uint64_t id, unsigned char mark);
/* The number of objects with a mark. */
size_t cks_handles_marked(struct cks_handles *handles);

/*
 * The driver is about to end the object @id and its children, and may then give other threads the
 * same handles: they are not to find these ids by them. @ending false: it has not ended them.
 */
void cks_handles_ending(struct cks_handles *handles, uint64_t id, bool ending);
/* Forget @id and all its children, if it exists. */
void cks_handles_remove(struct cks_handles *handles, uint64_t id);
/* Forget all objects of @ctx, which has ended, but not @ctx itself. */
void cks_handles_drop_context(struct cks_handles *handles, uint64_t ctx);

/*
 * Called by generated handlers. Streams 0, 1 and 2 stand for themselves. A function id may be that
 * of a kernel: cks_function_find then returns the function in the current context.
 */
bool cks_context_find(struct cks_request *q, uint64_t id, CUcontext *out);
bool cks_stream_find(struct cks_request *q, uint64_t id, CUstream *out);
/* The same, with a number that is unique in its context, past ones included. */
bool cks_stream_serial(struct cks_request *q, uint64_t id, CUstream *out, uint64_t *serial);
bool cks_event_find(struct cks_request *q, uint64_t id, CUevent *out);
bool cks_module_find(struct cks_request *q, uint64_t id, CUmodule *out);
bool cks_library_find(struct cks_request *q, uint64_t id, CUlibrary *out);
bool cks_function_find(struct cks_request *q, uint64_t id, CUfunction *out);
bool cks_kernel_find(struct cks_request *q, uint64_t id, CUkernel *out);
CUresult cks_stream_put(struct cks_request *q, uint64_t id, CUstream handle);
CUresult cks_event_put(struct cks_request *q, uint64_t id, CUevent handle);
void cks_handle_remove(struct cks_request *q, uint64_t id);
/* cks_handles_name() for objects of this session; arrays and references belong to the context. */
CUresult cks_handle_name(struct cks_request *q, enum cks_kind kind, void *handle, uint64_t parent,
			 uint64_t *id);

/* For any kind: find a handle; note a new one. */
bool cks_handle_find(struct cks_request *q, uint64_t id, enum cks_kind kind, void **handle);
CUresult cks_handle_put(struct cks_request *q, uint64_t id, enum cks_kind kind, void *handle);

#define CK_HANDLE_KIND(tag, type, kind)                                                            \
	static inline bool cks_##tag##_find(struct cks_request *q, uint64_t id, type *out)         \
	{                                                                                          \
		return cks_handle_find(q, id, kind, (void **)out);                                 \
	}                                                                                          \
	static inline CUresult cks_##tag##_put(struct cks_request *q, uint64_t id, type handle)    \
	{                                                                                          \
		return cks_handle_put(q, id, kind, (void *)(uintptr_t)handle);                     \
	}

CK_HANDLE_KIND(graph, CUgraph, CK_KIND_GRAPH)
CK_HANDLE_KIND(node, CUgraphNode, CK_KIND_NODE)
CK_HANDLE_KIND(exec, CUgraphExec, CK_KIND_EXEC)
CK_HANDLE_KIND(array, CUarray, CK_KIND_ARRAY)
CK_HANDLE_KIND(mipmap, CUmipmappedArray, CK_KIND_MIPMAP)
CK_HANDLE_KIND(pool, CUmemoryPool, CK_KIND_POOL)
CK_HANDLE_KIND(physical, CUmemGenericAllocationHandle, CK_KIND_PHYSICAL)
CK_HANDLE_KIND(green, CUgreenCtx, CK_KIND_GREEN)
CK_HANDLE_KIND(resources, CUdevResourceDesc, CK_KIND_RESOURCES)
CK_HANDLE_KIND(link, CUlinkState, CK_KIND_LINK)
CK_HANDLE_KIND(texref, CUtexref, CK_KIND_TEXREF)
CK_HANDLE_KIND(surfref, CUsurfref, CK_KIND_SURFREF)
CK_HANDLE_KIND(user, CUuserObject, CK_KIND_USER)

#undef CK_HANDLE_KIND

#endif
