/*
 * client/nccl/enqueue.c - operations in a stream: collectives, send and receive.
 *
 * Calls that NCCL refuses at once are refused here. An operation is a one-way message, unless NCCL
 * may make it wait for other ranks before it is in the stream: then a thread of the worker carries
 * it out, and the program's thread waits as it would natively.
 */
#include <stdlib.h>

#include "client/managed/managed.h"
#include "client/modules/launch.h"
#include "client/nccl/nccl.h"
#include "client/objects/capture.h"
#include "util/util.h"

/* --- checks */

static ncclResult_t check_operator(const struct ckc_nccl_comm *comm, int op)
{
	unsigned int at = (unsigned int)(op - ncclNumOps);

	if (op >= 0 && op < ncclNumOps)
		return ncclSuccess;
	if (op >= ncclNumOps && at < CK_NCCL_REDOPS && comm->redops[at / 64] >> at % 64 & 1)
		return ncclSuccess;
	return ckc_nccl_fail(ncclInvalidArgument, "%d is not an operator of the communicator", op);
}

static ncclResult_t check_root(struct ckc_nccl_comm *comm, const struct ck_nccl_op *op)
{
	int ranks = 0;
	ncclResult_t ret = ckc_nccl_comm_ranks(comm, &ranks);

	if (!ret && (op->root < 0 || op->root >= ranks))
		ret = ckc_nccl_fail(ncclInvalidArgument, "%s: rank %d of %d",
				    ckc_nccl_op_name(op->what), op->root, ranks);
	return ret;
}

static ncclResult_t check_operation(struct ckc_nccl_comm *comm, const struct ck_nccl_op *op,
				    unsigned int flags)
{
	ncclResult_t ret = ncclSuccess;

	if (op->type < 0 || op->type >= ncclNumTypes)
		return ckc_nccl_fail(ncclInvalidArgument, "%s: data type %d",
				     ckc_nccl_op_name(op->what), op->type);
	if (flags & CKC_NCCL_HAS_OP)
		ret = check_operator(comm, op->op);
	if (!ret && flags & CKC_NCCL_HAS_ROOT)
		ret = check_root(comm, op);
	return ret;
}

/* --- the stream */

static ncclResult_t take_stream(struct ckc_nccl_comm *comm, CUstream handle,
				struct ckc_stream **stream, uint64_t *id)
{
	CUresult err = ckc_stream_from(handle, stream);

	if (!err && *stream && (*stream)->object.context->client != comm->client)
		err = CUDA_ERROR_INVALID_HANDLE;
	ckc_route(comm->client);
	if (!err)
		err = ckc_capture_work(*stream);
	*id = !err && *stream ? (*stream)->object.id : 0;
	return ckc_nccl_from_driver(err);
}

/* The device is about to use the buffers. */
static ncclResult_t expose_buffers(const struct ck_nccl_op *op, const struct ckc_stream *stream)
{
	uint64_t buffers[2] = {op->send, op->recv};
	CUresult err = ckc_launch_expose(NULL, (const unsigned char *)buffers, sizeof(buffers));

	if (!err && !ckc_capturing(stream))
		ckc_managed_launch();
	return ckc_nccl_from_driver(err);
}

/* --- may it wait? */

static bool test_and_set(uint64_t *words, unsigned int bit)
{
	bool was = words[bit / 64] >> bit % 64 & 1;

	words[bit / 64] |= (uint64_t)1 << bit % 64;
	return was;
}

/* NCCL connects two ranks at their first message. */
static bool is_new_peer(struct ckc_nccl_comm *comm, const struct ck_nccl_op *op)
{
	uint64_t **words = &comm->peers[op->what == CK_NCCL_OP_RECV];

	if (!*words)
		*words = calloc((size_t)comm->ranks / 64 + 1, sizeof(**words));
	return !*words || !test_and_set(*words, (unsigned int)op->root);
}

/* And all ranks at the first use of an algorithm, which it chooses by the size. */
static bool is_new(struct ckc_nccl_comm *comm, const struct ck_nccl_op *op)
{
	unsigned int size = op->count ? 63u - (unsigned int)__builtin_clzll(op->count) : 0;

	if (op->what == CK_NCCL_OP_SEND || op->what == CK_NCCL_OP_RECV)
		return is_new_peer(comm, op);
	return !test_and_set(&comm->seen[op->what], size);
}

/* Captures and registered buffers are exchanged between ranks. Ranks of one process that different
 * threads drive, each with a call of its own, wait for one another in any case. */
static bool may_wait(struct ckc_nccl_comm *comm, const struct ck_nccl_op *op,
		     const struct ckc_stream *stream)
{
	bool first = is_new(comm, op);

	return first || comm->registered > 0 || (comm->crowded && !ckc_nccl_grouping()) ||
	       ckc_capturing(stream);
}

static ncclResult_t enqueue_operation(struct ckc_nccl_comm *comm, struct ck_nccl_op *op,
				      unsigned int flags, CUstream handle)
{
	struct ckc_nccl_after after = {.comm = comm};
	struct ckc_stream *stream = NULL;
	ncclResult_t ret = check_operation(comm, op, flags);

	if (!ret)
		ret = take_stream(comm, handle, &stream, &op->stream);
	if (!ret)
		ret = expose_buffers(op, stream);
	if (ret)
		return ret;
	return ckc_nccl_do(op, NULL, 0, &after, may_wait(comm, op, stream) ? CKC_NCCL_WAITS : 0);
}

ncclResult_t ckc_nccl_enqueue(struct ck_nccl_op *op, unsigned int flags, ncclComm_t handle,
			      CUstream stream)
{
	struct ckc_nccl_comm *comm;
	ncclResult_t ret = ckc_nccl_comm_idle(handle, &comm);

	return ckc_nccl_group_fail(ret ? ret : enqueue_operation(comm, op, flags, stream));
}
