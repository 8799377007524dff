/*
 * server/copy/copy.c - copies from the client to the device, through pinned slots, and copies on
 * the device.
 *
 * An upload is received into slots, piece by piece; the device takes a piece while the next one
 * arrives. A compressed one is expanded into them.
 */
#include <string.h>

#include "gen/handlers.h"
#include "rpc/compress.h"
#include "server/copy/copy_iterator.h"
#include "server/copy/staging.h"
#include "server/memory/memory.h"
#include "server/session/compressed_payload.h"
#include "server/session/driver.h"
#include "server/session/session.h"
#include "util/util.h"

#define CK_COPY_BLOCKING 1u /* in flags: the program waits for the copy */

/* Receive one piece and pass it to the device. */
static CUresult upload_piece(struct cks_request *q, const struct cks_copy_iterator *walk,
			     struct cks_ring *ring, CUstream stream, uint64_t serial,
			     struct cks_slot **slot)
{
	CUresult err = cks_ring_take(ring, q->ctx, serial, walk->piece, slot);
	unsigned char *host;

	if (err)
		return err;
	host = (*slot)->host + (*slot)->used;
	q->broken = ck_reader_bulk(q->reader, host, walk->piece);
	if (q->broken)
		return CUDA_ERROR_UNKNOWN;
	err = cks_copy_iterator_copy(walk, host, stream);
	return err ? err : cks_slot_mark(*slot, stream, walk->piece);
}

static CUresult upload_data(struct cks_request *q, struct cks_copy_iterator *walk,
			    uint64_t stream_id, unsigned int flags, struct cks_ring *ring)
{
	struct cks_slot *slot = NULL;
	CUresult err = CUDA_SUCCESS;
	CUstream stream;
	uint64_t serial;

	if (walk->total != q->bulk_size)
		return CUDA_ERROR_INVALID_VALUE;
	if (!cks_stream_serial(q, stream_id, &stream, &serial))
		return CUDA_ERROR_INVALID_HANDLE;
	q->broken = ck_reader_bulk_begin(q->reader, q->bulk_offset);
	if (q->broken)
		return CUDA_ERROR_UNKNOWN;
	while (!err && cks_copy_iterator_next(walk))
		err = upload_piece(q, walk, ring, stream, serial, &slot);
	if (!err && slot && (flags & CK_COPY_BLOCKING))
		err = cks_slot_wait(slot);
	return err;
}

static CUresult upload_flat(struct cks_request *q, uint64_t dst, uint64_t stream,
			    unsigned int flags, struct cks_ring *ring)
{
	struct cks_copy_iterator walk;
	CUresult err = CUDA_ERROR_INVALID_VALUE;

	/* Refuse a copy that exceeds the memory before its first piece, as the driver does. */
	if (q->bulk_size <= CK_PIECE_MAX ||
	    cks_memory_covers(q->session->memory, dst, q->bulk_size)) {
		cks_copy_iterator_flat(&walk, true, dst, q->bulk_size);
		err = upload_data(q, &walk, stream, flags, ring);
	}
	cks_ring_release(ring);
	return err;
}

CUresult ck_serve_upload(struct cks_request *q, ck_upload_args *a, void *res)
{
	(void)res;
	return upload_flat(q, a->dst, a->stream, a->flags, cks_staging_upload(q->session->staging));
}

/* A look at a stream that is captured, or at the legacy stream meanwhile, would end the capture. */
static bool is_idle(struct cks_request *q, uint64_t stream_id)
{
	CUstream stream;

	return cks_stream_find(q, stream_id, &stream) && stream && stream != CU_STREAM_LEGACY &&
	       !cks_capture_graph(stream) && ck_driver.cuStreamQuery &&
	       ck_driver.cuStreamQuery(stream) == CUDA_SUCCESS;
}

/* Upload with a ring that no other call uses. */
static CUresult upload_alone(struct cks_request *q, uint64_t dst, uint64_t stream)
{
	struct cks_ring *ring = cks_staging_take(q->session->staging);
	CUresult err;

	if (!ring)
		return CUDA_ERROR_OUT_OF_MEMORY;
	cks_ring_hold(ring);
	err = upload_flat(q, dst, stream, CK_COPY_BLOCKING, ring);
	cks_staging_give(q->session->staging, ring);
	return err;
}

/*
 * One of several calls that share a copy; they arrive in parallel on their own lanes. A copy in an
 * idle stream waits for no other stream, which may wait for it: for a host function that has
 * written managed memory.
 */
CUresult ck_serve_upload_part(struct cks_request *q, ck_upload_part_args *a,
			      ck_upload_part_res *res)
{
	struct cks_staging *staging = q->session->staging;
	struct cks_ring *ring = cks_staging_idle(staging, q->bulk_size);

	(void)res;
	if (!ring && is_idle(q, a->stream))
		return upload_alone(q, a->dst, a->stream);
	return upload_flat(q, a->dst, a->stream, 0,
			   ring ? ring : cks_staging_call(staging, q->chan));
}

