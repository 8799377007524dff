/*
 * server/nccl/serve.c - the messages of NCCL.
 */
#include <stdlib.h>
#include <string.h>

#include "gen/driver.h"
#include "gen/handlers.h"
#include "server/nccl/nccl.h"
#include "util/log.h"
#include "util/util.h"

CK_LOG_DEFINE("server");

#define SMALL 4096

/* A copy of bytes for a reply. */
static void copy_to_reply(char **value, u_int *length, const void *bytes, size_t size)
{
	*value = size > 0 ? malloc(size) : NULL;
	*length = *value ? (u_int)size : 0;
	if (*value)
		memcpy(*value, bytes, size);
}

static void give_text(char **value, u_int *length, const char *text)
{
	copy_to_reply(value, length, text, text ? strlen(text) : 0);
}

CUresult ck_serve_nccl_open(struct cks_request *q, ck_nccl_open_args *a, ck_nccl_open_res *res)
{
	const char *why = cks_nccl_open();

	(void)q, (void)a;
	res->result = why ? ncclSystemError : cks_nccl.ncclGetVersion(&res->code);
	give_text(&res->reason.reason_val, &res->reason.reason_len, why);
	return CUDA_SUCCESS;
}

CUresult ck_serve_nccl_unique_id(struct cks_request *q, ck_nccl_unique_id_args *a,
				 ck_nccl_unique_id_res *res)
{
	const char *why = cks_nccl_open();
	CUcontext before = NULL;
	ncclUniqueId id;

	(void)q, (void)a;
	res->result = ncclSystemError;
	if (!why) {
		memset(&id, 0, sizeof(id));
		ck_driver.cuCtxGetCurrent(&before);
		res->result = cks_nccl.ncclGetUniqueId(&id);
		ck_driver.cuCtxSetCurrent(before);
		if (res->result && cks_nccl.ncclGetLastError)
			why = cks_nccl.ncclGetLastError(NULL);
	}
	if (!res->result)
		copy_to_reply(&res->id.id_val, &res->id.id_len, &id, sizeof(id));
	give_text(&res->reason.reason_val, &res->reason.reason_len, why);
	return CUDA_SUCCESS;
}

/* A copy of the batch that is aligned; @room or allocated. NULL: it is no batch, or there is no
 * memory. */
static void *copy_of(const void *bytes, size_t size, void *room)
{
	void *copy = size <= SMALL ? room : size <= CK_NCCL_BATCH_MAX ? malloc(size) : NULL;

	if (copy)
		memcpy(copy, bytes, size);
	if (copy && cks_nccl_batch_check(copy, size))
		return copy;
	if (copy != room)
		free(copy);
	return NULL;
}

/* Tell the communicators of a batch. False: the program has ended them all. */
static bool note_failure(struct cks_nccl *n, const void *batch, const struct cks_nccl_outcome *out)
{
	const struct ck_nccl_batch *head = batch;
	const struct ck_nccl_op *o = cks_nccl_batch_first(batch);
	bool any = false;

	for (uint32_t i = 0; i < head->count; i++, o = cks_nccl_batch_next(o)) {
		struct cks_nccl_comm *c = cks_nccl_comm_get(n, o->comm);

		if (!c)
			continue;
		cks_nccl_comm_fail(n, c, out->result, out->text);
		cks_nccl_comm_put(n, c);
		any = true;
	}
	return any;
}

/* Operations in streams, in the order of commands. A program that does not ask for asynchronous
 * errors must not take the old contents of a buffer for the result, so its next call that waits
 * fails too. */
CUresult ck_serve_nccl_run(struct cks_request *q, ck_nccl_run_args *a, void *res)
{
	_Alignas(8) unsigned char room[SMALL];
	struct cks_nccl_outcome out;
	CUresult err = CUDA_SUCCESS;
	void *batch;

	(void)res;
	if (cks_nccl_open())
		return CUDA_ERROR_NOT_SUPPORTED;
	batch = copy_of(a->batch.batch_val, a->batch.batch_len, room);
	if (!batch)
		return CUDA_ERROR_INVALID_VALUE;
	cks_nccl_replay(q->session, batch, &out);
	free(out.values);
	if (out.result && note_failure(q->session->nccl, batch, &out)) {
		ck_info("NCCL: result %d: %s", out.result, out.text);
		err = CUDA_ERROR_UNKNOWN;
	}
	if (batch != room)
		free(batch);
	return err;
}

