/*
 * server/nccl/comm_lifecycle.c - operations that make or end a communicator, or something of it.
 */
#include <string.h>

#include "server/nccl/nccl.h"
#include "util/log.h"

CK_LOG_DEFINE("server");

static ncclConfig_t *config_of(struct cks_nccl_extra *x)
{
	return x->has_config ? (ncclConfig_t *)x->config : NULL;
}

static ncclResult_t init_comm(struct cks_nccl_step *s)
{
	struct cks_nccl_extra *x = s->extra;
	ncclUniqueId id;

	if (!s->newcomm || x->count < 1 || s->op->count > INT_MAX)
		return ncclInvalidArgument;
	if (s->op->what == CK_NCCL_INIT_SCALABLE) {
		if (!cks_nccl.ncclCommInitRankScalable)
			return ncclInvalidUsage;
		return cks_nccl.ncclCommInitRankScalable(
			&s->made, (int)s->op->count, s->op->root, (int)x->count,
			(ncclUniqueId *)(uintptr_t)x->items, config_of(x));
	}
	memcpy(&id, x->items, sizeof(id));
	return cks_nccl.ncclCommInitRankConfig(&s->made, (int)s->op->count, id, s->op->root,
					       config_of(x));
}

/* A rank without a colour takes part, and gets no communicator. */
static ncclResult_t split_comm(struct cks_nccl_step *s)
{
	ncclComm_t none = NULL;

	if (!cks_nccl.ncclCommSplit)
		return ncclInvalidUsage;
	if (!s->newcomm && s->op->root != NCCL_SPLIT_NOCOLOR)
		return ncclInvalidArgument;
	return cks_nccl.ncclCommSplit(s->handle, s->op->root, (int)(int64_t)s->op->count,
				      s->newcomm ? &s->made : &none, config_of(s->extra));
}

static ncclResult_t shrink_comm(struct cks_nccl_step *s)
{
	if (!cks_nccl.ncclCommShrink)
		return ncclInvalidUsage;
	if (!s->newcomm)
		return ncclInvalidArgument;
	return cks_nccl.ncclCommShrink(s->handle, (int *)(uintptr_t)s->extra->items,
				       (int)s->extra->count, &s->made, config_of(s->extra),
				       s->op->root);
}

static ncclResult_t create_premul_op(struct cks_nccl_step *s)
{
	const struct ck_nccl_op *o = s->op;
	uint64_t scalar = o->send; /* its bytes, if the scalar is the host's */
	void *at =
		o->root == ncclScalarHostImmediate ? (void *)&scalar : (void *)(uintptr_t)o->send;
	ncclResult_t ret;
	ncclRedOp_t op;

	if (!cks_nccl.ncclRedOpCreatePreMulSum)
		return ncclInvalidUsage;
	ret = cks_nccl.ncclRedOpCreatePreMulSum(&op, at, o->type, o->root, s->handle);
	if (ret == ncclSuccess && !cks_nccl_redop_put(s->comm, o->op, op))
		ret = ncclInvalidArgument;
	return ret;
}

static ncclResult_t end_redop(struct cks_nccl_step *s)
{
	ncclRedOp_t op;

	if (!cks_nccl.ncclRedOpDestroy || s->op->op < ncclNumOps ||
	    !cks_nccl_redop_find(s->comm, s->op->op, &op))
		return ncclInvalidArgument;
	cks_nccl_redop_remove(s->comm, s->op->op);
	return cks_nccl.ncclRedOpDestroy(op, s->handle);
}

static ncclResult_t take_buffer(struct cks_nccl_step *s, bool window)
{
	struct cks_nccl_comm *c = s->comm;
	void *at = (void *)(uintptr_t)s->op->send;

	if (window ? !cks_nccl.ncclCommWindowRegister : !cks_nccl.ncclCommRegister)
		return ncclInvalidUsage;
	s->place = cks_nccl_buffer_new(c, window);
	if (s->place == 0)
		return ncclInvalidUsage;
	if (window)
		return cks_nccl.ncclCommWindowRegister(s->handle, at, s->op->count,
						       (ncclWindow_t *)&c->buffers[s->place],
						       s->op->root);
	return cks_nccl.ncclCommRegister(s->handle, at, s->op->count, &c->buffers[s->place]);
}

