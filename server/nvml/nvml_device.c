/*
 * server/nvml/nvml_device.c - see nvml.h.
 */
#include <string.h>

#include "gen/driver.h"
#include "server/nvml/nvml.h"
#include "server/session/device_map.h"
#include "util/uuid.h"

static int by_uuid(int ordinal, nvmlDevice_t *device)
{
	char text[CK_UUID_TEXT];
	CUuuid uuid;
	int err;

	if (!ck_driver.cuDeviceGetUuid_v2 || ck_driver.cuDeviceGetUuid_v2(&uuid, (CUdevice)ordinal))
		return NVML_ERROR_NOT_FOUND;
	if (!cks_nvml_begin((void **)&ck_nvml.nvmlDeviceGetHandleByUUID, &err))
		return err;
	ck_uuid_print((const unsigned char *)uuid.bytes, text);
	memcpy(text, "MIG", 3);
	if (!ck_nvml.nvmlDeviceGetHandleByUUID(text, device))
		return 0;
	memcpy(text, "GPU", 3);
	return (int)ck_nvml.nvmlDeviceGetHandleByUUID(text, device);
}

static int by_pci(int ordinal, nvmlDevice_t *device)
{
	char text[32];
	int err;

	if (!ck_driver.cuDeviceGetPCIBusId ||
	    ck_driver.cuDeviceGetPCIBusId(text, sizeof(text), (CUdevice)ordinal))
		return NVML_ERROR_NOT_FOUND;
	if (!cks_nvml_begin((void **)&ck_nvml.nvmlDeviceGetHandleByPciBusId_v2, &err))
		return err;
	return (int)ck_nvml.nvmlDeviceGetHandleByPciBusId_v2(text, device);
}

int cks_nvml_of_device(int ordinal, nvmlDevice_t *device)
{
	return by_uuid(ordinal, device) == 0 ? 0 : by_pci(ordinal, device);
}
