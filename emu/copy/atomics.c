/*
 * emu/copy/atomics.c - atomic operations in other memory: kernels here do them all in the host's
 * memory and in another device's, by the same instructions of this processor.
 */
#include "emu/core/emu.h"

/* Bits as CUDA has them: signed, unsigned, reduction, scalars of 32 and 64 bits. */
#define INTEGER 0x1fu
#define FLOATING 0x1du

static CUresult query_capabilities(unsigned int *capabilities, const CUatomicOperation *operations,
				   unsigned int count)
{
	if (!capabilities || !operations || count == 0)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned int i = 0; i < count; i++) {
		if ((unsigned int)operations[i] >= CU_ATOMIC_OPERATION_MAX)
			return CUDA_ERROR_INVALID_VALUE;
	}
	for (unsigned int i = 0; i < count; i++)
		capabilities[i] = operations[i] == CU_ATOMIC_OPERATION_FLOAT_ADD  ? FLOATING
				  : operations[i] > CU_ATOMIC_OPERATION_FLOAT_ADD ? 0
										  : INTEGER;
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetHostAtomicCapabilities(unsigned int *capabilities,
					   const CUatomicOperation *operations, unsigned int count,
					   CUdevice dev)
{
	CUresult result = ck_emu_enter_bare();

	if (result != CUDA_SUCCESS)
		return result;
	return ck_emu_device_at(dev) ? query_capabilities(capabilities, operations, count)
				     : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceGetP2PAtomicCapabilities(unsigned int *capabilities,
					  const CUatomicOperation *operations, unsigned int count,
					  CUdevice srcDevice, CUdevice dstDevice)
{
	CUresult result = ck_emu_enter_bare();

	if (result != CUDA_SUCCESS)
		return result;
	if (!ck_emu_device_at(srcDevice) || !ck_emu_device_at(dstDevice) || srcDevice == dstDevice)
		return CUDA_ERROR_INVALID_DEVICE;
	return query_capabilities(capabilities, operations, count);
}
