/*
 * emu/nvml/nvml.c - the emulated driver's NVML: start and end, which devices there are, who they
 * are.
 */
#include <stdio.h>
#include <string.h>

#include "emu/nvml/nvml.h"
#include "libcuda/libcuda.h"
#include "util/uuid.h"

static atomic_uint started;

/* As ck_emu_nvml_begin(), for calls without a device. */
static nvmlReturn_t begin_nvml_call(const void *out)
{
	if (atomic_load(&started) == 0)
		return NVML_ERROR_UNINITIALIZED;
	return out ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t ck_emu_nvml_begin(nvmlDevice_t device, const void *out, struct ck_emu_device **found)
{
	nvmlReturn_t err = begin_nvml_call(out);

	for (int i = 0; !err && i < ck_emu_machine_count(); i++) {
		*found = ck_emu_board_at(i);
		if ((void *)device == (void *)*found)
			return NVML_SUCCESS;
	}
	return err ? err : NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t ck_emu_nvml_lacks(const void *out)
{
	nvmlReturn_t err = begin_nvml_call(out);

	return err ? err : NVML_ERROR_NOT_SUPPORTED;
}

nvmlReturn_t ck_emu_nvml_device_lacks(nvmlDevice_t device, const void *out)
{
	struct ck_emu_device *d;
	nvmlReturn_t err = ck_emu_nvml_begin(device, out, &d);

	return err ? err : NVML_ERROR_NOT_SUPPORTED;
}

nvmlReturn_t ck_libcuda_nvml_enter(void)
{
	return begin_nvml_call("");
}

nvmlReturn_t ck_libcuda_nvml_device(nvmlDevice_t device)
{
	struct ck_emu_device *d;

	return ck_emu_nvml_begin(device, "", &d);
}

/* @text into the caller's room. */
static nvmlReturn_t put_text(char *to, unsigned int length, const char *text)
{
	if (strlen(text) + 1 > length)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	strcpy(to, text);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlInit_v2(void)
{
	CUresult err = cuInit(0);

	if (err && err != CUDA_ERROR_NO_DEVICE)
		return NVML_ERROR_DRIVER_NOT_LOADED;
	atomic_fetch_add(&started, 1);
	return NVML_SUCCESS;
}

/* Flags ask for a start without GPUs, or without attaching to them: there is no other start
 * here. */
nvmlReturn_t nvmlInitWithFlags(unsigned int flags)
{
	(void)flags;
	return nvmlInit_v2();
}

nvmlReturn_t nvmlInit(void)
{
	return nvmlInit_v2();
}

const char *nvmlErrorString(nvmlReturn_t result)
{
	return ck_nvml_error_text((unsigned int)result);
}

nvmlReturn_t nvmlShutdown(void)
{
	unsigned int now = atomic_load(&started);

	while (now > 0 && !atomic_compare_exchange_weak(&started, &now, now - 1))
		;
	return now > 0 ? NVML_SUCCESS : NVML_ERROR_UNINITIALIZED;
}

/* --- the system */

nvmlReturn_t nvmlSystemGetDriverVersion(char *release, unsigned int length)
{
	nvmlReturn_t err = begin_nvml_call(release);

	return err ? err : put_text(release, length, "580.00.emu");
}

nvmlReturn_t nvmlSystemGetNVMLVersion(char *release, unsigned int length)
{
	nvmlReturn_t err = begin_nvml_call(release);

	return err ? err : put_text(release, length, "13.580.00.emu");
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *cudaDriverVersion)
{
	nvmlReturn_t err = begin_nvml_call(cudaDriverVersion);

	if (!err)
		*cudaDriverVersion = CK_EMU_VERSION;
	return err;
}

nvmlReturn_t nvmlSystemGetProcessName(unsigned int pid, char *text, unsigned int length)
{
	nvmlReturn_t err = begin_nvml_call(text);
	char path[64], line[4096] = "";
	FILE *f;

	if (err)
		return err;
	snprintf(path, sizeof(path), "/proc/%u/cmdline", pid);
	f = fopen(path, "re");
	if (!f)
		return NVML_ERROR_NOT_FOUND;
	if (!fgets(line, sizeof(line), f))
		err = NVML_ERROR_NOT_FOUND;
	fclose(f);
	return err ? err : put_text(text, length, line);
}

nvmlReturn_t nvmlSystemGetConfComputeState(struct nvmlConfComputeSystemState_t *state)
{
	nvmlReturn_t err = begin_nvml_call(state);

	if (!err)
		memset(state, 0, sizeof(*state));
	return err;
}

nvmlReturn_t nvmlSystemGetConfComputeSettings(struct nvmlSystemConfComputeSettings_t *settings)
{
	nvmlReturn_t err = begin_nvml_call(settings);

	if (!err)
		*settings = (struct nvmlSystemConfComputeSettings_t){.version = settings->version};
	return err;
}

/* --- which devices there are */

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *deviceCount)
{
	nvmlReturn_t err = begin_nvml_call(deviceCount);

	if (!err)
		*deviceCount = (unsigned int)ck_emu_machine_count();
	return err;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device)
{
	nvmlReturn_t err = begin_nvml_call(device);

	if (!err && index >= (unsigned int)ck_emu_machine_count())
		err = NVML_ERROR_INVALID_ARGUMENT;
	if (!err)
		*device = (nvmlDevice_t)(void *)ck_emu_board_at((int)index);
	return err;
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *pciBusId, nvmlDevice_t *device)
{
	nvmlReturn_t err = begin_nvml_call(pciBusId ? device : NULL);
	struct ck_emu_device *found;

	if (err)
		return err;
	found = ck_emu_board_at((int)ck_emu_bus_of(pciBusId));
	*device = (nvmlDevice_t)(void *)found;
	return found ? NVML_SUCCESS : NVML_ERROR_NOT_FOUND;
}

/* The device for which @ask says @wanted. */
static nvmlReturn_t find_device(nvmlReturn_t (*ask)(nvmlDevice_t, char *, unsigned int),
				const char *wanted, nvmlDevice_t *device)
{
	nvmlReturn_t err = begin_nvml_call(wanted ? device : NULL);
	char text[96];

	for (unsigned int i = 0; !err; i++) {
		if (nvmlDeviceGetHandleByIndex_v2(i, device))
			return NVML_ERROR_NOT_FOUND;
		err = ask(*device, text, sizeof(text));
		if (!err && strcmp(text, wanted) == 0)
			return NVML_SUCCESS;
	}
	return err;
}

nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device)
{
	return find_device(nvmlDeviceGetUUID, uuid, device);
}

nvmlReturn_t nvmlDeviceGetHandleBySerial(const char *serial, nvmlDevice_t *device)
{
	return find_device(nvmlDeviceGetSerial, serial, device);
}

/* --- who they are */

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned int length)
{
	struct ck_emu_device *d;
	nvmlReturn_t err = ck_emu_nvml_begin(device, name, &d);

	return err ? err : put_text(name, length, CK_EMU_NAME);
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned int length)
{
	struct ck_emu_device *d;
	nvmlReturn_t err = ck_emu_nvml_begin(device, uuid, &d);
	char text[CK_UUID_TEXT];

	if (err)
		return err;
	ck_uuid_print(d->uuid, text);
	return put_text(uuid, length, text);
}

