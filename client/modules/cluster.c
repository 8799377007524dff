/*
 * client/modules/cluster.c - clusters: a check of a launch's request, and the occupancy of a
 * configuration.
 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "client/modules/launch.h"
#include "client/link/client.h"

#define PORTABLE 8 /* cluster size that every GPU with clusters supports */

/* Check against the kernel's own cluster attributes; the driver's answers are cached. */
static CUresult check_kernel(CUfunction f, const unsigned int *size, uint64_t blocks)
{
	CUresult err = CUDA_SUCCESS;
	int value;

	if (blocks > PORTABLE) {
		err = cuFuncGetAttribute(&value,
					 CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, f);
		if (!err && !value)
			err = CUDA_ERROR_INVALID_CLUSTER_SIZE;
	}
	for (int i = 0; !err && i < 3; i++) {
		err = cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH + i, f);
		if (err || !value)
			return err; /* no size is required */
		if ((unsigned int)value != size[i])
			err = CUDA_ERROR_INVALID_CLUSTER_SIZE;
	}
	return err;
}

CUresult ckc_cluster_check(CUfunction f, const unsigned int *grid,
			   const CUlaunchAttribute *attributes, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++) {
		const CUlaunchAttributeValue *v = &attributes[i].value;
		const unsigned int size[] = {v->clusterDim.x, v->clusterDim.y, v->clusterDim.z};
		uint64_t blocks = (uint64_t)size[0] * size[1];

		if (attributes[i].id != CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION ||
		    !(size[0] | size[1] | size[2]))
			continue;
		for (int axis = 0; axis < 3; axis++)
			if (!size[axis] || grid[axis] % size[axis])
				return CUDA_ERROR_INVALID_VALUE;
		if (size[0] > 64 || size[1] > 64 || size[2] > 64)
			return CUDA_ERROR_INVALID_CLUSTER_SIZE;
		return blocks * size[2] > 1 ? check_kernel(f, size, blocks * size[2])
					    : CUDA_SUCCESS;
	}
	return CUDA_SUCCESS;
}

/* A cluster figure depends on the whole configuration. */
struct question {
	uint64_t proc, ctx, function, which, grid[3], block[3], shared;
	CUlaunchAttribute attributes[CK_LAUNCH_ATTRIBUTES];
};

/* Fill in the configuration's attributes; returns the bytes of @key that count. */
static size_t fill_question(struct question *key, const CUlaunchConfig *c,
			    const CUlaunchAttribute *attributes, unsigned int n)
{
	size_t size = offsetof(struct question, attributes) + n * sizeof(attributes[0]);

	memset(key, 0, size);
	key->proc = CK_PROC_cluster;
	key->grid[0] = c->gridDimX;
	key->grid[1] = c->gridDimY;
	key->grid[2] = c->gridDimZ;
	key->block[0] = c->blockDimX;
	key->block[1] = c->blockDimY;
	key->block[2] = c->blockDimZ;
	key->shared = c->sharedMemBytes;
	memcpy(key->attributes, attributes, n * sizeof(attributes[0]));
	return size;
}

/* Get a cluster figure for a configuration, from the cache or the server. */
static CUresult ask_cluster(struct question *key, int *value, uint64_t ctx, uint64_t function,
			    unsigned int which, const CUlaunchConfig *c,
			    const CUlaunchAttribute *attributes, unsigned int n)
{
	size_t size = fill_question(key, c, attributes, n);
	ck_cluster_res r;
	CUresult err;

	key->ctx = ctx;
	key->function = function;
	key->which = which;
	if (ckc_cache_get(key, size, value, sizeof(*value)))
		return CUDA_SUCCESS;
	err = ck_wire_cluster(
		&(ck_cluster_args){.head.ctx = ctx,
				   .function = function,
				   .which = which,
				   .gx = c->gridDimX,
				   .gy = c->gridDimY,
				   .gz = c->gridDimZ,
				   .bx = c->blockDimX,
				   .by = c->blockDimY,
				   .bz = c->blockDimZ,
				   .shared = c->sharedMemBytes,
				   .attributes = CK_LIST(attributes, n * sizeof(attributes[0]))},
		&r);
	if (err)
		return err;
	*value = r.value;
	ckc_cache_put(key, size, value, sizeof(*value));
	return err;
}

static CUresult query_cluster(int *value, CUfunction func, const CUlaunchConfig *c,
			      unsigned int which)
{
	struct {
		CUlaunchAttribute attributes[CK_LAUNCH_ATTRIBUTES];
		struct question key;
	} * room; /* threads may have a stack of 16 KiB */
	struct ck_launch l;
	uint64_t ctx, function;
	unsigned int n;
	CUresult err = ckc_enter(&ctx);

	if (err)
		return err;
	if (!value || !c)
		return CUDA_ERROR_INVALID_VALUE;
	l = (struct ck_launch){.attributes = c->attrs, .attribute_count = c->numAttrs};
	err = ckc_function_id(func, &function);
	if (err)
		return err;
	room = malloc(sizeof(*room));
	if (!room)
		return CUDA_ERROR_OUT_OF_MEMORY;
	err = ckc_launch_attributes(&l, room->attributes, &n);
	if (!err)
		err = ask_cluster(&room->key, value, ctx, function, which, c, room->attributes, n);
	free(room);
	return err;
}

CK_EXPORT CUresult cuOccupancyMaxPotentialClusterSize(int *clusterSize, CUfunction func,
						      const CUlaunchConfig *config)
{
	return query_cluster(clusterSize, func, config, 0);
}

CK_EXPORT CUresult cuOccupancyMaxActiveClusters(int *numClusters, CUfunction func,
						const CUlaunchConfig *config)
{
	return query_cluster(numClusters, func, config, 1);
}
