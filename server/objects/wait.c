/*
 * server/objects/wait.c - waits for all work of a stream or of a context. The launches that one
 * covers cannot be the cause of a later fault (server/session/faults.h).
 */
#include "gen/handlers.h"
#include "server/objects/wait.h"
#include "server/session/faults.h"
#include "server/session/session.h"

static CUresult wait_for_context(struct cks_session *s)
{
	uint64_t launches = cks_faults_begin(s);
	CUresult err;

	if (!ck_driver.cuCtxSynchronize)
		return CUDA_ERROR_NOT_SUPPORTED;
	err = ck_driver.cuCtxSynchronize();
	if (!err)
		cks_faults_context_done(s, launches);
	return err;
}

static CUresult wait_for_stream(struct cks_request *q, uint64_t id)
{
	uint64_t launches = cks_faults_begin(q->session);
	CUstream stream;
	CUresult err;

	if (!ck_driver.cuStreamSynchronize)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!cks_stream_find(q, id, &stream))
		return CUDA_ERROR_INVALID_HANDLE;
	err = ck_driver.cuStreamSynchronize(stream);
	if (!err)
		cks_faults_stream_done(q->session, id, launches);
	return err;
}

CUresult ck_serve_cuCtxSynchronize(struct cks_request *q, cuCtxSynchronize_args *a,
				   cuCtxSynchronize_res *res)
{
	(void)a;
	(void)res;
	return wait_for_context(q->session);
}

CUresult ck_serve_cuStreamSynchronize(struct cks_request *q, cuStreamSynchronize_args *a,
				      cuStreamSynchronize_res *res)
{
	(void)res;
	return wait_for_stream(q, a->hStream);
}

CUresult cks_wait_for_work(struct cks_request *q, uint64_t stream, bool whole)
{
	return whole ? wait_for_context(q->session) : wait_for_stream(q, stream);
}

/* Wait, so that every later message finds the work of the stream, or of the context, done. */
CUresult ck_serve_settle(struct cks_request *q, ck_settle_args *a, void *res)
{
	(void)res;
	return cks_wait_for_work(q, a->stream, a->context);
}

/* Nothing to do: each call waits for the commands before it and reports their error. */
CUresult ck_serve_wait(struct cks_request *q, ck_wait_args *a, ck_wait_res *res)
{
	(void)q;
	(void)a;
	(void)res;
	return CUDA_SUCCESS;
}
