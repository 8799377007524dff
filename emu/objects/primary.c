/*
 * emu/objects/primary.c - the primary context of each device. Its handle stays the same for the
 * life of the process; it is active between the first retain and the last release, or a reset.
 */
#include <errno.h>

#include "emu/core/emu.h"
#include "libcuda/local.h"

static CUresult begin_primary_call(CUdevice ordinal, struct ck_emu_device **device)
{
	CUresult result = ck_emu_enter_bare();

	if (result != CUDA_SUCCESS)
		return result;
	*device = ck_emu_device_at(ordinal);
	return *device ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

int ck_emu_primaries_init(void)
{
	for (int i = 0; i < ck_emu_device_count(); i++) {
		struct ck_emu_device *device = ck_emu_device_at(i);

		device->primary = ck_emu_context_create(device, CU_CTX_SCHED_AUTO);
		if (!device->primary)
			return -ENOMEM;
		device->primary->is_primary = true;
		if (ck_emu_object_publish(&device->primary->base) != CUDA_SUCCESS)
			return -ENOMEM;
		atomic_store(&device->primary->live, false);
	}
	return 0;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *pctx, CUdevice dev)
{
	struct ck_emu_device *device;
	CUresult result = begin_primary_call(dev, &device);

	if (result != CUDA_SUCCESS)
		return result;
	if (!pctx)
		return CUDA_ERROR_INVALID_VALUE;
	ck_lock(&device->primary_lock);
	if ((device->primary_count == 0 || !atomic_load(&device->primary->live)) &&
	    ck_emu_context_reset(device->primary) < 0) {
		result = CUDA_ERROR_OUT_OF_MEMORY;
	} else {
		device->primary_count++;
		*pctx = (CUcontext)device->primary;
	}
	ck_unlock(&device->primary_lock);
	return result;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice dev)
{
	struct ck_emu_device *device;
	CUresult result = begin_primary_call(dev, &device);
	bool last = false;

	if (result != CUDA_SUCCESS)
		return result;
	ck_lock(&device->primary_lock);
	if (device->primary_count == 0)
		result = CUDA_ERROR_INVALID_CONTEXT;
	else
		last = --device->primary_count == 0;
	ck_unlock(&device->primary_lock);
	if (!last)
		return result;
	ck_local_forget((CUcontext)device->primary);
	ck_emu_context_drain(device->primary);
	ck_lock(&device->primary_lock);
	/* another thread, or a destructor, may have retained it in between */
	if (device->primary_count == 0)
		ck_emu_context_clear(device->primary);
	ck_unlock(&device->primary_lock);
	return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice dev)
{
	return cuDevicePrimaryCtxRelease(dev);
}

CUresult cuDevicePrimaryCtxReset(CUdevice dev)
{
	struct ck_emu_device *device;
	CUresult result = begin_primary_call(dev, &device);

	if (result != CUDA_SUCCESS)
		return result;
	ck_local_forget((CUcontext)device->primary);
	ck_emu_context_drain(device->primary);
	ck_lock(&device->primary_lock);
	ck_emu_context_clear(
		device->primary); /* as the driver: those that retained it must still release it */
	ck_unlock(&device->primary_lock);
	return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice dev)
{
	return cuDevicePrimaryCtxReset(dev);
}

CUresult cuDevicePrimaryCtxGetState(CUdevice dev, unsigned int *flags, int *active)
{
	struct ck_emu_device *device;
	CUresult result = begin_primary_call(dev, &device);

	if (result != CUDA_SUCCESS)
		return result;
	if (!flags || !active)
		return CUDA_ERROR_INVALID_VALUE;
	*flags = atomic_load(&device->primary->flags);
	*active = atomic_load(&device->primary->live);
	return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxSetFlags(CUdevice dev, unsigned int flags)
{
	struct ck_emu_device *device;
	CUresult result = begin_primary_call(dev, &device);

	if (result != CUDA_SUCCESS)
		return result;
	if (flags & ~(unsigned int)CU_CTX_FLAGS_MASK)
		return CUDA_ERROR_INVALID_VALUE;
	/* nothing here depends on them, so they may change while the context is active */
	atomic_store(&device->primary->flags, flags);
	return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice dev, unsigned int flags)
{
	return cuDevicePrimaryCtxSetFlags(dev, flags);
}
