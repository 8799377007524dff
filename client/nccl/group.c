/*
 * client/nccl/group.c - ncclGroupStart and ncclGroupEnd: a thread collects its operations, for each
 * session a batch.
 */
#include <stdlib.h>
#include <string.h>

#include "client/nccl/nccl.h"
#include "client/link/hooks.h"

struct group {
	unsigned int depth;
	ncclResult_t failed; /* the first error inside of it */
	struct ckc_nccl_batch batches[CK_SERVERS_MAX];
};

/* Of a thread; it stays, because most threads that group once do it again. */
static __thread struct group *group __attribute__((tls_model("initial-exec")));

static void end_with_thread(struct ckc_thread *thread)
{
	(void)thread;
	if (!group)
		return;
	for (unsigned int i = 0; i < CK_SERVERS_MAX; i++) {
		ckc_nccl_batch_undo(&group->batches[i]);
		ckc_nccl_batch_free(&group->batches[i]);
	}
	free(group);
	group = NULL;
}
CK_ON_THREAD_END(end_with_thread);

static struct group *get_own_group(void)
{
	if (!group && ckc_thread()) /* so that the thread's end is seen */
		group = calloc(1, sizeof(*group));
	return group;
}

bool ckc_nccl_grouping(void)
{
	return group && group->depth > 0;
}

ncclResult_t ckc_nccl_group_fail(ncclResult_t result)
{
	if (group && group->depth > 0 && result && result != ncclInProgress && !group->failed)
		group->failed = result;
	return result;
}

/* The operation is not in the batch: neither is the communicator that it makes. */
static ncclResult_t fail_op(const struct ckc_nccl_after *after, const char *why)
{
	if (after->newcomm) {
		*after->handle = NULL;
		ckc_nccl_comm_free(after->newcomm);
	}
	return ckc_nccl_group_fail(ckc_nccl_fail(ncclSystemError, "%s", why));
}

ncclResult_t ckc_nccl_do(struct ck_nccl_op *op, const void *extra, size_t size,
			 const struct ckc_nccl_after *after, unsigned int flags)
{
	const struct ckc_nccl_comm *about = after->newcomm ? after->newcomm : after->comm;
	struct ckc_client *c = about->client;
	struct group *g = get_own_group();
	struct ckc_nccl_batch *b;

	if (!g)
		return fail_op(after, "out of memory");
	b = &g->batches[c->index % CK_SERVERS_MAX];
	b->client = c;
	op->comm = after->comm ? after->comm->number : 0;
	op->newcomm = after->newcomm ? after->newcomm->number : 0;
	op->context = about->context->object.id;
	if (!ckc_nccl_batch_add(b, op, extra, size, after, flags))
		return fail_op(after, "too many operations in a group");
	return g->depth > 0 ? ncclSuccess : ckc_nccl_flush(b, 1, CK_NCCL_ALONE, NULL);
}

ncclResult_t ckc_ncclGroupStart(void)
{
	struct group *g = get_own_group();

	if (!g)
		return ckc_nccl_fail(ncclSystemError, "out of memory");
	if (g->depth++ == 0)
		g->failed = ncclSuccess;
	return ncclSuccess;
}

static ncclResult_t leave_group(const char *call, unsigned int grouped, float *estimated)
{
	struct group *g = group;

	if (!g || g->depth == 0)
		return ckc_nccl_fail(ncclInvalidUsage, "%s without ncclGroupStart", call);
	if (--g->depth > 0)
		return ncclSuccess;
	if (!g->failed)
		return ckc_nccl_flush(g->batches, CK_SERVERS_MAX, grouped, estimated);
	for (unsigned int i = 0; i < CK_SERVERS_MAX; i++) {
		ckc_nccl_batch_undo(&g->batches[i]);
		ckc_nccl_batch_free(&g->batches[i]);
	}
	return g->failed;
}

ncclResult_t ckc_ncclGroupEnd(void)
{
	return leave_group("ncclGroupEnd", CK_NCCL_GROUPED, NULL);
}

ncclResult_t ckc_ncclGroupSimulateEnd(ncclSimInfo_t *info)
{
	float estimated = -1;
	ncclResult_t ret;

	if (info && (info->size < sizeof(*info) || info->magic != NCCL_SIM_INFO_MAGIC))
		return ckc_nccl_fail(ncclInvalidArgument,
				     "ncclGroupSimulateEnd: simInfo is not initialised");
	ret = leave_group("ncclGroupSimulateEnd", CK_NCCL_SIMULATED, &estimated);
	if (!ret && info)
		info->estimatedTime = estimated;
	return ret;
}
