/*
 * server/handles.h - objects of a session: the client's id on the wire, the driver's handle here.
 *
 * The client picks ids (small integers, dense); creations travel one-way. An entry knows its
 * kind and its context: a wrong kind, a stale id or an object of a destroyed context is never
 * handed to the driver. Safe from all threads of a session.
 */
#ifndef CK_SERVER_HANDLES_H
#define CK_SERVER_HANDLES_H

#include <stdbool.h>
#include <stdint.h>

#include "cuda/types.h"

struct ck_request;
struct ck_handles;

#define CK_MAX_OBJECTS (1u << 24)	/* ids are below this */

enum ck_kind {
	CK_KIND_NONE,
	CK_KIND_CONTEXT,
	CK_KIND_STREAM,
	CK_KIND_EVENT,
	CK_KIND_MODULE,
	CK_KIND_LIBRARY,
	CK_KIND_FUNCTION,
	CK_KIND_KERNEL,
};

#define CK_KIND_BIT(kind) (1u << (kind))

int ck_handles_create(struct ck_handles **handles);
void ck_handles_destroy(struct ck_handles *handles);

/* Note @handle under @id for context @ctx (0: of no context). INVALID_VALUE: id out of range
 * or taken. */
CUresult ck_handles_put(struct ck_handles *handles, uint64_t id, enum ck_kind kind, uint64_t ctx,
			void *handle);

/* The same for an object that lives inside the one of id @parent and goes with it: a function in
 * its module. INVALID_HANDLE: there is no @parent (any more). */
CUresult ck_handles_put_child(struct ck_handles *handles, uint64_t id, enum ck_kind kind,
			      uint64_t ctx, void *handle, uint64_t parent);

/* What is known of an object. */
struct ck_object {
	void *handle;
	enum ck_kind kind;
	uint64_t ctx;
	uint64_t serial; /* of this entry alone, for ever: ids and handles are used again */
};

/* The handle of @id, NULL when there is none of that kind. */
void *ck_handles_get(struct ck_handles *handles, uint64_t id, enum ck_kind kind);

/* The object of @id when its kind is one of @kinds (CK_KIND_BIT, or-ed). */
bool ck_handles_find(struct ck_handles *handles, uint64_t id, unsigned int kinds,
		     struct ck_object *object);

/* Forget @id and all that lives inside it; no such id: nothing happens. */
void ck_handles_remove(struct ck_handles *handles, uint64_t id);
/* Forget everything that belongs to @ctx (its context has gone), but not @ctx itself. */
void ck_handles_drop_context(struct ck_handles *handles, uint64_t ctx);

/*
 * What generated handlers call. Streams 0, 1 and 2 stand for themselves. A function id may name
 * a kernel: ck_function_find then gives the function of the current context.
 */
bool ck_context_find(struct ck_request *q, uint64_t id, CUcontext *out);
bool ck_stream_find(struct ck_request *q, uint64_t id, CUstream *out);
bool ck_event_find(struct ck_request *q, uint64_t id, CUevent *out);
bool ck_module_find(struct ck_request *q, uint64_t id, CUmodule *out);
bool ck_library_find(struct ck_request *q, uint64_t id, CUlibrary *out);
bool ck_function_find(struct ck_request *q, uint64_t id, CUfunction *out);
bool ck_kernel_find(struct ck_request *q, uint64_t id, CUkernel *out);
CUresult ck_stream_put(struct ck_request *q, uint64_t id, CUstream handle);
CUresult ck_event_put(struct ck_request *q, uint64_t id, CUevent handle);
void ck_handle_remove(struct ck_request *q, uint64_t id);

#endif
