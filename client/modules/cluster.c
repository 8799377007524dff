/*
 * client/modules/cluster.c - check the clusters that a launch asks for.
 */
#include "client/wire/client.h"

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
