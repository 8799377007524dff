/*
 * server/nccl/replay.c - carry out a batch of operations, as the program has grouped it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "gen/driver.h"
#include "server/nccl/nccl.h"
#include "util/log.h"
#include "util/util.h"

CK_LOG_DEFINE("server");

#define POLL_NS_LEAST 20000
#define POLL_NS_MOST 2000000

static bool makes_comm(uint32_t what)
{
	return what >= CK_NCCL_INIT && what <= CK_NCCL_SHRINK;
}

/* --- before: the communicators of each step */

static bool is_nonblocking(const struct cks_nccl_step *s)
{
	const ncclConfig_t *config = (const ncclConfig_t *)s->extra->config;

	if (s->extra->has_config && config->blocking != NCCL_CONFIG_UNDEF_INT)
		return config->blocking == 0;
	return s->comm && s->comm->nonblocking;
}

static ncclResult_t prepare_new(struct cks_session *session, struct cks_nccl_step *s,
				const void *batch)
{
	s->extra = malloc(sizeof(*s->extra));
	if (!s->extra)
		return ncclSystemError;
	if (!cks_nccl_extra_read(s->op, s->extra))
		return ncclInvalidArgument;
	if (s->op->newcomm == 0)
		return ncclSuccess;
	s->newcomm =
		cks_nccl_comm_new(session->nccl, s->op->newcomm, s->op->context, is_nonblocking(s));
	if (!s->newcomm)
		return ncclInvalidArgument;
	return cks_nccl_comm_claim(session->nccl, s->newcomm, batch) ? ncclSuccess
								     : ncclInvalidUsage;
}

/* The communicator that the step uses. Only aborts and revocations may use it beside another batch,
 * as NCCL allows. */
static ncclResult_t find_comm(struct cks_nccl *n, struct cks_nccl_step *s, const void *batch)
{
	const struct ck_nccl_op *o = s->op;

	s->comm = o->what == CK_NCCL_ABORT ? cks_nccl_comm_await(n, o->comm)
					   : cks_nccl_comm_get(n, o->comm);
	if (!s->comm)
		return ncclInvalidArgument;
	if (o->what == CK_NCCL_ABORT || o->what == CK_NCCL_REVOKE ||
	    cks_nccl_comm_claim(n, s->comm, batch))
		return ncclSuccess;
	cks_nccl_comm_put(n, s->comm);
	s->comm = NULL;
	return ncclInvalidUsage;
}

static ncclResult_t prepare_step(struct cks_session *session, struct cks_nccl_step *s,
				 const struct ck_nccl_op *o, const void *batch)
{
	ncclResult_t ret = ncclSuccess;

	s->op = o;
	if (o->what != CK_NCCL_INIT && o->what != CK_NCCL_INIT_SCALABLE)
		ret = find_comm(session->nccl, s, batch);
	return !ret && makes_comm(o->what) ? prepare_new(session, s, batch) : ret;
}

/* --- the steps */

static ncclResult_t in_stream(struct cks_session *session, const struct cks_nccl_step *s)
{
	struct cks_request q = {.session = session, .ctx = s->op->context};
	CUstream stream;
	ncclRedOp_t op = 0;

	if (!s->handle || !cks_stream_find(&q, s->op->stream, &stream))
		return ncclInvalidArgument;
	if (cks_nccl_has_op(s->op->what) && !cks_nccl_redop_find(s->comm, s->op->op, &op))
		return ncclInvalidArgument;
	return cks_nccl_carry_out(s->op, op, s->handle, stream);
}

/* NCCL takes the device from the current context where it makes a communicator. */
static ncclResult_t run_step(struct cks_session *session, struct cks_nccl_step *s)
{
	CUcontext context = cks_handles_get(session->handles, s->op->context, CK_KIND_CONTEXT);

	if (!context || ck_driver.cuCtxSetCurrent(context) != CUDA_SUCCESS)
		return ncclUnhandledCudaError;
	s->handle = s->comm ? cks_nccl_comm_handle(session->nccl, s->comm) : NULL;
	return cks_nccl_is_op(s->op->what) ? in_stream(session, s)
					   : cks_nccl_manage(session->nccl, s);
}

/* --- after: communicators whose operations go on behind the program's back */

/* The commands that follow in a stream need its work to be in it. */
static ncclResult_t wait_for(struct cks_nccl *n, const struct cks_nccl_step *s)
{
	const struct cks_nccl_comm *c = s->newcomm ? s->newcomm : s->comm;
	struct timespec pause = {.tv_nsec = POLL_NS_LEAST};
	ncclResult_t state;

	if (!c || !c->nonblocking || s->op->what == CK_NCCL_ABORT || s->op->what == CK_NCCL_DESTROY)
		return ncclSuccess;
	while ((state = cks_nccl_comm_state(n, c)) == ncclInProgress) {
		nanosleep(&pause, NULL);
		pause.tv_nsec = ck_min(pause.tv_nsec * 2, (long)POLL_NS_MOST);
	}
	return state;
}

