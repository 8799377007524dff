/*
 * server/evacuation/copies.c - copies between device memory and the host pool; see evacuation.h.
 */
#include "cricket.h"
#include "server/evacuation/evacuation_part.h"
#include "server/session/session.h"
#include "util/util.h"

bool cks_evacuation_context(struct cks_session *s, CUdevice device, uint64_t *id,
			    CUcontext *context)
{
	struct cks_object object;
	CUcontext popped;
	CUdevice is;
	bool found = false;

	*id = 0;
	while (!found && cks_handles_next(s->handles, id, CK_KIND_CONTEXT, &object)) {
		if (ck_driver.cuCtxPushCurrent_v2(object.handle))
			continue;
		found = ck_driver.cuCtxGetDevice(&is) == CUDA_SUCCESS && is == device;
		ck_driver.cuCtxPopCurrent_v2(&popped);
		*context = object.handle;
	}
	return found;
}

/* Copy @size bytes from @from on in the pool, which belong to @p, in @stream. */
static CUresult copy_part(struct cks_host_pool *pool, const struct cks_evacuated *p, bool out,
			  size_t from, size_t size, CUstream stream)
{
	size_t done = 0, room = 0;
	CUresult err = CUDA_SUCCESS;

	for (; !err && done < size; done += room) {
		CUdeviceptr at = p->at + (from - p->offset) + done;
		char *host = cks_host_pool_at(pool, from + done, &room);

		if (!host)
			return CUDA_ERROR_OUT_OF_MEMORY;
		room = ck_min(room, size - done);
		err = out ? ck_driver.cuMemcpyDtoHAsync_v2(host, at, room, stream)
			  : ck_driver.cuMemcpyHtoDAsync_v2(at, host, room, stream);
	}
	return err;
}

static CUresult copy_piece(struct cks_evacuation *e, const struct cks_evacuated *p, bool out,
			   CUstream stream)
{
	size_t from = p->offset, end = p->offset + p->size, size = p->size;
	bool marked = out && e->marked;
	CUresult err = CUDA_SUCCESS;

	if (!marked)
		return copy_part(e->pool, p, out, from, size, stream);
	while (!err && (size = cks_marks_next(e->marks, &from, end)) > 0) {
		cks_marks_begin_copy(e->marks, from, size);
		err = copy_part(e->pool, p, out, from, size, stream);
		from += size;
	}
	return err;
}

static CUresult copy_pieces(struct cks_evacuation *e, CUdevice device, bool out, CUstream stream,
			    size_t first, size_t *end)
{
	CUresult err = CUDA_SUCCESS, last;
	size_t i = first;

	for (; i < *end; i++) {
		if (e->list[i].device == device)
			err = copy_piece(e, &e->list[i], out, stream);
		if (err)
			break;
	}
	last = ck_driver.cuStreamSynchronize(stream);
	if (last) /* any of them may have failed */
		i = first;
	*end = i;
	return last ? last : err;
}

static CUresult copy_device(struct cks_session *s, CUdevice device, bool out, bool changing,
			    size_t first, size_t *end)
{
	struct cks_evacuation *e = s->evacuation;
	CUcontext context, popped;
	CUstream stream;
	CUresult err;
	uint64_t id;

	if (!cks_evacuation_context(s, device, &id, &context) ||
	    ck_driver.cuCtxPushCurrent_v2(context)) {
		*end = first;
		return CUDA_ERROR_INVALID_CONTEXT;
	}
	err = ck_driver.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
	if (err) {
		*end = first;
	} else {
		if (out && e->marked)
			cks_evacuation_compare(e, device, stream);
		err = copy_pieces(e, device, out, stream, first, end);
		if (out && e->marked)
			cks_evacuation_note_copied(e, device, *end, changing);
		ck_driver.cuStreamDestroy_v2(stream);
	}
	ck_driver.cuCtxPopCurrent_v2(&popped);
	return err;
}

CUresult cks_evacuation_copy(struct cks_session *s, bool out, bool changing, size_t first,
			     size_t *end)
{
	CUresult err = CUDA_SUCCESS, one;

	for (CUdevice device = 0; device < s->device_count; device++) {
		bool any = false;

		for (size_t i = first; i < *end && !any; i++)
			any = s->evacuation->list[i].device == device;
		one = any ? copy_device(s, device, out, changing, first, end) : CUDA_SUCCESS;
		err = err ? err : one;
	}
	return err;
}
