/*
 * server/copy/download.c - copies from the device to the client: the device fills a pinned slot
 * while the one before is sent.
 */
#include <arpa/inet.h>
#include <string.h>
#include <sys/uio.h>

#include "gen/handlers.h"
#include "rpc/proc.h"
#include "server/copy/copy_iterator.h"
#include "server/copy/staging.h"
#include "server/memory/delivery.h"
#include "server/memory/lease.h"
#include "server/memory/memory.h"
#include "server/session/output.h"
#include "server/session/session.h"
#include "util/util.h"

#define CK_DOWNLOAD_MAX 0x7fff0000u /* a record's length has 31 bits */
#define CK_HEAD_SIZE 128	    /* upper bound for the head of a bulk reply */

/* A download in progress: its reply has a head, the packed bytes, and a tail. */
struct download {
	struct cks_request *q;
	bool alone; /* with a ring that no other call uses: it waits for no other stream */
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

static struct cks_ring *ring_of(const struct download *d)
{
	struct cks_staging *staging = d->q->session->staging;
	struct cks_ring *ring;

	if (!d->alone)
		return cks_staging_call(staging, d->q->chan);
	ring = cks_staging_take(staging);
	if (ring)
		cks_ring_hold(ring);
	return ring;
}

/* The slots are for other calls from now on. */
static void download_end(struct download *d, struct cks_ring *ring)
{
	ck_chan_reclaim(d->q->chan);
	cks_ring_release(ring);
	if (d->alone)
		cks_staging_give(d->q->session->staging, ring);
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
	ring = ring_of(d);
	if (!ring)
		return CUDA_ERROR_OUT_OF_MEMORY;
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

/* A host function may wait for the bytes, and the streams of other calls for the function. */
CUresult ck_serve_fetch(struct cks_request *q, ck_fetch_args *a, ck_fetch_res *res)
{
	struct download d = {.q = q, .alone = true};
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
