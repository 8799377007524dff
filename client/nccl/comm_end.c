/*
 * client/nccl/comm_end.c - end communicators.
 */
#include "client/nccl/nccl.h"

static ncclResult_t end_comm(struct ckc_nccl_comm *comm, unsigned int what, int flags, bool ends,
			     unsigned int how)
{
	struct ck_nccl_op op = {.what = what, .root = flags};
	struct ckc_nccl_after after = {.comm = comm, .ends = ends};

	return ckc_nccl_group_fail(ckc_nccl_do(&op, NULL, 0, &after, how));
}

ncclResult_t ckc_ncclCommFinalize(ncclComm_t handle)
{
	struct ckc_nccl_comm *comm;
	ncclResult_t ret = ckc_nccl_comm_idle(handle, &comm);

	return ret ? ckc_nccl_group_fail(ret)
		   : end_comm(comm, CK_NCCL_FINALIZE, 0, false, CKC_NCCL_WAITS);
}

/* The communicator of a handle that goes in any case; NULL: there is nothing to do, or an error.
 * Where its server is lost, it has gone. */
static ncclResult_t last_use(ncclComm_t handle, struct ckc_nccl_comm **comm)
{
	ncclResult_t ret = handle ? ckc_nccl_comm_from(handle, comm) : ncclSuccess;

	if (ret || !handle)
		*comm = NULL;
	if (ret != ncclRemoteError)
		return ckc_nccl_group_fail(ret);
	ckc_nccl_comm_free((struct ckc_nccl_comm *)(void *)handle);
	return ncclSuccess;
}

/* Destroying takes no time after ncclCommFinalize, so that also one that does not block waits here.
 * One whose last operation does not come to an end is aborted. */
ncclResult_t ckc_ncclCommDestroy(ncclComm_t handle)
{
	struct ckc_nccl_comm *comm;
	ncclResult_t ret = last_use(handle, &comm);

	if (!comm)
		return ret;
	if (!ckc_nccl_pending_wait(comm))
		return ckc_ncclCommAbort(handle);
	comm->nonblocking = false;
	return end_comm(comm, CK_NCCL_DESTROY, 0, true, CKC_NCCL_WAITS);
}

ncclResult_t ckc_ncclCommAbort(ncclComm_t handle)
{
	struct ckc_nccl_comm *comm;
	ncclResult_t ret = last_use(handle, &comm);

	if (!comm)
		return ret;
	return end_comm(comm, CK_NCCL_ABORT, 0, true, CKC_NCCL_WAITS | CKC_NCCL_URGENT);
}

ncclResult_t ckc_ncclCommRevoke(ncclComm_t handle, int flags)
{
	struct ckc_nccl_comm *comm;
	ncclResult_t ret = ckc_nccl_comm_from(handle, &comm);

	return ret ? ckc_nccl_group_fail(ret)
		   : end_comm(comm, CK_NCCL_REVOKE, flags, false, CKC_NCCL_WAITS | CKC_NCCL_URGENT);
}