nvmlReturn_t nvmlDeviceGetSerial(nvmlDevice_t device, char *serial, unsigned int length)
{
	struct ck_emu_device *d;
	nvmlReturn_t err = ck_emu_nvml_begin(device, serial, &d);
	char text[32];

	if (err)
		return err;
	snprintf(text, sizeof(text), "%013d", d->number);
	return put_text(serial, length, text);
}

static nvmlReturn_t get_ordinal(nvmlDevice_t device, unsigned int *number)
{
	struct ck_emu_device *d;
	nvmlReturn_t err = ck_emu_nvml_begin(device, number, &d);

	if (!err)
		*number = (unsigned int)d->ordinal;
	return err;
}

nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int *index)
{
	return get_ordinal(device, index);
}

nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned int *minorNumber)
{
	return get_ordinal(device, minorNumber);
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, struct nvmlPciInfo_t *pci)
{
	struct ck_emu_device *d;
	nvmlReturn_t err = ck_emu_nvml_begin(device, pci, &d);

	if (err)
		return err;
	memset(pci, 0, sizeof(*pci));
	pci->domain = (unsigned int)ck_emu_attribute(d, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID);
	pci->bus = (unsigned int)ck_emu_attribute(d, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID);
	pci->device = (unsigned int)ck_emu_attribute(d, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID);
	snprintf(pci->busIdLegacy, sizeof(pci->busIdLegacy), "%04X:%02X:%02X.0",
		 pci->domain & 0xffff, pci->bus & 0xff, pci->device & 0x1f);
	snprintf(pci->busId, sizeof(pci->busId), "%08X:%02X:%02X.0", pci->domain, pci->bus,
		 pci->device);
	return NVML_SUCCESS;
}