static ncclResult_t drop_buffer(struct cks_nccl_step *s, bool window)
{
	struct cks_nccl_comm *c = s->comm;
	unsigned int place = cks_nccl_buffer_find(c, window, s->op->send);
	void *handle;

	if (place == 0 ||
	    (window ? !cks_nccl.ncclCommWindowDeregister : !cks_nccl.ncclCommDeregister))
		return ncclInvalidArgument;
	handle = c->buffers[place];
	c->buffers[place] = NULL;
	return window ? cks_nccl.ncclCommWindowDeregister(s->handle, handle)
		      : cks_nccl.ncclCommDeregister(s->handle, handle);
}

/* A communicator that NCCL is still making, without a way to stop it, is aborted when it has been
 * made. */
static ncclResult_t end_comm(struct cks_nccl *n, struct cks_nccl_step *s)
{
	ncclComm_t handle = cks_nccl_comm_end(n, s->comm);

	if (s->op->what == CK_NCCL_ABORT)
		return handle ? cks_nccl.ncclCommAbort(handle) : ncclSuccess;
	return handle ? cks_nccl.ncclCommDestroy(handle) : ncclInvalidArgument;
}

ncclResult_t cks_nccl_manage(struct cks_nccl *n, struct cks_nccl_step *s)
{
	if (s->op->what != CK_NCCL_INIT && s->op->what != CK_NCCL_INIT_SCALABLE &&
	    s->op->what != CK_NCCL_ABORT && !s->handle)
		return ncclInvalidArgument;
	switch (s->op->what) {
	case CK_NCCL_INIT:
	case CK_NCCL_INIT_SCALABLE:
		return init_comm(s);
	case CK_NCCL_SPLIT:
		return split_comm(s);
	case CK_NCCL_SHRINK:
		return shrink_comm(s);
	case CK_NCCL_FINALIZE:
		return cks_nccl.ncclCommFinalize ? cks_nccl.ncclCommFinalize(s->handle)
						 : ncclInvalidUsage;
	case CK_NCCL_DESTROY:
	case CK_NCCL_ABORT:
		return end_comm(n, s);
	case CK_NCCL_REVOKE:
		return cks_nccl.ncclCommRevoke ? cks_nccl.ncclCommRevoke(s->handle, s->op->root)
					       : ncclInvalidUsage;
	case CK_NCCL_PREMUL:
		return create_premul_op(s);
	case CK_NCCL_REDOP_END:
		return end_redop(s);
	case CK_NCCL_DEREGISTER:
	case CK_NCCL_WINDOW_END:
		return drop_buffer(s, s->op->what == CK_NCCL_WINDOW_END);
	default: /* CK_NCCL_REGISTER, CK_NCCL_WINDOW: the batch has been checked */
		return take_buffer(s, s->op->what == CK_NCCL_WINDOW);
	}
}

static void complete_new(struct cks_nccl *n, struct cks_nccl_step *s, ncclResult_t result)
{
	struct cks_nccl_comm *c = s->newcomm;
	ncclComm_t made = result && !c->nonblocking ? NULL : s->made;
	bool wanted = cks_nccl_comm_made(n, c, made);

	if (!wanted && made && !c->nonblocking)
		cks_nccl.ncclCommAbort(made); /* no rank of the program waits for it any more */
	else if (result && made)
		cks_nccl_comm_fail(n, c, result, ""); /* the program aborts it */
	else if (result)
		cks_nccl_comm_remove(n, c);
}

void cks_nccl_complete(struct cks_nccl *n, struct cks_nccl_step *s, ncclResult_t result)
{
	if (s->newcomm)
		complete_new(n, s, result);
	if (s->place && (result || s->result))
		s->comm->buffers[s->place] = NULL;
	if (s->comm && (s->op->what == CK_NCCL_DESTROY || s->op->what == CK_NCCL_ABORT))
		cks_nccl_comm_remove(n, s->comm);
}
