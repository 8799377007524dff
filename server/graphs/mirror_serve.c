/*
 * server/graphs/mirror_serve.c - transfer of mirrors' bytes: in before a launch, out after it.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "gen/handlers.h"
#include "rpc/proc.h"
#include "server/memory/delivery.h"
#include "server/graphs/mirror_list.h"
#include "server/session/output.h"
#include "util/util.h"

#define CK_READ_MAX 0x7fff0000u /* a record's length has 31 bits */
#define CK_ASIDE_BYTES (512u << 10)
#define CK_HEAD_SIZE 128 /* upper bound for the head of a bulk reply */

/* Add a use while the mirror's bytes are transferred. NULL: no such mirror, or it is shorter. */
static struct cks_mirror *hold_mirror(struct cks_mirrors *ms, uint64_t id, uint64_t offset,
				      uint64_t size)
{
	struct cks_mirror *m;

	ck_lock(&ms->lock);
	m = cks_mirror_of(ms, id);
	if (m && (offset > m->size || size > m->size - offset))
		m = NULL;
	if (m)
		m->uses++;
	ck_unlock(&ms->lock);
	return m;
}

/* Wait for launches that use the mirror; the client only waits per exec, and that exec may have
 * ended. */
static CUresult wait_for_launches(struct cks_mirrors *ms, struct cks_mirror *m)
{
	CUresult err = CUDA_SUCCESS;

	ck_lock(&ms->lock);
	m = cks_mirror_memory(m);
	while (!err && m->mark && !m->mark->done)
		err = cks_mark_wait(ms, m->mark);
	ck_unlock(&ms->lock);
	return err;
}

static void let_go(struct cks_mirrors *ms, struct cks_mirror *m)
{
	ck_lock(&ms->lock);
	cks_mirror_drop(ms, m, NULL);
	ck_unlock(&ms->lock);
}

CUresult ck_serve_mirror_fill(struct cks_request *q, ck_mirror_fill_args *a, void *res)
{
	struct cks_mirrors *ms = q->session->mirrors;
	struct cks_mirror *m = hold_mirror(ms, a->mirror, a->offset, q->bulk_size);
	CUresult err;

	(void)res;
	if (!m)
		return CUDA_ERROR_INVALID_VALUE;
	err = wait_for_launches(ms, m);
	if (!err)
		q->broken = ck_reader_bulk_begin(q->reader, q->bulk_offset);
	if (!err && !q->broken)
		q->broken = ck_reader_bulk(q->reader, m->host + a->offset, q->bulk_size);
	let_go(ms, m);
	return q->broken ? CUDA_ERROR_UNKNOWN : err;
}

/* Send the reply with the bytes directly from the mirror. */
static CUresult send_bytes(struct cks_request *q, unsigned char *bytes, size_t size)
{
	ck_mirror_read_res res = {
		.head.output = cks_output_pending(q->session->output),
		.head.delivered = cks_deliveries_report(q->session),
		.data_length = (u_int)size,
	};
	unsigned char head[CK_HEAD_SIZE], tail[8] = {0};
	size_t end = CK_ALIGN_UP(size, 4u) - size + 4;
	long n = ck_reply_encode(head, sizeof(head), q->xid, (xdrproc_t)xdr_ck_mirror_read_res,
				 &res, size + end);
	struct iovec iov[3] = {
		{.iov_base = head, .iov_len = n < 0 ? 0 : (size_t)n},
		{.iov_base = bytes, .iov_len = size},
		{.iov_base = tail, .iov_len = end},
	};

	if (n < 0)
		return CUDA_ERROR_UNKNOWN;
	q->replied = true;
	cks_session_count_reply(q->session, iov, 3);
	q->broken = ck_chan_writev(q->chan, iov, 3);
	return CUDA_SUCCESS;
}

/* With an exec, wait for its launch first. Without a mirror, only wait. */
CUresult ck_serve_mirror_read(struct cks_request *q, ck_mirror_read_args *a,
			      ck_mirror_read_res *res)
{
	struct cks_mirrors *ms = q->session->mirrors;
	struct cks_mirror *m;
	CUresult err = CUDA_SUCCESS;

	(void)res;
	if (a->exec)
		err = cks_mirrors_wait(ms, a->exec);
	if (err || a->mirror == 0)
		return err;
	m = a->size <= CK_READ_MAX ? hold_mirror(ms, a->mirror, a->offset, a->size) : NULL;
	if (!m)
		return CUDA_ERROR_INVALID_VALUE;
	err = send_bytes(q, m->host + a->offset, a->size);
	let_go(ms, m);
	return err;
}

/* For a host function in a running launch: transfer bytes out or in. */
CUresult ck_serve_mirror_aside(struct cks_request *q, ck_mirror_aside_args *a,
			       ck_mirror_aside_res *res)
{
	struct cks_mirrors *ms = q->session->mirrors;
	size_t size = ck_max((size_t)a->size, (size_t)a->data.data_len);
	struct cks_mirror *m;

	m = size <= CK_ASIDE_BYTES ? hold_mirror(ms, a->mirror, a->offset, size) : NULL;
	if (!m)
		return CUDA_ERROR_INVALID_VALUE;
	if (a->data.data_len > 0)
		memcpy(m->host + a->offset, a->data.data_val, a->data.data_len);
	res->back.back_val = malloc(a->size + 1);
	if (res->back.back_val) {
		memcpy(res->back.back_val, m->host + a->offset, a->size);
		res->back.back_len = (u_int)a->size;
	}
	let_go(ms, m);
	return res->back.back_val ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
