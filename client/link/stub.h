/*
 * client/link/stub.h - the functions that generated stubs and hand-written bodies call.
 */
#ifndef CK_CLIENT_LINK_STUB_H
#define CK_CLIENT_LINK_STUB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/link/object.h"
#include "cuda/types.h"
#include "util/util.h"

struct ck_private_fd;

struct ckc_client;

/* Destination of the payload of a reply, filled as it arrives. */
struct ckc_sink {
	void *data;
	size_t size;
};

/* A variable field of a message's structure: @count bytes or ids at @values. */
#define CK_LIST(values, count)                                                                     \
	{                                                                                          \
		(u_int)(count), (void *)(uintptr_t)(values)                                        \
	}

/*
 * Send a one-way message. @args is the procedure's argument structure; its head's seq is filled in
 * here. @bulk of @bulk_size bytes follows it and may be changed on return. INVALID_VALUE: the
 * arguments exceed a record (CK_RECORD_MAX); this holds for calls too.
 */
CUresult ckc_send(uint32_t proc, void *args, const void *bulk, size_t bulk_size);

/* Make a call and wait. *@res is decoded; the caller frees its strings and arrays. Returns the
 * server's CUresult, or CUDA_ERROR_DEVICE_UNAVAILABLE if the server is lost. */
CUresult ckc_call(uint32_t proc, void *args, void *res, struct ckc_sink *sink);
/* The same with payload after the arguments, for procedures with payload in one direction only. */
CUresult ckc_call_bulk(uint32_t proc, void *args, void *res, const void *bulk, size_t bulk_size,
		       struct ckc_sink *sink);

/* The same with the file of @fd, which the caller keeps, for the handler to take (ck_chan_take_fd).
 * NOT_SUPPORTED if the server is on another host or reached by tcp: see passes_fds of struct
 * ckc_client. */
CUresult ckc_call_fd(uint32_t proc, void *args, void *res, struct ck_private_fd *fd);

/* The same out of the order of commands: it waits for none of them and sends none on its way. For
 * messages that must come through while a stream, and with it perhaps the command stream, is held
 * up. */
CUresult ckc_call_aside(struct ckc_client *c, uint32_t proc, void *args, void *res);

/*
 * The same with payload of @size bytes after the results. @place chooses the destination when it
 * has seen the results (NULL: protocol error).
 */
typedef void *(*ckc_place_fn)(void *closure, const void *res, size_t size);
CUresult ckc_call_aside_bulk(struct ckc_client *c, uint32_t proc, void *args, void *res,
			     ckc_place_fn place, void *closure);

/* Check that calls may be made now; returns the id of the current context. INVALID_CONTEXT:
 * none. */
CUresult ckc_enter(uint64_t *ctx);
CUresult ckc_enter_any(uint64_t *ctx); /* the same; 0 without a context */
/* For a call that frees an object of a context: any context or none may be current, but not a
 * faulty one. */
CUresult ckc_enter_owned(uint64_t *ctx);

/* Convert a handle to its id, with checks: INVALID_HANDLE (contexts: INVALID_CONTEXT). */
CUresult ckc_context_id(CUcontext handle, uint64_t *id);
CUresult ckc_stream_id(CUstream handle, uint64_t *id); /* 0 and 2: as the thread defines them */
CUresult ckc_event_id(CUevent handle, uint64_t *id);
CUresult ckc_module_id(CUmodule handle, uint64_t *id);
CUresult ckc_function_id(CUfunction handle, uint64_t *id);
CUresult ckc_kernel_id(CUkernel handle, uint64_t *id);
CUresult ckc_device_id(CUdevice device, int *server_ordinal);

CUresult ckc_object_id(const void *handle, enum ckc_object_kind kind, uint64_t *id);

/* The same, for kinds that need only a check of the object. */
#define CK_HANDLE_ID_OR(error, none, tag, type, kind)                                              \
	static inline CUresult ckc_##tag##_id(type handle, uint64_t *id)                           \
	{                                                                                          \
		if (!ckc_object_id((const void *)(uintptr_t)handle, kind, id))                     \
			return CUDA_SUCCESS;                                                       \
		return handle ? error : none;                                                      \
	}
#define CK_HANDLE_ID(...)                                                                          \
	CK_HANDLE_ID_OR(CUDA_ERROR_INVALID_HANDLE, CUDA_ERROR_INVALID_HANDLE, __VA_ARGS__)
/* NULL is an invalid value, any other bad address an invalid handle. */
#define CK_NULL_VALUE_ID(...)                                                                      \
	CK_HANDLE_ID_OR(CUDA_ERROR_INVALID_HANDLE, CUDA_ERROR_INVALID_VALUE, __VA_ARGS__)
#define CK_VALUE_ID(...)                                                                           \
	CK_HANDLE_ID_OR(CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_INVALID_VALUE, __VA_ARGS__)

/* Calls on graphs return INVALID_VALUE for all bad arguments. */
CK_VALUE_ID(graph, CUgraph, CK_OBJECT_GRAPH)
CK_VALUE_ID(node, CUgraphNode, CK_OBJECT_NODE)
CK_VALUE_ID(exec, CUgraphExec, CK_OBJECT_EXEC)
CK_VALUE_ID(user, CUuserObject, CK_OBJECT_USER)
CK_HANDLE_ID(array, CUarray, CK_OBJECT_ARRAY)
CK_HANDLE_ID(mipmap, CUmipmappedArray, CK_OBJECT_MIPMAP)
CK_NULL_VALUE_ID(pool, CUmemoryPool, CK_OBJECT_POOL)
CK_HANDLE_ID(physical, CUmemGenericAllocationHandle, CK_OBJECT_PHYSICAL)
CK_HANDLE_ID(green, CUgreenCtx, CK_OBJECT_GREEN)
CK_HANDLE_ID(resources, CUdevResourceDesc, CK_OBJECT_RESOURCES)
CK_HANDLE_ID(link, CUlinkState, CK_OBJECT_LINK)
CK_HANDLE_ID(texref, CUtexref, CK_OBJECT_TEXREF)
CK_HANDLE_ID(surfref, CUsurfref, CK_OBJECT_SURFREF)

#undef CK_HANDLE_ID_OR
#undef CK_HANDLE_ID
#undef CK_NULL_VALUE_ID
#undef CK_VALUE_ID

/* Set the meaning of stream 0 on this thread until the next call; returns the former meaning. */
CUstream ck_default_stream_set(CUstream stream);

/* Answers that do not change. @key is an array of words: the procedure, the context or 0, and the
 * subject of the answer. On a miss, the same thread asks the server and puts the answer. */
bool ckc_cache_get(const void *key, size_t key_size, void *value, size_t value_size);
void ckc_cache_put(const void *key, size_t key_size, const void *value, size_t value_size);
/* Put one for which the program has not asked yet. */
void ckc_cache_put_ahead(const void *key, size_t key_size, const void *value, size_t value_size);
void ckc_cache_forget(uint64_t id); /* drop entries with this id in the key */
void ckc_cache_clear(void);
/* The program has changed a setting that answers depend on: clear the cache, and recall no more. */
void ckc_cache_altered(void);

/* Log an unsupported call once; returns CUDA_ERROR_NOT_SUPPORTED. */
CUresult ckc_refused(const char *name, bool *told);

#define CK_REFUSE(name)                                                                            \
	CUresult name(void);                                                                       \
	CK_EXPORT CUresult name(void)                                                              \
	{                                                                                          \
		static bool told;                                                                  \
		return ckc_refused(#name, &told);                                                  \
	}

#endif
