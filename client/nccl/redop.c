/*
 * client/nccl/redop.c - operators of a communicator. The client gives them their numbers, so
 * neither their making nor their end waits.
 */
#include <string.h>

#include "client/nccl/nccl.h"

/* Of a scalar; 0: unknown. */
static size_t size_of(ncclDataType_t type)
{
	switch (type) {
	case ncclInt8:
	case ncclUint8:
	case ncclFloat8e4m3:
	case ncclFloat8e5m2:
		return 1;
	case ncclFloat16:
	case ncclBfloat16:
		return 2;
	case ncclInt32:
	case ncclUint32:
	case ncclFloat32:
		return 4;
	case ncclInt64:
	case ncclUint64:
	case ncclFloat64:
		return 8;
	default:
		return 0;
	}
}

/* A free number, from ncclNumOps; -1: none. */
static int take_number(struct ckc_nccl_comm *comm)
{
	struct ckc_nccl *s = comm->client->nccl;
	int number = -1;

	ck_lock(&s->lock);
	for (int i = 0; i < CK_NCCL_REDOPS && number < 0; i++) {
		uint64_t *word = &comm->redops[i / 64], bit = (uint64_t)1 << i % 64;

		if (!(*word & bit)) {
			*word |= bit;
			number = ncclNumOps + i;
		}
	}
	ck_unlock(&s->lock);
	return number;
}

static bool give_number(struct ckc_nccl_comm *comm, int number)
{
	struct ckc_nccl *s = comm->client->nccl;
	unsigned int at = (unsigned int)(number - ncclNumOps);
	uint64_t bit = (uint64_t)1 << at % 64;
	bool had = false;

	if (number < ncclNumOps || at >= CK_NCCL_REDOPS)
		return false;
	ck_lock(&s->lock);
	had = comm->redops[at / 64] & bit;
	comm->redops[at / 64] &= ~bit;
	ck_unlock(&s->lock);
	return had;
}

ncclResult_t ckc_ncclRedOpCreatePreMulSum(ncclRedOp_t *op, void *scalar, ncclDataType_t type,
					  ncclScalarResidence_t residence, ncclComm_t handle)
{
	struct ck_nccl_op o = {.what = CK_NCCL_PREMUL, .type = type, .root = residence};
	struct ckc_nccl_comm *comm;
	ncclResult_t ret = ckc_nccl_comm_idle(handle, &comm);

	if (!ret && (!op || !scalar || size_of(type) == 0 ||
		     (residence != ncclScalarDevice && residence != ncclScalarHostImmediate)))
		ret = ckc_nccl_fail(ncclInvalidArgument,
				    "ncclRedOpCreatePreMulSum: type %d, residence %d", type,
				    residence);
	if (ret)
		return ckc_nccl_group_fail(ret);
	if (residence == ncclScalarHostImmediate)
		memcpy(&o.send, scalar, size_of(type));
	else
		o.send = (uintptr_t)scalar;
	o.op = take_number(comm);
	if (o.op < 0)
		return ckc_nccl_group_fail(ckc_nccl_fail(ncclInvalidUsage,
							 "more than %d operators of a communicator",
							 CK_NCCL_REDOPS));
	*op = o.op;
	return ckc_nccl_do(&o, NULL, 0, &(struct ckc_nccl_after){.comm = comm}, 0);
}

ncclResult_t ckc_ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t handle)
{
	struct ck_nccl_op o = {.what = CK_NCCL_REDOP_END, .op = op};
	struct ckc_nccl_comm *comm;
	ncclResult_t ret = ckc_nccl_comm_from(handle, &comm);

	/* an operation in progress may use it */
	if (!ret && !ckc_nccl_pending_wait(comm))
		ret = ckc_nccl_fail(ncclInvalidUsage,
				    "an operation of the communicator is in progress");
	if (!ret && !give_number(comm, op))
		ret = ckc_nccl_fail(ncclInvalidArgument,
				    "ncclRedOpDestroy: %d is not an operator of the communicator",
				    op);
	return ckc_nccl_group_fail(
		ret ? ret : ckc_nccl_do(&o, NULL, 0, &(struct ckc_nccl_after){.comm = comm}, 0));
}
