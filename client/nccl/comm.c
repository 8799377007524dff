/*
 * client/nccl/comm.c - communicators: handles and questions.
 */
#include <stdlib.h>
#include <string.h>

#include "client/nccl/nccl.h"
#include "client/link/hooks.h"
#include "rpc/proc.h"
#include "util/util.h"

/* The place that @handle points to in the table of @c; NULL: nowhere. */
static struct ckc_nccl_comm *place_of(const struct ckc_client *c, ncclComm_t handle)
{
	struct ckc_nccl_comm *table = c->nccl->comms;
	uintptr_t at = (uintptr_t)handle - (uintptr_t)table;

	if ((uintptr_t)handle < (uintptr_t)table || at >= sizeof(c->nccl->comms) ||
	    at % sizeof(*table) != 0)
		return NULL;
	return &table[at / sizeof(*table)];
}

static struct ckc_nccl_comm *find_comm(ncclComm_t handle)
{
	struct ckc_nccl_comm *found = NULL;

	for (unsigned int i = 0; !found && i < ckc_servers_count(); i++)
		found = place_of(ckc_server_session(i), handle);
	return found && found->client ? found : NULL;
}

ncclResult_t ckc_nccl_comm_from(ncclComm_t handle, struct ckc_nccl_comm **comm)
{
	struct ckc_nccl_comm *found = find_comm(handle);

	if (!found)
		return ckc_nccl_fail(ncclInvalidArgument, "%p is not a communicator",
				     (void *)handle);
	if (atomic_load(&found->client->state) != CK_STATE_READY)
		return ckc_nccl_from_driver(CUDA_ERROR_DEVICE_UNAVAILABLE);
	ckc_route(found->client);
	*comm = found;
	return ncclSuccess;
}

ncclResult_t ckc_nccl_comm_idle(ncclComm_t handle, struct ckc_nccl_comm **comm)
{
	ncclResult_t ret = ckc_nccl_comm_from(handle, comm);

	if (!ret && ckc_nccl_pending_ask(*comm, 0) == ncclInProgress)
		ret = ckc_nccl_fail(ncclInvalidArgument,
				    "the previous operation of the communicator is in progress");
	return ret ? ret : (*comm)->failed;
}

/* Ranks of one clique in one session: several threads may drive them. With the lock. */
static void find_crowd(struct ckc_nccl *s, struct ckc_nccl_comm *comm)
{
	for (unsigned int i = 1; i < s->used; i++) {
		struct ckc_nccl_comm *other = &s->comms[i];

		if (other != comm && other->client && other->clique == comm->clique)
			other->crowded = comm->crowded = true;
	}
}

struct ckc_nccl_comm *ckc_nccl_comm_new(struct ckc_context *context, uint64_t clique)
{
	struct ckc_nccl *s = context->client->nccl;
	struct ckc_nccl_comm *comm = NULL;
	unsigned int i = 1;

	ck_lock(&s->lock);
	while (i < CK_NCCL_COMMS && s->comms[i].client)
		i++;
	if (i < CK_NCCL_COMMS) {
		comm = &s->comms[i];
		s->used = ck_max(s->used, i + 1);
		*comm = (struct ckc_nccl_comm){.client = context->client,
					       .context = context,
					       .number = i,
					       .device = context->device,
					       .ranks = -1,
					       .rank = -1,
					       .clique = clique};
		find_crowd(s, comm);
	}
	ck_unlock(&s->lock);
	if (!comm)
		ckc_nccl_fail(ncclSystemError, "more than %d communicators in a session",
			      CK_NCCL_COMMS - 1);
	return comm;
}

void ckc_nccl_comm_free(struct ckc_nccl_comm *comm)
{
	struct ckc_nccl *s = comm->client->nccl;

	ckc_nccl_pending_drop(comm);
	ck_lock(&s->lock);
	free(comm->peers[0]);
	free(comm->peers[1]);
	comm->peers[0] = comm->peers[1] = NULL;
	comm->client = NULL;
	ck_unlock(&s->lock);
}

