/*
 * libcuda/old_launch.c - launches as they were before CUDA 4: block shape, shared memory and
 * parameters are set on the function, one by one, and stay there.
 */
#include <stdlib.h>
#include <string.h>

#include "gen/api.h"
#include "libcuda/libcuda.h"
#include "libcuda/locks.h"
#include "util/map.h"
#include "util/util.h"

#define PARAMS_MAX 4096

struct state {
	unsigned int block[3], shared, size;
	char params[PARAMS_MAX];
};

static struct ck_mutex states_lock = CK_MUTEX(CK_RANK_OLD_LAUNCH);
static struct ck_map *states; /* by function */

/* The state of a function, made when first asked for; NULL: out of memory. Called with the lock. */
static struct state *state_of(CUfunction f)
{
	struct state *s;

	if (!states)
		states = ck_map_create();
	if (!states)
		return NULL;
	s = ck_map_find(states, &f, sizeof(f));
	if (s)
		return s;
	s = calloc(1, sizeof(*s));
	if (s && ck_map_insert(states, &f, sizeof(f), s) < 0) {
		free(s);
		return NULL;
	}
	if (s)
		s->block[0] = s->block[1] = s->block[2] = 1;
	return s;
}

void ck_old_launch_forget(CUfunction f)
{
	ck_lock(&states_lock);
	if (states)
		free(ck_map_remove(states, &f, sizeof(f)));
	ck_unlock(&states_lock);
}

/* The lock is held on success. */
static CUresult lock_state(CUfunction f, struct state **s)
{
	const char *name;
	CUresult err = cuFuncGetName(&name, f); /* is it one? */

	if (err)
		return err;
	ck_lock(&states_lock);
	*s = state_of(f);
	if (*s)
		return CUDA_SUCCESS;
	ck_unlock(&states_lock);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

CK_EXPORT CUresult cuFuncSetBlockShape(CUfunction hfunc, int x, int y, int z)
{
	struct state *s;
	CUresult err = lock_state(hfunc, &s);

	if (err)
		return err;
	if (x > 0 && y > 0 && z > 0) {
		s->block[0] = (unsigned int)x;
		s->block[1] = (unsigned int)y;
		s->block[2] = (unsigned int)z;
	} else {
		err = CUDA_ERROR_INVALID_VALUE;
	}
	ck_unlock(&states_lock);
	return err;
}

CK_EXPORT CUresult cuFuncSetSharedSize(CUfunction hfunc, unsigned int bytes)
{
	struct state *s;
	CUresult err = lock_state(hfunc, &s);

	if (err)
		return err;
	s->shared = bytes;
	ck_unlock(&states_lock);
	return CUDA_SUCCESS;
}

CK_EXPORT CUresult cuParamSetSize(CUfunction hfunc, unsigned int numbytes)
{
	struct state *s;
	CUresult err = lock_state(hfunc, &s);

	if (err)
		return err;
	if (numbytes <= PARAMS_MAX)
		s->size = numbytes;
	else
		err = CUDA_ERROR_INVALID_VALUE;
	ck_unlock(&states_lock);
	return err;
}

CK_EXPORT CUresult cuParamSetv(CUfunction hfunc, int offset, void *ptr, unsigned int numbytes)
{
	struct state *s;
	CUresult err = lock_state(hfunc, &s);

	if (err)
		return err;
	if (offset >= 0 && offset <= PARAMS_MAX && numbytes <= PARAMS_MAX - (unsigned int)offset &&
	    (ptr || numbytes == 0)) {
		if (numbytes > 0)
			memcpy(s->params + offset, ptr, numbytes);
	} else {
		err = CUDA_ERROR_INVALID_VALUE;
	}
	ck_unlock(&states_lock);
	return err;
}

CK_EXPORT CUresult cuParamSeti(CUfunction hfunc, int offset, unsigned int value)
{
	return cuParamSetv(hfunc, offset, &value, sizeof(value));
}

CK_EXPORT CUresult cuParamSetf(CUfunction hfunc, int offset, float value)
{
	return cuParamSetv(hfunc, offset, &value, sizeof(value));
}

CK_EXPORT CUresult cuLaunchGridAsync(CUfunction f, int grid_width, int grid_height,
				     CUstream hStream)
{
	struct state *s, copy;
	size_t size;
	void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, copy.params, CU_LAUNCH_PARAM_BUFFER_SIZE,
			 &size, CU_LAUNCH_PARAM_END};
	CUresult err = lock_state(f, &s);

	if (err)
		return err;
	copy = *s;
	ck_unlock(&states_lock);
	if (grid_width <= 0 || grid_height <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	size = copy.size;
	return cuLaunchKernel(f, (unsigned int)grid_width, (unsigned int)grid_height, 1,
			      copy.block[0], copy.block[1], copy.block[2], copy.shared, hStream,
			      NULL, extra);
}

CK_EXPORT CUresult cuLaunchGrid(CUfunction f, int grid_width, int grid_height)
{
	return cuLaunchGridAsync(f, grid_width, grid_height, NULL);
}

CK_EXPORT CUresult cuLaunch(CUfunction f)
{
	return cuLaunchGridAsync(f, 1, 1, NULL);
}
