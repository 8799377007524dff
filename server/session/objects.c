/*
 * server/session/objects.c - convert ids of a message to the driver's handles, for generated
 * handlers.
 */
#include "server/session/session.h"

static bool find_handle(struct cks_request *q, uint64_t id, enum cks_kind kind, void *out)
{
	void *handle = cks_handles_get(q->session->handles, id, kind);

	if (!handle)
		return false;
	*(void **)out = handle;
	return true;
}

bool cks_context_find(struct cks_request *q, uint64_t id, CUcontext *out)
{
	return find_handle(q, id, CK_KIND_CONTEXT, out);
}

bool cks_stream_find(struct cks_request *q, uint64_t id, CUstream *out)
{
	if (id <= (uintptr_t)CU_STREAM_PER_THREAD) {
		*out = (CUstream)(uintptr_t)id;
		return true;
	}
	return find_handle(q, id, CK_KIND_STREAM, out);
}

bool cks_stream_serial(struct cks_request *q, uint64_t id, CUstream *out, uint64_t *serial)
{
	struct cks_object object;

	*serial = 0;
	if (id <= (uintptr_t)CU_STREAM_PER_THREAD) {
		*serial = ~(uint64_t)0 - id; /* unique: no entry has such a high number */
		return cks_stream_find(q, id, out);
	}
	if (!cks_handles_find(q->session->handles, id, CK_KIND_BIT(CK_KIND_STREAM), &object))
		return false;
	*out = object.handle;
	*serial = object.serial;
	return true;
}

bool cks_event_find(struct cks_request *q, uint64_t id, CUevent *out)
{
	return find_handle(q, id, CK_KIND_EVENT, out);
}

bool cks_module_find(struct cks_request *q, uint64_t id, CUmodule *out)
{
	return find_handle(q, id, CK_KIND_MODULE, out);
}

bool cks_library_find(struct cks_request *q, uint64_t id, CUlibrary *out)
{
	return find_handle(q, id, CK_KIND_LIBRARY, out);
}

bool cks_function_find(struct cks_request *q, uint64_t id, CUfunction *out)
{
	struct cks_object object;

	if (!cks_handles_find(q->session->handles, id,
			      CK_KIND_BIT(CK_KIND_FUNCTION) | CK_KIND_BIT(CK_KIND_KERNEL), &object))
		return false;
	if (object.kind == CK_KIND_FUNCTION) {
		*out = object.handle;
		return true;
	}
	return ck_driver.cuKernelGetFunction &&
	       ck_driver.cuKernelGetFunction(out, object.handle) == CUDA_SUCCESS;
}

bool cks_kernel_find(struct cks_request *q, uint64_t id, CUkernel *out)
{
	return find_handle(q, id, CK_KIND_KERNEL, out);
}

CUresult cks_stream_put(struct cks_request *q, uint64_t id, CUstream handle)
{
	if (id <= (uintptr_t)CU_STREAM_PER_THREAD) /* taken by the predefined streams */
		return CUDA_ERROR_INVALID_VALUE;
	return cks_handles_put(q->session->handles, id, CK_KIND_STREAM, q->ctx, handle);
}

CUresult cks_event_put(struct cks_request *q, uint64_t id, CUevent handle)
{
	return cks_handles_put(q->session->handles, id, CK_KIND_EVENT, q->ctx, handle);
}

/* Graphs, pools and similar objects outlive the context they were made in. */
static uint64_t get_owner_context(const struct cks_request *q, enum cks_kind kind)
{
	const unsigned int bound = CK_KIND_BIT(CK_KIND_ARRAY) | CK_KIND_BIT(CK_KIND_MIPMAP) |
				   CK_KIND_BIT(CK_KIND_LINK) | CK_KIND_BIT(CK_KIND_TEXREF) |
				   CK_KIND_BIT(CK_KIND_SURFREF);

	return CK_KIND_BIT(kind) & bound ? q->ctx : 0;
}

bool cks_handle_find(struct cks_request *q, uint64_t id, enum cks_kind kind, void **handle)
{
	return find_handle(q, id, kind, handle);
}

CUresult cks_handle_put(struct cks_request *q, uint64_t id, enum cks_kind kind, void *handle)
{
	return cks_handles_put(q->session->handles, id, kind, get_owner_context(q, kind), handle);
}

CUresult cks_handle_name(struct cks_request *q, enum cks_kind kind, void *handle, uint64_t parent,
			 uint64_t *id)
{
	return cks_handles_name(q->session->handles, kind, get_owner_context(q, kind), handle,
				parent, id);
}

void cks_handle_remove(struct cks_request *q, uint64_t id)
{
	cks_handles_remove(q->session->handles, id);
}
