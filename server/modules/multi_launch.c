/*
 * server/modules/multi_launch.c - a cooperative launch on several devices.
 *
 * The driver takes separate parameters here, and reads as many as the kernel has. It reports their
 * offsets, which are checked against the received block.
 */
#include <stdlib.h>
#include <string.h>

#include "gen/handlers.h"
#include "rpc/launch.h"
#include "server/session/session.h"

#define LAUNCHES 64 /* more devices than a host has */

static CUresult param_at(const struct cks_object *f, size_t i, size_t *offset, size_t *size)
{
	if (f->kind == CK_KIND_KERNEL && ck_driver.cuKernelGetParamInfo)
		return ck_driver.cuKernelGetParamInfo(f->handle, i, offset, size);
	if (f->kind == CK_KIND_FUNCTION && ck_driver.cuFuncGetParamInfo)
		return ck_driver.cuFuncGetParamInfo(f->handle, i, offset, size);
	return CUDA_ERROR_NOT_SUPPORTED;
}

/* Make an array of pointers to the kernel's parameters in the block of @size bytes; the caller
 * frees it. */
static CUresult params_find(const struct cks_object *f, char *block, size_t size, void ***params)
{
	void **p = calloc(size + 1, sizeof(*p)); /* a parameter has at least one byte */
	size_t offset, bytes;
	CUresult err;

	if (!p)
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (size_t i = 0; !(err = param_at(f, i, &offset, &bytes)); i++) {
		if (i >= size || offset > size || bytes > size - offset) {
			free(p);
			return CUDA_ERROR_INVALID_VALUE;
		}
		p[i] = block + offset;
	}
	if (err != CUDA_ERROR_INVALID_VALUE) { /* INVALID_VALUE: past the last parameter */
		free(p);
		return err;
	}
	*params = p;
	return CUDA_SUCCESS;
}

/* Decode the launch at *@at, and advance *@at past it. */
static CUresult launch_read(struct cks_request *q, char **at, const char *end,
			    CUDA_LAUNCH_PARAMS *l)
{
	struct cks_object f;
	struct ck_multi_launch item;
	char *block;

	if ((size_t)(end - *at) < sizeof(item))
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(&item, *at, sizeof(item));
	block = *at + sizeof(item);
	if (item.params > (size_t)(end - block))
		return CUDA_ERROR_INVALID_VALUE;
	*at = block + item.params;
	if (!cks_handles_find(q->session->handles, item.function,
			      CK_KIND_BIT(CK_KIND_FUNCTION) | CK_KIND_BIT(CK_KIND_KERNEL), &f) ||
	    !cks_stream_find(q, item.stream, &l->hStream))
		return CUDA_ERROR_INVALID_HANDLE;
	l->function = f.handle;
	l->gridDimX = item.grid[0];
	l->gridDimY = item.grid[1];
	l->gridDimZ = item.grid[2];
	l->blockDimX = item.block[0];
	l->blockDimY = item.block[1];
	l->blockDimZ = item.block[2];
	l->sharedMemBytes = item.shared;
	return params_find(&f, block, item.params, &l->kernelParams);
}

CUresult ck_serve_launch_multi(struct cks_request *q, ck_launch_multi_args *a, void *res)
{
	CUDA_LAUNCH_PARAMS launches[LAUNCHES] = {0};
	char *at = a->launches.launches_val, *end = at + a->launches.launches_len;
	unsigned int n = 0;
	CUresult err = CUDA_SUCCESS;

	(void)res;
	if (!ck_driver.cuLaunchCooperativeKernelMultiDevice)
		return CUDA_ERROR_NOT_SUPPORTED;
	while (at < end && !err)
		err = n < LAUNCHES ? launch_read(q, &at, end, &launches[n++])
				   : CUDA_ERROR_INVALID_VALUE;
	if (!err)
		err = ck_driver.cuLaunchCooperativeKernelMultiDevice(launches, n, a->flags);
	for (unsigned int i = 0; i < n; i++)
		free(launches[i].kernelParams);
	return err;
}
