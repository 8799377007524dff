/*
 * emu/driver/libcuda_backend.c - functions that libcuda/ calls in this driver library; see
 * libcuda/libcuda.h.
 */
#include "emu/core/emu.h"
#include "libcuda/libcuda.h"
#include "libcuda/procaddress.h"

CUresult ck_libcuda_context(CUcontext handle, CUcontext *context)
{
	struct ck_emu_context *found;

	if (ck_emu_exiting())
		return CUDA_ERROR_DEINITIALIZED;
	if (!handle || handle == (CUcontext)-1) {
		*context = (CUcontext)ck_emu_thread_context();
		return *context ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
	}
	found = ck_emu_object_get(handle, CK_EMU_CONTEXT);
	if (!found)
		return CUDA_ERROR_INVALID_CONTEXT;
	ck_emu_object_put(&found->base);
	*context = (CUcontext)found; /* the one under a view: they share everything */
	return CUDA_SUCCESS;
}

CUresult ck_libcuda_primary(CUcontext *context, CUdevice device)
{
	CUresult result = ck_emu_enter_bare();
	const struct ck_emu_device *found;

	if (result != CUDA_SUCCESS)
		return result;
	found = ck_emu_device_at(device);
	if (!context)
		return CUDA_ERROR_INVALID_VALUE;
	if (!found)
		return CUDA_ERROR_INVALID_DEVICE;
	*context = (CUcontext)found->primary;
	return CUDA_SUCCESS;
}

/* All multiprocessors are in one GPC. */
CUresult ck_libcuda_tpc_map(CUdevice device, unsigned char *gpc, unsigned char *index, size_t tpcs)
{
	(void)device;
	for (size_t i = 0; i < tpcs; i++) {
		gpc[i] = 0;
		index[i] = (unsigned char)i;
	}
	return CUDA_SUCCESS;
}

const void *ck_libcuda_own_table(const CUuuid *id)
{
	(void)id;
	return NULL;
}

bool ck_libcuda_inside(bool inside)
{
	bool was = ck_emu_thread_in_callback();

	ck_emu_thread_callback(inside);
	return was;
}

int ck_libcuda_version(void)
{
	return CK_EMU_VERSION;
}

void *ck_libcuda_address(const struct ck_entry *entry)
{
	return entry->function;
}

/* This library's records are of the device's work only. */
void ck_libcuda_runtime_call(uint32_t id, const void *info)
{
	(void)id, (void)info;
}
