/*
 * client/wire/stub.h - what generated stubs and hand bodies ask of the client's core.
 */
#ifndef CK_CLIENT_WIRE_STUB_H
#define CK_CLIENT_WIRE_STUB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/wire/object.h"
#include "cuda/types.h"
#include "util/util.h"

struct ck_client;

/* Destination of the payload of a reply, filled as it arrives. */
struct ck_sink {
	void *data;
	size_t size;
};

/*
 * Send a one-way message: @args is the procedure's argument structure, whose head's seq is
 * filled in here; @bulk of @bulk_size bytes follows it and is free to be changed on return.
 * INVALID_VALUE: the arguments are more than a record holds (CK_RECORD_MAX), here as in calls.
 */
CUresult ck_send(uint32_t proc, void *args, const void *bulk, size_t bulk_size);

/* Make a call and wait: *@res is decoded (owned strings and arrays: to be freed by the caller);
 * the result is the server's CUresult or CUDA_ERROR_DEVICE_UNAVAILABLE when it is lost. */
CUresult ck_call(uint32_t proc, void *args, void *res, struct ck_sink *sink);
/* The same with payload behind the arguments; procedures of which one end has payload only. */
CUresult ck_call_bulk(uint32_t proc, void *args, void *res, const void *bulk, size_t bulk_size,
		      struct ck_sink *sink);

/* The same with descriptor @fd, still the caller's, for the handler to take (ck_chan_take_fd).
 * NOT_SUPPORTED where the server is not on this host or is reached by tcp: passes_fds of
 * struct ck_client. */
CUresult ck_call_fd(uint32_t proc, void *args, void *res, int fd);

/* The same out of the order of commands: it waits for none of them and sends none on its way. For
 * what must come through while a stream, and with it perhaps the command stream, is held up. */
CUresult ck_call_aside(struct ck_client *c, uint32_t proc, void *args, void *res);

/*
 * The same with payload behind the results, @size bytes of it, which goes where @place says once it
 * has seen them (NULL: a broken protocol).
 */
typedef void *(*ck_place_fn)(void *closure, const void *res, size_t size);
CUresult ck_call_aside_bulk(struct ck_client *c, uint32_t proc, void *args, void *res,
			    ck_place_fn place, void *closure);

/* May calls be made now? Then the id of the current context: INVALID_CONTEXT without one. */
CUresult ck_enter(uint64_t *ctx);
CUresult ck_enter_any(uint64_t *ctx);	/* the same; 0 without a context */
/* For what gives back something of a context: any may be current, or none, but not a faulty one. */
CUresult ck_enter_owned(uint64_t *ctx);

/* Handle to id on the wire, checked: INVALID_HANDLE (contexts: INVALID_CONTEXT). */
CUresult ck_context_id(CUcontext handle, uint64_t *id);
CUresult ck_stream_id(CUstream handle, uint64_t *id);	/* 0 and 2: the thread's meaning of it */
CUresult ck_event_id(CUevent handle, uint64_t *id);
CUresult ck_module_id(CUmodule handle, uint64_t *id);
CUresult ck_library_id(CUlibrary handle, uint64_t *id);
CUresult ck_function_id(CUfunction handle, uint64_t *id);
CUresult ck_kernel_id(CUkernel handle, uint64_t *id);
CUresult ck_device_id(CUdevice device, int *server_ordinal);

CUresult ck_object_id(const void *handle, enum ck_object_kind kind, uint64_t *id);

/* The same for the kinds that need no more than a look at the object. */
#define CK_HANDLE_ID_OR(error, none, tag, type, kind)                                   \
	static inline CUresult ck_##tag##_id(type handle, uint64_t *id)                 \
	{                                                                               \
		if (!ck_object_id((const void *)(uintptr_t)handle, kind, id))           \
			return CUDA_SUCCESS;                                            \
		return handle ? error : none;                                           \
	}
#define CK_HANDLE_ID(...) \
	CK_HANDLE_ID_OR(CUDA_ERROR_INVALID_HANDLE, CUDA_ERROR_INVALID_HANDLE, __VA_ARGS__)
/* NULL is a wrong value, another address a wrong handle. */
#define CK_NULL_VALUE_ID(...) \
	CK_HANDLE_ID_OR(CUDA_ERROR_INVALID_HANDLE, CUDA_ERROR_INVALID_VALUE, __VA_ARGS__)
#define CK_VALUE_ID(...) \
	CK_HANDLE_ID_OR(CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_INVALID_VALUE, __VA_ARGS__)

/* What the calls on graphs say of all that they are given. */
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

/* What stream 0 means on this thread until the next call; the former meaning. */
CUstream ck_default_stream_set(CUstream stream);

/* Answers that do not change: @key is an array of words, the procedure, the context or 0, and what
 * the answer is about. What was not found is put by the thread that has asked for it. */
bool ck_cache_get(const void *key, size_t key_size, void *value, size_t value_size);
void ck_cache_put(const void *key, size_t key_size, const void *value, size_t value_size);
void ck_cache_forget(uint64_t id);	/* what has this object among the words of its key */
void ck_cache_clear(void);

/* The one line in the log for a call that is not supported; CUDA_ERROR_NOT_SUPPORTED. */
CUresult ck_refused(const char *name, bool *told);

#define CK_REFUSE(name)                                     \
	CUresult name(void);                                \
	CK_EXPORT CUresult name(void)                       \
	{                                                   \
		static bool told;                           \
		return ck_refused(#name, &told);            \
	}

#endif