/* A one-way upload on a lane: its end is a command's business (ck_upload_joined). */
CUresult ck_serve_upload_beside(struct cks_request *q, ck_upload_beside_args *a,
				ck_upload_beside_res *res)
{
	(void)res;
	return upload_flat(q, a->dst, a->stream, 0, cks_staging_ahead(q->session->staging));
}

/* Later uploads come after this command, so those that have ended are the first ones. It does not
 * use the driver, because an upload may have to wait until the session has left its suspension. */
CUresult ck_serve_upload_joined(struct cks_request *q, ck_upload_joined_args *a, void *res)
{
	(void)res;
	return cks_session_join(q->session, a->count) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Pass one compressed block to the device. */
static CUresult packed_piece(struct cks_request *q, uint64_t dst, uint64_t stream_id, size_t size,
			     struct cks_ring *ring)
{
	struct cks_slot *slot;
	unsigned char *host;
	CUstream stream;
	uint64_t serial;
	CUresult err;

	_Static_assert(CK_PACK_BLOCK <= CK_PIECE_MAX, "a block is one piece");
	if (size == 0 || size > CK_PACK_BLOCK)
		return CUDA_ERROR_INVALID_VALUE;
	if (!ck_driver.cuMemcpyHtoDAsync_v2)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!cks_stream_serial(q, stream_id, &stream, &serial))
		return CUDA_ERROR_INVALID_HANDLE;
	err = cks_ring_take(ring, q->ctx, serial, size, &slot);
	if (err)
		return err;
	host = slot->host + slot->used;
	err = cks_unpack(q, cks_ring_unpacker(ring), host, size);
	if (!err)
		err = ck_driver.cuMemcpyHtoDAsync_v2(dst, host, size, stream);
	return err ? err : cks_slot_mark(slot, stream, size);
}

CUresult ck_serve_upload_packed(struct cks_request *q, ck_upload_packed_args *a, void *res)
{
	struct cks_ring *ring = cks_staging_upload(q->session->staging);
	CUresult err = packed_piece(q, a->dst, a->stream, a->size, ring);

	(void)res;
	cks_ring_release(ring);
	return err;
}

CUresult ck_serve_upload_packed_part(struct cks_request *q, ck_upload_packed_part_args *a,
				     ck_upload_packed_part_res *res)
{
	struct cks_ring *ring = cks_staging_call(q->session->staging, q->chan);
	CUresult err = packed_piece(q, a->dst, a->stream, a->size, ring);

	(void)res;
	cks_ring_release(ring);
	return err;
}

CUresult cks_copy_decode(struct cks_request *q, const void *bytes, CUDA_MEMCPY3D *copy)
{
	CUarray src = NULL, dst = NULL;

	memcpy(copy, bytes, sizeof(*copy));
	if (copy->srcMemoryType == CU_MEMORYTYPE_ARRAY &&
	    !cks_array_find(q, (uintptr_t)copy->srcArray, &src))
		return CUDA_ERROR_INVALID_HANDLE;
	if (copy->dstMemoryType == CU_MEMORYTYPE_ARRAY &&
	    !cks_array_find(q, (uintptr_t)copy->dstArray, &dst))
		return CUDA_ERROR_INVALID_HANDLE;
	copy->srcArray = src;
	copy->dstArray = dst;
	copy->srcHost = NULL;
	copy->dstHost = NULL;
	copy->reserved0 = copy->reserved1 = NULL;
	return CUDA_SUCCESS;
}

CUresult ck_serve_upload_3d(struct cks_request *q, ck_upload_3d_args *a, void *res)
{
	CUDA_MEMCPY3D copy;
	struct cks_ring *ring;
	struct cks_copy_iterator walk;
	CUresult err;

	(void)res;
	_Static_assert(sizeof(copy) == sizeof(a->copy), "the structure travels as its bytes");
	err = cks_copy_decode(q, a->copy, &copy);
	if (!err)
		err = cks_copy_iterator_box(&walk, true, &copy);
	if (err)
		return err;
	ring = cks_staging_upload(q->session->staging);
	err = upload_data(q, &walk, a->stream, 0, ring);
	cks_ring_release(ring);
	return err;
}

static bool on_device(CUmemorytype type)
{
	return type == CU_MEMORYTYPE_DEVICE || type == CU_MEMORYTYPE_ARRAY;
}

CUresult ck_serve_copy_3d(struct cks_request *q, ck_copy_3d_args *a, void *res)
{
	CUDA_MEMCPY3D copy;
	CUstream stream;
	CUresult err = cks_copy_decode(q, a->copy, &copy);

	(void)res;
	if (err)
		return err;
	if (!on_device(copy.srcMemoryType) || !on_device(copy.dstMemoryType))
		return CUDA_ERROR_INVALID_VALUE;
	if (!ck_driver.cuMemcpy3DAsync_v2)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!cks_stream_find(q, a->stream, &stream))
		return CUDA_ERROR_INVALID_HANDLE;
	return ck_driver.cuMemcpy3DAsync_v2(&copy, stream);
}
