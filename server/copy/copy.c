/*
 * server/copy/copy.c - copies between the client and the device, through pinned slots.
 *
 * An upload is received into slots, piece by piece; the device takes a piece while the next one
 * arrives. A compressed one is expanded into them. A download works the other way round.
 */
#include <arpa/inet.h>
#include <string.h>
#include <sys/uio.h>

#include "gen/handlers.h"
#include "rpc/compress.h"
#include "rpc/proc.h"
#include "server/copy/copy_iterator.h"
#include "server/copy/staging.h"
#include "server/memory/lease.h"
#include "server/memory/delivery.h"
#include "server/memory/memory.h"
#include "server/session/compressed_payload.h"
#include "server/session/output.h"
#include "server/session/session.h"
#include "util/util.h"

#define CK_COPY_BLOCKING 1u	    /* in flags: the program waits for the copy */
#define CK_DOWNLOAD_MAX 0x7fff0000u /* a record's length has 31 bits */
#define CK_HEAD_SIZE 128	    /* upper bound for the head of a bulk reply */

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

/* One of several calls that share a copy; they arrive in parallel on their own lanes. */
CUresult ck_serve_upload_part(struct cks_request *q, ck_upload_part_args *a,
			      ck_upload_part_res *res)
{
	(void)res;
	return upload_flat(q, a->dst, a->stream, 0, cks_staging_call(q->session->staging, q->chan));
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

/* A download in progress: its reply has a head, the packed bytes, and a tail. */
struct download {
	struct cks_request *q;
	struct cks_copy_iterator walk;
	CUstream stream;
	uint64_t serial;
	struct cks_slot *slot;	      /* of the newest piece passed to the device */
	size_t begun, sent;	      /* pieces */
	uint64_t lent[CK_CALL_SLOTS]; /* to the channel, of each slot's newest piece */
	unsigned char head[CK_HEAD_SIZE];
	size_t head_size;
};

/* Let the device fill a slot with the current piece. */
static CUresult download_begin(struct download *d, struct cks_ring *ring)
{
	CUresult err;

	/* The slots take turns: the next one has been sent already. */
	err = cks_ring_next(ring, d->q->ctx, d->serial, &d->slot);
	if (err)
		return err;
	ck_chan_reclaim_until(d->q->chan, d->lent[d->begun++ % CK_CALL_SLOTS]);
	err = cks_copy_iterator_copy(&d->walk, d->slot->host, d->stream);
	return err ? err : cks_slot_mark(d->slot, d->stream, d->walk.piece);
}

static int head_encode(struct download *d, xdrproc_t xdr)
{
	/* the replies of all downloads have the same layout as ck_download's */
	ck_download_res res = {
		.head.output = cks_output_pending(d->q->session->output),
		.head.delivered = cks_deliveries_report(d->q->session),
		.data_length = (u_int)d->walk.total,
	};
	long n = ck_reply_encode(d->head, sizeof(d->head), d->q->xid, xdr, &res,
				 CK_ALIGN_UP(d->walk.total, 4u) + 4);

	if (n < 0)
		return (int)n;
	d->head_size = (size_t)n;
	return 0;
}

/* Send the first @size bytes of @slot, after the head if @first, and before the tail if @last. */
static int send_piece(struct download *d, struct cks_slot *slot, size_t size, bool first, bool last,
		      CUresult outcome)
{
	unsigned char tail[8] = {0};
	size_t padding = CK_ALIGN_UP(d->walk.total, 4u) - d->walk.total;
	uint32_t word = htonl((uint32_t)outcome);
	struct iovec iov[3] = {
		{.iov_base = d->head, .iov_len = first ? d->head_size : 0},
		{.iov_base = slot->host, .iov_len = size},
		{.iov_base = tail, .iov_len = last ? padding + 4 : 0},
	};

	memcpy(tail + padding, &word, 4);
	cks_session_count_reply(d->q->session, iov, 3);
	return ck_chan_lend_until(d->q->chan, iov, 3, 1, &d->lent[d->sent++ % CK_CALL_SLOTS]);
}

/*
 * The first piece is in its slot: send it while the device fills the next slot, and so on. After
 * an error, send zeroes up to the promised number of bytes; the tail has the error.
 */
static void download_send(struct download *d, struct cks_ring *ring)
{
	CUresult err = CUDA_SUCCESS;
	bool first = true, more = true;

	while (more && !d->q->broken) {
		struct cks_slot *slot = d->slot;
		size_t size = d->walk.piece;

		more = cks_copy_iterator_next(&d->walk);
		if (more && !err)
			err = download_begin(d, ring);
		d->q->broken = send_piece(d, slot, size, first, !more, err);
		first = false;
		if (more && !err)
			err = cks_slot_wait(d->slot);
		if (err) {
			d->slot = slot;
			ck_chan_reclaim(d->q->chan);
			memset(slot->host, 0, CK_PIECE_MAX);
		}
	}
}

/* The slots are for other calls from now on. */
static void download_end(struct download *d, struct cks_ring *ring)
{
	ck_chan_reclaim(d->q->chan);
	cks_ring_release(ring);
}

static CUresult download_data(struct download *d, uint64_t stream_id)
{
	struct cks_request *q = d->q;
	struct cks_ring *ring;
	CUresult err;

	if (d->walk.total > CK_DOWNLOAD_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	if (!cks_stream_serial(q, stream_id, &d->stream, &d->serial))
		return CUDA_ERROR_INVALID_HANDLE;
	if (!cks_copy_iterator_next(&d->walk))
		return CUDA_SUCCESS; /* nothing to send: an empty reply */
	ring = cks_staging_call(q->session->staging, q->chan);
	err = download_begin(d, ring);
	if (!err)
		err = cks_slot_wait(d->slot);
	if (!err && head_encode(d, (xdrproc_t)xdr_ck_download_res) < 0)
		err = CUDA_ERROR_UNKNOWN;
	if (!err) {
		q->replied = true;
		download_send(d, ring);
	}
	download_end(d, ring);
	return err;
}

CUresult ck_serve_download(struct cks_request *q, ck_download_args *a, ck_download_res *res)
{
	struct download d = {.q = q};

	(void)res;
	if (a->size > CK_PIECE_MAX && !cks_memory_covers(q->session->memory, a->src, a->size))
		return CUDA_ERROR_INVALID_VALUE;
	cks_copy_iterator_flat(&d.walk, false, a->src, a->size);
	return download_data(&d, a->stream);
}

/* Wait for work that may still write the memory to be read. */
static CUresult wait_for_writes(struct cks_request *q, unsigned int wait, uint64_t after)
{
	CUstream stream;

	if (wait == CK_FETCH_NOW)
		return CUDA_SUCCESS;
	if (wait == CK_FETCH_STREAM && !cks_stream_find(q, after, &stream))
		return CUDA_ERROR_INVALID_HANDLE;
	if (wait == CK_FETCH_STREAM)
		return ck_driver.cuStreamSynchronize ? ck_driver.cuStreamSynchronize(stream)
						     : CUDA_ERROR_NOT_SUPPORTED;
	return cks_context_wait(q->session, q->ctx);
}

CUresult ck_serve_fetch(struct cks_request *q, ck_fetch_args *a, ck_fetch_res *res)
{
	struct download d = {.q = q};
	CUresult err = wait_for_writes(q, a->wait, a->after);

	(void)res;
	if (err || a->size == 0)
		return err;
	/* Adjacent variables are separate ranges for the driver, so outside the window it
	 * decides. */
	if (a->src >= q->session->window_lo && a->src < q->session->window_hi &&
	    !cks_memory_covers(q->session->memory, a->src, a->size))
		return CUDA_ERROR_INVALID_VALUE;
	cks_copy_iterator_flat(&d.walk, false, a->src, a->size);
	return download_data(&d, a->stream);
}

CUresult ck_serve_download_3d(struct cks_request *q, ck_download_3d_args *a,
			      ck_download_3d_res *res)
{
	struct download d = {.q = q};
	CUDA_MEMCPY3D copy;
	CUresult err;

	(void)res;
	err = cks_copy_decode(q, a->copy, &copy);
	if (!err)
		err = cks_copy_iterator_box(&d.walk, false, &copy);
	return err ? err : download_data(&d, a->stream);
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
