/*
 * client/copy/atomics.c - the atomic operations that a device supports in memory other than its
 * own.
 */
#include <stdlib.h>
#include <string.h>

#include "client/link/client.h"

static bool operations_valid(const unsigned int *capabilities, const CUatomicOperation *operations,
			     unsigned int count)
{
	if (!capabilities || !operations || count == 0)
		return false;
	for (unsigned int i = 0; i < count; i++) {
		if ((unsigned int)operations[i] >= CU_ATOMIC_OPERATION_MAX)
			return false;
	}
	return true;
}

/* None: the device does not reach this host's memory. */
CK_EXPORT CUresult cuDeviceGetHostAtomicCapabilities(unsigned int *capabilities,
						     const CUatomicOperation *operations,
						     unsigned int count, CUdevice dev)
{
	int ordinal;
	CUresult err = ckc_session_check();

	if (!err)
		err = ckc_device_id(dev, &ordinal);
	if (err)
		return err;
	if (!operations_valid(capabilities, operations, count))
		return CUDA_ERROR_INVALID_VALUE;
	memset(capabilities, 0, count * sizeof(*capabilities));
	return CUDA_SUCCESS;
}

CK_EXPORT CUresult cuDeviceGetP2PAtomicCapabilities(unsigned int *capabilities,
						    const CUatomicOperation *operations,
						    unsigned int count, CUdevice srcDevice,
						    CUdevice dstDevice)
{
	int from, to;
	void *bytes = NULL;
	size_t size = 0;
	CUresult err = ckc_session_check();

	if (!err)
		err = ckc_device_id(srcDevice, &from);
	if (!err)
		err = ckc_device_id(dstDevice, &to);
	if (err)
		return err;
	if (srcDevice == dstDevice)
		return CUDA_ERROR_INVALID_DEVICE;
	if (!operations_valid(capabilities, operations, count))
		return CUDA_ERROR_INVALID_VALUE;
	err = ck_wire_p2p_atomics(0, operations, count * sizeof(*operations), from, to, &bytes,
				  &size);
	if (!err && size != count * sizeof(*capabilities))
		err = CUDA_ERROR_UNKNOWN;
	if (!err)
		memcpy(capabilities, bytes, size);
	free(bytes);
	return err;
}
