/*
 * server/memory/pinned_copy.c - copies between the device and pinned memory that the client shares.
 */
#include "gen/handlers.h"
#include "rpc/pinned.h"
#include "server/memory/pinned.h"
#include "server/session/driver.h"
#include "server/session/session.h"

/* The host side of a copy of @kind; false: not in one of the pieces, or of another size. */
static bool host_side(struct cks_request *q, unsigned int kind, uint64_t dst, uint64_t src,
		      size_t size, void **host)
{
	uint64_t at = kind == CK_PINNED_TO_DEVICE ? src : dst;

	*host = (void *)(uintptr_t)at;
	return kind <= CK_PINNED_TO_HOST && cks_pinned_covers(q->session->pinned, at, size);
}

static CUresult enqueue_copy(struct cks_request *q, const ck_pinned_copy_args *a)
{
	CUstream stream;
	void *host;

	if (!host_side(q, a->kind, a->dst, a->src, a->size, &host))
		return CUDA_ERROR_INVALID_VALUE;
	if (!cks_stream_find(q, a->stream, &stream))
		return CUDA_ERROR_INVALID_HANDLE;
	return a->kind == CK_PINNED_TO_DEVICE
		       ? ck_driver.cuMemcpyHtoDAsync_v2(a->dst, host, a->size, stream)
		       : ck_driver.cuMemcpyDtoHAsync_v2(host, a->src, a->size, stream);
}

/*
 * Copy between the device and such memory, in stream order. Unregistering waits for enqueued
 * copies, so no copy may be checked before it and enqueued after it.
 */
CUresult ck_serve_pinned_copy(struct cks_request *q, ck_pinned_copy_args *a, void *res)
{
	CUresult err;

	(void)res;
	cks_pinned_hold(q->session->pinned);
	err = enqueue_copy(q, a);
	cks_pinned_release(q->session->pinned);
	return err;
}

/* The same in the legacy stream, with a wait: the driver has a faster path for that. */
CUresult ck_serve_pinned_move(struct cks_request *q, ck_pinned_move_args *a,
			      ck_pinned_move_res *res)
{
	CUresult err = CUDA_ERROR_INVALID_VALUE;
	void *host;

	(void)res;
	cks_pinned_hold(q->session->pinned);
	if (host_side(q, a->kind, a->dst, a->src, a->size, &host))
		err = a->kind == CK_PINNED_TO_DEVICE
			      ? ck_driver.cuMemcpyHtoD_v2(a->dst, host, a->size)
			      : ck_driver.cuMemcpyDtoH_v2(host, a->src, a->size);
	cks_pinned_release(q->session->pinned);
	return err;
}