static CUresult start_batch(struct cks_request *q, uint64_t ticket, const void *bytes, size_t size)
{
	_Alignas(8) unsigned char room[SMALL];
	void *batch;

	if (cks_nccl_open())
		return CUDA_ERROR_NOT_SUPPORTED;
	batch = copy_of(bytes, size, room);
	if (!batch)
		return CUDA_ERROR_INVALID_VALUE;
	cks_nccl_job_start(q->session, ticket, batch, size);
	if (batch != room)
		free(batch);
	return CUDA_SUCCESS;
}

CUresult ck_serve_nccl_start(struct cks_request *q, ck_nccl_start_args *a, void *res)
{
	(void)res;
	return start_batch(q, a->ticket, a->batch.batch_val, a->batch.batch_len);
}

/* The same, ahead of commands that wait: an abort. */
CUresult ck_serve_nccl_urge(struct cks_request *q, ck_nccl_urge_args *a, ck_nccl_urge_res *res)
{
	(void)res;
	return start_batch(q, a->ticket, a->batch.batch_val, a->batch.batch_len);
}

CUresult ck_serve_nccl_wait(struct cks_request *q, ck_nccl_wait_args *a, ck_nccl_wait_res *res)
{
	struct cks_nccl_outcome out;
	unsigned int ms = ck_min(ck_min(a->milliseconds, q->session->wait_max_ms),
				 (unsigned int)CK_NCCL_WAIT_MS);

	res->done = cks_nccl_job_wait(q->session->nccl, a->ticket, ms, &out);
	if (!res->done)
		return CUDA_SUCCESS;
	res->result = out.result;
	copy_to_reply(&res->values.values_val, &res->values.values_len, out.values,
		      out.count * sizeof(*out.values));
	give_text(&res->reason.reason_val, &res->reason.reason_len, out.text);
	free(out.values);
	return CUDA_SUCCESS;
}

/* --- questions */

static ncclResult_t number_of(struct cks_nccl *n, const struct cks_nccl_comm *c,
			      unsigned int question, uint64_t *value)
{
	ncclComm_t handle = cks_nccl_comm_handle(n, c);
	ncclResult_t (*ask)(ncclComm_t, int *) =
		question == CK_NCCL_ASK_COUNT ? cks_nccl.ncclCommCount : cks_nccl.ncclCommUserRank;
	int number = 0;
	ncclResult_t ret = ask && handle ? ask(handle, &number) : ncclInvalidArgument;

	*value = (uint64_t)number;
	return ret;
}

static void ask_comm(struct cks_nccl *n, const struct cks_nccl_comm *c, const ck_nccl_ask_args *a,
		     ck_nccl_ask_res *res)
{
	char text[CK_NCCL_TEXT];

	switch (a->question) {
	case CK_NCCL_ASK_ERROR:
		res->result = cks_nccl_comm_state(n, c);
		break;
	case CK_NCCL_ASK_COUNT:
	case CK_NCCL_ASK_RANK:
		res->result = number_of(n, c, a->question, &res->value);
		break;
	case CK_NCCL_ASK_LAST_ERROR:
		cks_nccl_comm_text(n, c, text);
		give_text(&res->text.text_val, &res->text.text_len,
			  text[0] || !cks_nccl.ncclGetLastError ? text
								: cks_nccl.ncclGetLastError(NULL));
		break;
	default:
		res->result = ncclInvalidArgument;
	}
}

CUresult ck_serve_nccl_ask(struct cks_request *q, ck_nccl_ask_args *a, ck_nccl_ask_res *res)
{
	struct cks_nccl *n = q->session->nccl;
	struct cks_nccl_comm *c;

	if (cks_nccl_open()) {
		res->result = ncclSystemError;
		return CUDA_SUCCESS;
	}
	if (a->comm == 0) {
		if (a->question == CK_NCCL_ASK_LAST_ERROR && cks_nccl.ncclGetLastError)
			give_text(&res->text.text_val, &res->text.text_len,
				  cks_nccl.ncclGetLastError(NULL));
		return CUDA_SUCCESS;
	}
	c = cks_nccl_comm_get(n, a->comm);
	res->result = ncclInvalidArgument;
	if (!c)
		return CUDA_SUCCESS;
	res->result = ncclSuccess;
	ask_comm(n, c, a, res);
	cks_nccl_comm_put(n, c);
	return CUDA_SUCCESS;
}
