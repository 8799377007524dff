/*
 * client/nccl/init.c - make communicators.
 *
 * The handle exists at once, as with NCCL; the program uses it when the call, or its group, has
 * ended.
 */
#include <stdlib.h>
#include <string.h>

#include "client/nccl/nccl.h"
#include "util/util.h"

/* --- the context of the rank */

/* Without a current context NCCL takes device 0. */
static ncclResult_t take_context(struct ckc_context **context)
{
	CUcontext primary;
	CUresult err;

	if (!ckc_context_current()) {
		err = cuInit(0);
		if (!err)
			err = cuDevicePrimaryCtxRetain(&primary, 0);
		if (!err)
			err = cuCtxSetCurrent(primary);
		if (err)
			return ckc_nccl_from_driver(err);
	}
	if (ckc_context_usable(context))
		return ckc_nccl_fail(ncclUnhandledCudaError, "the current context cannot be used");
	ckc_route((*context)->client);
	return ckc_nccl_ready((*context)->client);
}

/* --- one rank */

/* The arguments of a call. */
struct rank {
	ncclComm_t *comm;
	int ranks, rank, ids;
	const ncclUniqueId *id;
	const ncclConfig_t *config;
	unsigned int what;
};

static uint64_t hash_of(const void *bytes, size_t size)
{
	uint64_t h = 14695981039346656037u; /* FNV-1a */

	for (size_t i = 0; i < size; i++)
		h = (h ^ ((const unsigned char *)bytes)[i]) * 1099511628211u;
	return h;
}

static ncclResult_t check_rank(const char *call, const struct rank *r)
{
	if (!r->comm || !r->id)
		return ckc_nccl_fail(ncclInvalidArgument, "%s: a pointer is NULL", call);
	if (r->ranks < 1 || r->rank < 0 || r->rank >= r->ranks)
		return ckc_nccl_fail(ncclInvalidArgument, "%s: rank %d of %d", call, r->rank,
				     r->ranks);
	if (r->ids < 1 || r->ids > r->ranks ||
	    (size_t)r->ids * sizeof(*r->id) > CK_NCCL_BATCH_MAX / 2)
		return ckc_nccl_fail(ncclInvalidArgument, "%s: %d unique ids", call, r->ids);
	return ncclSuccess;
}

static bool is_nonblocking(const ncclConfig_t *config)
{
	return config && config->blocking == 0;
}

static ncclResult_t make_in(struct ckc_context *context, const struct rank *r)
{
	struct ck_nccl_op op = {.what = r->what, .count = (uint64_t)r->ranks, .root = r->rank};
	struct ckc_nccl_after after = {.handle = r->comm};
	void *extra = NULL;
	size_t size;
	ncclResult_t ret =
		ckc_nccl_config_pack(r->id, sizeof(*r->id), r->ids, r->config, &extra, &size);

	if (ret)
		return ret;
	after.newcomm = ckc_nccl_comm_new(context, hash_of(r->id, sizeof(*r->id)));
	ret = ncclSystemError;
	if (after.newcomm) {
		after.newcomm->ranks = r->ranks;
		after.newcomm->rank = r->rank;
		after.newcomm->nonblocking = is_nonblocking(r->config);
		*r->comm = ckc_nccl_handle(after.newcomm);
		ret = ckc_nccl_do(&op, extra, size, &after, CKC_NCCL_WAITS | CKC_NCCL_MAKES);
	}
	free(extra);
	return ret;
}

static ncclResult_t make_comm(const char *call, const struct rank *r)
{
	ncclResult_t ret = check_rank(call, r);
	struct ckc_context *context;

	if (!ret)
		*r->comm = NULL;
	if (!ret)
		ret = take_context(&context);
	return ckc_nccl_group_fail(ret ? ret : make_in(context, r));
}

ncclResult_t ckc_ncclCommInitRank(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank)
{
	return make_comm("ncclCommInitRank", &(struct rank){.comm = comm,
							    .ranks = ranks,
							    .rank = rank,
							    .ids = 1,
							    .id = &id,
							    .what = CK_NCCL_INIT});
}

ncclResult_t ckc_ncclCommInitRankConfig(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank,
					ncclConfig_t *config)
{
	return make_comm("ncclCommInitRankConfig", &(struct rank){.comm = comm,
								  .ranks = ranks,
								  .rank = rank,
								  .ids = 1,
								  .id = &id,
								  .config = config,
								  .what = CK_NCCL_INIT});
}

ncclResult_t ckc_ncclCommInitRankScalable(ncclComm_t *comm, int ranks, int rank, int ids,
					  ncclUniqueId *id, ncclConfig_t *config)
{
	return make_comm("ncclCommInitRankScalable", &(struct rank){.comm = comm,
								    .ranks = ranks,
								    .rank = rank,
								    .ids = ids,
								    .id = id,
								    .config = config,
								    .what = CK_NCCL_INIT_SCALABLE});
}

/* --- all ranks of a process */

/* Retain the primary context of @device, and make it current in the place of *@before. */
static ncclResult_t enter_primary(int device, CUcontext *before)
{
	CUcontext primary;
	CUresult err = cuDevicePrimaryCtxRetain(&primary, device);

	*before = NULL;
	if (err)
		return ckc_nccl_from_driver(err);
	cuCtxGetCurrent(before);
	cuCtxSetCurrent(primary);
	return ncclSuccess;
}