/* The server aborts them with the context. */
static void end_with_context(struct ckc_context *context)
{
	struct ckc_nccl *s = context->client->nccl;

	for (unsigned int i = 1; i < s->used; i++) {
		if (s->comms[i].client && s->comms[i].context == context)
			ckc_nccl_comm_free(&s->comms[i]);
	}
}
CK_ON_CONTEXT_END(CK_LAYER_NCCL, end_with_context);

/* --- questions */

static ncclResult_t query_comm(const struct ckc_nccl_comm *comm, unsigned int question,
			       uint64_t *value)
{
	ck_nccl_ask_args args = {.comm = comm->number, .question = question};
	ck_nccl_ask_res res;
	ncclResult_t ret;
	CUresult err;

	memset(&res, 0, sizeof(res));
	err = ckc_call_aside(comm->client, CK_PROC_nccl_ask, &args, &res);
	ret = err ? ckc_nccl_from_driver(err) : res.result;
	*value = res.value;
	xdr_free((xdrproc_t)xdr_ck_nccl_ask_res, &res);
	return ret;
}

static ncclResult_t query_number(struct ckc_nccl_comm *comm, unsigned int question, int *known,
				 int *out)
{
	ncclResult_t ret = ncclSuccess;
	uint64_t value;

	if (*known < 0) {
		ret = query_comm(comm, question, &value);
		if (!ret)
			*known = (int)value;
	}
	if (!ret)
		*out = *known;
	return ret;
}

ncclResult_t ckc_nccl_comm_ranks(struct ckc_nccl_comm *comm, int *ranks)
{
	return query_number(comm, CK_NCCL_ASK_COUNT, &comm->ranks, ranks);
}

ncclResult_t ckc_ncclCommCount(const ncclComm_t handle, int *count)
{
	struct ckc_nccl_comm *comm;
	ncclResult_t ret = ckc_nccl_comm_idle(handle, &comm);

	if (!ret && !count)
		ret = ckc_nccl_fail(ncclInvalidArgument, "ncclCommCount: count is NULL");
	return ret ? ret : ckc_nccl_comm_ranks(comm, count);
}

ncclResult_t ckc_ncclCommUserRank(const ncclComm_t handle, int *rank)
{
	struct ckc_nccl_comm *comm;
	ncclResult_t ret = ckc_nccl_comm_idle(handle, &comm);

	if (!ret && !rank)
		ret = ckc_nccl_fail(ncclInvalidArgument, "ncclCommUserRank: rank is NULL");
	return ret ? ret : query_number(comm, CK_NCCL_ASK_RANK, &comm->rank, rank);
}

ncclResult_t ckc_ncclCommCuDevice(const ncclComm_t handle, int *device)
{
	struct ckc_nccl_comm *comm;
	ncclResult_t ret = ckc_nccl_comm_idle(handle, &comm);

	if (!ret && !device)
		ret = ckc_nccl_fail(ncclInvalidArgument, "ncclCommCuDevice: device is NULL");
	if (!ret)
		*device = comm->device;
	return ret;
}

/*
 * A lost server is an error of the communicator, which the program then aborts. At the end of the
 * process a thread may still ask, and is to see no error in that.
 */
ncclResult_t ckc_ncclCommGetAsyncError(ncclComm_t handle, ncclResult_t *async)
{
	struct ckc_nccl_comm *comm = find_comm(handle);
	uint64_t value;
	int state;

	if (!async || !comm)
		return ckc_nccl_fail(ncclInvalidArgument, "ncclCommGetAsyncError: %p is no %s",
				     (void *)handle, async ? "communicator" : "place for an error");
	state = atomic_load(&comm->client->state);
	if (state != CK_STATE_READY) {
		*async = state == CK_STATE_LOST ? ncclRemoteError : ncclSuccess;
		return ncclSuccess;
	}
	ckc_route(comm->client);
	*async = ckc_nccl_pending_ask(comm, 0);
	if (!*async)
		*async = comm->failed ? comm->failed : query_comm(comm, CK_NCCL_ASK_ERROR, &value);
	return ncclSuccess;
}
