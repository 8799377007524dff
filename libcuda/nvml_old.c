/*
 * libcuda/nvml_old.c - NVML's calls with older, shorter structures: they never write more than the
 * caller has.
 */
#include <string.h>

#include "gen/nvml_api.h"
#include "util/util.h"

#define PCI_V1_SIZE 32 /* oldest nvmlPciInfo_t: up to the device id */
#define PCI_V2_SIZE 36 /* up to the subsystem id */

CK_EXPORT nvmlReturn_t nvmlDeviceGetPciInfo(nvmlDevice_t device, struct nvmlPciInfo_t *pci)
{
	struct nvmlPciInfo_t now;
	nvmlReturn_t err = nvmlDeviceGetPciInfo_v3(device, pci ? &now : NULL);

	if (!err)
		memcpy(pci, &now, PCI_V1_SIZE);
	return err;
}

CK_EXPORT nvmlReturn_t nvmlDeviceGetPciInfo_v2(nvmlDevice_t device, struct nvmlPciInfo_t *pci)
{
	struct nvmlPciInfo_t now;
	nvmlReturn_t err = nvmlDeviceGetPciInfo_v3(device, pci ? &now : NULL);

	if (!err)
		memcpy(pci, &now, PCI_V2_SIZE);
	return err;
}

CK_EXPORT nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo(nvmlDevice_t device, unsigned int link,
							struct nvmlPciInfo_t *pci)
{
	struct nvmlPciInfo_t now;
	nvmlReturn_t err = nvmlDeviceGetNvLinkRemotePciInfo_v2(device, link, pci ? &now : NULL);

	if (!err)
		memcpy(pci, &now, PCI_V2_SIZE);
	return err;
}