static ncclResult_t make_on(int device, const struct rank *r)
{
	CUcontext before;
	ncclResult_t ret = enter_primary(device, &before);

	if (ret)
		return ret;
	ret = make_comm("ncclCommInitAll", r);
	cuCtxSetCurrent(before);
	return ret;
}

static ncclResult_t check_devices(int count, const int *devices)
{
	int there = 0;
	CUresult err = cuInit(0);

	if (!err)
		err = cuDeviceGetCount(&there);
	if (err)
		return ckc_nccl_from_driver(err);
	if (count < 1 || count > there)
		return ckc_nccl_fail(ncclInvalidArgument, "ncclCommInitAll: %d devices of %d",
				     count, there);
	for (int i = 0; devices && i < count; i++) {
		for (int k = 0; k < i; k++) {
			if (devices[k] == devices[i])
				return ckc_nccl_fail(ncclInvalidUsage,
						     "ncclCommInitAll: device %d is listed twice",
						     devices[i]);
		}
	}
	return ncclSuccess;
}

/* The id is that of the first rank's server. */
static ncclResult_t id_on(int device, ncclUniqueId *id)
{
	CUcontext before;
	ncclResult_t ret = enter_primary(device, &before);

	if (ret)
		return ret;
	ret = ckc_ncclGetUniqueId(id);
	cuCtxSetCurrent(before);
	cuDevicePrimaryCtxRelease_v2(device);
	return ret;
}

ncclResult_t ckc_ncclCommInitAll(ncclComm_t *comms, int count, const int *devices)
{
	ncclResult_t ret, ended;
	ncclUniqueId id;

	if (!comms)
		return ckc_nccl_fail(ncclInvalidArgument, "ncclCommInitAll: comm is NULL");
	ret = check_devices(count, devices);
	if (!ret)
		ret = id_on(devices ? devices[0] : 0, &id);
	if (ret)
		return ckc_nccl_group_fail(ret);
	ret = ckc_ncclGroupStart();
	if (ret)
		return ret;
	for (int i = 0; i < count && !ret; i++) {
		ret = make_on(devices ? devices[i] : i, &(struct rank){.comm = &comms[i],
								       .ranks = count,
								       .rank = i,
								       .ids = 1,
								       .id = &id,
								       .what = CK_NCCL_INIT});
		ckc_nccl_group_fail(ret);
	}
	ended = ckc_ncclGroupEnd();
	return ret ? ret : ended;
}

/* --- out of another communicator */

static ncclResult_t derive_comm(struct ckc_nccl_comm *parent, struct ck_nccl_op *op,
				struct ckc_nccl_after *after, uint64_t salt, const void *items,
				int count, const ncclConfig_t *config)
{
	size_t item = op->what == CK_NCCL_SHRINK ? sizeof(int) : 0, size;
	void *extra = NULL;
	ncclResult_t ret = ckc_nccl_config_pack(items, item, count, config, &extra, &size);

	if (ret)
		return ret;
	after->comm = parent;
	if (after->handle) {
		after->newcomm = ckc_nccl_comm_new(parent->context, parent->clique * 31 + salt);
		if (!after->newcomm) {
			free(extra);
			return ncclSystemError;
		}
		after->newcomm->nonblocking = config && config->blocking != NCCL_CONFIG_UNDEF_INT
						      ? is_nonblocking(config)
						      : parent->nonblocking;
		*after->handle = ckc_nccl_handle(after->newcomm);
	}
	ret = ckc_nccl_do(op, extra, size, after, CKC_NCCL_WAITS | CKC_NCCL_MAKES);
	free(extra);
	return ret;
}

ncclResult_t ckc_ncclCommSplit(ncclComm_t handle, int color, int key, ncclComm_t *newcomm,
			       ncclConfig_t *config)
{
	struct ck_nccl_op op = {
		.what = CK_NCCL_SPLIT, .root = color, .count = (uint64_t)(int64_t)key};
	struct ckc_nccl_after after = {.handle = color == NCCL_SPLIT_NOCOLOR ? NULL : newcomm};
	struct ckc_nccl_comm *parent;
	ncclResult_t ret = ckc_nccl_comm_idle(handle, &parent);

	if (!ret && (!newcomm || color < NCCL_SPLIT_NOCOLOR))
		ret = ckc_nccl_fail(ncclInvalidArgument, "ncclCommSplit: colour %d", color);
	if (!ret)
		*newcomm = NULL;
	if (!ret)
		ret = derive_comm(parent, &op, &after, (uint64_t)color + 1, NULL, 0, config);
	return ckc_nccl_group_fail(ret);
}

ncclResult_t ckc_ncclCommShrink(ncclComm_t handle, int *excluded, int count, ncclComm_t *newcomm,
				ncclConfig_t *config, int flags)
{
	struct ck_nccl_op op = {.what = CK_NCCL_SHRINK, .root = flags};
	struct ckc_nccl_after after = {.handle = newcomm};
	struct ckc_nccl_comm *parent;
	ncclResult_t ret = ckc_nccl_comm_from(handle, &parent); /* also after an error */

	if (!ret && (!newcomm || !excluded || count < 1 || (size_t)count > CK_NCCL_BATCH_MAX / 8))
		ret = ckc_nccl_fail(ncclInvalidArgument, "ncclCommShrink: %d excluded ranks",
				    count);
	if (!ret)
		*newcomm = NULL;
	if (!ret)
		ret = derive_comm(parent, &op, &after, ~(uint64_t)0, excluded, count, config);
	return ckc_nccl_group_fail(ret);
}