static void keep_first(ncclResult_t *first, ncclResult_t result)
{
	if (!*first && result != ncclInProgress)
		*first = result;
}

static ncclResult_t simulate_group(float *estimated)
{
	ncclSimInfo_t info = {.size = sizeof(info), .magic = NCCL_SIM_INFO_MAGIC, .version = 22200};
	ncclResult_t ret;

	if (!cks_nccl.ncclGroupSimulateEnd) {
		cks_nccl.ncclGroupEnd();
		return ncclInvalidUsage;
	}
	ret = cks_nccl.ncclGroupSimulateEnd(&info);
	*estimated = info.estimatedTime;
	return ret;
}

static ncclResult_t run_steps(struct cks_session *session, struct cks_nccl_step *steps,
			      const struct ck_nccl_batch *head, float *estimated)
{
	ncclResult_t first = head->grouped ? cks_nccl.ncclGroupStart() : ncclSuccess;
	bool begun = head->grouped && !first;
	uint32_t count = head->count;

	for (uint32_t i = 0; i < count && !first; i++) {
		steps[i].result = run_step(session, &steps[i]);
		keep_first(&first, steps[i].result);
	}
	if (begun)
		keep_first(&first, head->grouped == CK_NCCL_SIMULATED ? simulate_group(estimated)
								      : cks_nccl.ncclGroupEnd());
	for (uint32_t i = 0; i < count && !first; i++) {
		if (steps[i].newcomm && steps[i].newcomm->nonblocking)
			cks_nccl_comm_begun(session->nccl, steps[i].newcomm, steps[i].made);
	}
	for (uint32_t i = 0; i < count && !first; i++)
		keep_first(&first, wait_for(session->nccl, &steps[i]));
	return first;
}

static void collect_values(const struct cks_nccl_step *steps, uint32_t count,
			   struct cks_nccl_outcome *out)
{
	out->values = calloc(count + 1, sizeof(*out->values));
	for (uint32_t i = 0; out->values && i < count; i++) {
		if (steps[i].op->what == CK_NCCL_REGISTER || steps[i].op->what == CK_NCCL_WINDOW)
			out->values[out->count++] =
				steps[i].place
					? cks_nccl_buffer_value(steps[i].comm, steps[i].place)
					: 0;
	}
}

static void note_text(struct cks_nccl_outcome *out)
{
	const char *text = cks_nccl.ncclGetLastError ? cks_nccl.ncclGetLastError(NULL) : NULL;

	snprintf(out->text, sizeof(out->text), "%s", text ? text : "");
}

static void give_back(struct cks_nccl *n, struct cks_nccl_comm *c, const void *batch)
{
	if (!c)
		return;
	cks_nccl_comm_give_back(n, c, batch);
	cks_nccl_comm_put(n, c);
}

static void clean_up(struct cks_nccl *n, struct cks_nccl_step *steps, uint32_t count,
		     ncclResult_t result)
{
	for (uint32_t i = 0; i < count; i++) {
		if (steps[i].op)
			cks_nccl_complete(n, &steps[i], result);
	}
	for (uint32_t i = 0; i < count; i++) {
		give_back(n, steps[i].comm, steps);
		give_back(n, steps[i].newcomm, steps);
		free(steps[i].extra);
	}
	free(steps);
}

void cks_nccl_replay(struct cks_session *session, const void *batch, struct cks_nccl_outcome *out)
{
	const struct ck_nccl_batch *head = batch;
	const struct ck_nccl_op *o = cks_nccl_batch_first(batch);
	struct cks_nccl_step *steps = calloc(head->count ? head->count : 1, sizeof(*steps));
	CUcontext before = NULL;

	*out = (struct cks_nccl_outcome){.result = steps ? ncclSuccess : ncclSystemError};
	if (!steps)
		return;
	for (uint32_t i = 0; i < head->count && !out->result; i++) {
		out->result = prepare_step(session, &steps[i], o, steps);
		o = cks_nccl_batch_next(o);
	}
	if (!out->result) {
		/* the calling thread has a context that its next message may rely on */
		ck_driver.cuCtxGetCurrent(&before);
		out->result = run_steps(session, steps, head, &out->estimated);
		if (out->result)
			note_text(out);
		ck_driver.cuCtxSetCurrent(before);
	}
	if (!out->result)
		collect_values(steps, head->count, out);
	if (!out->result && out->values && head->grouped == CK_NCCL_SIMULATED)
		memcpy(&out->values[out->count++], &out->estimated, sizeof(out->estimated));
	clean_up(session->nccl, steps, head->count, out->result);
}
