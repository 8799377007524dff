/*
 * server/session/nvml_device.c - see nvml_device.h.
 */
#include <stdio.h>

#include "gen/driver.h"
#include "server/session/nvml_device.h"

/* As NVML writes it, after @kind. */
static void print_uuid(const CUuuid *uuid, const char *kind, char out[64])
{
	const unsigned char *b = (const unsigned char *)uuid->bytes;

	snprintf(out, 64, "%s-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
		 kind, b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11],
		 b[12], b[13], b[14], b[15]);
}

static int by_uuid(int ordinal, nvmlDevice_t *device)
{
	char text[64];
	CUuuid uuid;
	int err;

	if (!ck_driver.cuDeviceGetUuid_v2 || ck_driver.cuDeviceGetUuid_v2(&uuid, (CUdevice)ordinal))
		return NVML_ERROR_NOT_FOUND;
	if (!cks_nvml_begin((void **)&ck_nvml.nvmlDeviceGetHandleByUUID, &err))
		return err;
	print_uuid(&uuid, "MIG", text);
	if (!ck_nvml.nvmlDeviceGetHandleByUUID(text, device))
		return 0;
	print_uuid(&uuid, "GPU", text);
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
