/*
 * emu/nvml/state.c - the emulated driver's NVML: the state of its devices.
 *
 * Memory and processes are true. A device without silicon has neither heat nor clocks: where
 * programs that watch GPUs expect a number, it is that of an idle card; the rest is not supported.
 */
#include <string.h>
#include <unistd.h>

#include "emu/memory/arena.h"
#include "emu/nvml/nvml.h"
#include "emu/core/usage.h"

#define TEMPERATURE 30 /* degrees Celsius */
#define POWER_MW 60000
#define POWER_LIMIT_MW 700000
#define BAR1_BYTES (256ull << 20)
#define BRAND_UNKNOWN 0
#define ARCH_HOPPER 9
#define DISABLED 0
#define ENABLED 1
#define PSTATE_IDLE 0
#define TOPOLOGY_NODE 40 /* the same memory of the host between them */
#define P2P_NOT_SUPPORTED 5

/* A call with the same result for every device. */
#define SAME(name, type, number)                                                                   \
	nvmlReturn_t name(nvmlDevice_t device, type *out)                                          \
	{                                                                                          \
		struct ck_emu_device *d;                                                           \
		nvmlReturn_t err = ck_emu_nvml_begin(device, out, &d);                             \
		if (!err)                                                                          \
			*out = (number);                                                           \
		return err;                                                                        \
	}

SAME(nvmlDeviceGetBrand, int, BRAND_UNKNOWN)
SAME(nvmlDeviceGetArchitecture, unsigned int, ARCH_HOPPER)
SAME(nvmlDeviceGetPersistenceMode, int, ENABLED)
SAME(nvmlDeviceGetDisplayMode, int, DISABLED)
SAME(nvmlDeviceGetDisplayActive, int, DISABLED)
SAME(nvmlDeviceGetComputeMode, int, 0)
SAME(nvmlDeviceGetPerformanceState, int, PSTATE_IDLE)
SAME(nvmlDeviceGetPowerState, int, PSTATE_IDLE)
SAME(nvmlDeviceGetPowerUsage, unsigned int, POWER_MW)
SAME(nvmlDeviceGetPowerManagementMode, int, ENABLED)
SAME(nvmlDeviceGetPowerManagementLimit, unsigned int, POWER_LIMIT_MW)
SAME(nvmlDeviceGetPowerManagementDefaultLimit, unsigned int, POWER_LIMIT_MW)
SAME(nvmlDeviceGetEnforcedPowerLimit, unsigned int, POWER_LIMIT_MW)
SAME(nvmlDeviceIsMigDeviceHandle, unsigned int, 0)
SAME(nvmlDeviceGetMaxMigDeviceCount, unsigned int, 0)
SAME(nvmlDeviceGetCurrentClocksEventReasons, unsigned long long, 1) /* idle */

/* A call that answers two times the same. */
#define PAIR(name, type, number)                                                                   \
	nvmlReturn_t name(nvmlDevice_t device, type *one, type *two)                               \
	{                                                                                          \
		struct ck_emu_device *d;                                                           \
		nvmlReturn_t err = ck_emu_nvml_begin(device, one ? two : NULL, &d);                \
		if (!err)                                                                          \
			*one = *two = (number);                                                    \
		return err;                                                                        \
	}

PAIR(nvmlDeviceGetEccMode, int, DISABLED)
PAIR(nvmlDeviceGetMigMode, unsigned int, DISABLED)
PAIR(nvmlDeviceGetPowerManagementLimitConstraints, unsigned int, POWER_LIMIT_MW)

nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor)
{
	struct ck_emu_device *d;
	nvmlReturn_t err = ck_emu_nvml_begin(device, major ? minor : NULL, &d);

	if (err)
		return err;
	*major = ck_emu_attribute(d, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
	*minor = ck_emu_attribute(d, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
	return NVML_SUCCESS;
}

/* --- memory: that of all processes of this user */

static size_t memory_used(const struct ck_emu_device *device)
{
	struct ck_emu_use list[CK_EMU_USERS];
	unsigned int count = ck_emu_usage_list(device->number, list);
	uint64_t used = 0;

	/* each process has a whole device to itself: together they may use more than there is */
	for (unsigned int i = 0; i < count; i++)
		used += ck_min(list[i].bytes, device->memory_total - used);
	return used;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, struct nvmlMemory_t *memory)
{
	struct ck_emu_device *d;
	nvmlReturn_t err = ck_emu_nvml_begin(device, memory, &d);
	size_t used;

	if (err)
		return err;
	used = memory_used(d);
	*memory = (struct nvmlMemory_t){d->memory_total, d->memory_total - used, used};
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, struct nvmlMemory_v2_t *memory)
{
	struct nvmlMemory_t v1;
	nvmlReturn_t err = nvmlDeviceGetMemoryInfo(device, memory ? &v1 : NULL);

	if (!err && !ck_nvmlMemory_v2_t_known(memory))
		err = NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	if (!err)
		*memory = (struct nvmlMemory_v2_t){.version = memory->version,
						   .total = v1.total,
						   .free = v1.free,
						   .used = v1.used};
	return err;
}

nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t device, struct nvmlBAR1Memory_t *bar1Memory)
{
	struct ck_emu_device *d;
	nvmlReturn_t err = ck_emu_nvml_begin(device, bar1Memory, &d);

	if (!err)
		*bar1Memory = (struct nvmlBAR1Memory_t){BAR1_BYTES, BAR1_BYTES, 0};
	return err;
}

nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, int errorType, int counterType,
					 unsigned long long *eccCounts)
{
	struct ck_emu_device *d;
	nvmlReturn_t err = ck_emu_nvml_begin(device, eccCounts, &d);

	(void)errorType;
	(void)counterType;
	return err ? err : NVML_ERROR_NOT_SUPPORTED; /* as if ECC were off */
}

/* --- load, heat, clocks */

/* Kernels run on the host's processors; how busy those are with them is not measured. */
nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device,
					   struct nvmlUtilization_t *utilization)
{
	struct ck_emu_device *d;
	nvmlReturn_t err = ck_emu_nvml_begin(device, utilization, &d);
	size_t used;

	if (err)
		return err;
	used = memory_used(d);
	*utilization = (struct nvmlUtilization_t){0, (unsigned int)(used * 100 / d->memory_total)};
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, int sensorType, unsigned int *temp)
{
	struct ck_emu_device *d;
	nvmlReturn_t err = ck_emu_nvml_begin(device, temp, &d);

	if (!err && sensorType != 0)
		err = NVML_ERROR_INVALID_ARGUMENT;
	if (!err)
		*temp = TEMPERATURE;
	return err;
}

nvmlReturn_t nvmlDeviceGetTemperatureV(nvmlDevice_t device, struct nvmlTemperature_t *temperature)
{
	struct ck_emu_device *d;
	nvmlReturn_t err = ck_emu_nvml_begin(device, temperature, &d);

	if (!err && !ck_nvmlTemperature_t_known(temperature))
		err = NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	if (!err && temperature->sensorType != 0)
		err = NVML_ERROR_INVALID_ARGUMENT;
	if (!err)
		temperature->temperature = TEMPERATURE;
	return err;
}

/* Graphics, SM, memory, video: the clock rates that the driver's attributes tell. */
static nvmlReturn_t clock_mhz(nvmlDevice_t device, int type, unsigned int *clock)
{
	struct ck_emu_device *d;
	nvmlReturn_t err = ck_emu_nvml_begin(device, clock, &d);
	int khz;

	if (!err && (type < 0 || type > 3))
		err = NVML_ERROR_INVALID_ARGUMENT;
	if (err)
		return err;
	khz = ck_emu_attribute(d, type == 2 ? CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE
					    : CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
	*clock = (unsigned int)khz / 1000;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, int type, unsigned int *clock)
{
	return clock_mhz(device, type, clock);
}

nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, int type, unsigned int *clock)
{
	return clock_mhz(device, type, clock);
}

/* Each field says by itself that it is not supported. */
nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int valuesCount,
				      struct nvmlFieldValue_t *values)
{
	struct ck_emu_device *d;
	nvmlReturn_t err = ck_emu_nvml_begin(device, valuesCount > 0 ? values : NULL, &d);

	for (int i = 0; !err && i < valuesCount; i++)
		values[i].nvmlReturn = NVML_ERROR_NOT_SUPPORTED;
	return err;
}

/* --- processes that hold memory */

/* How many, at @list and at *@infoCount, for which there must be room. */
static nvmlReturn_t processes(nvmlDevice_t device, unsigned int *infoCount, const void *infos,
			      struct ck_emu_use list[CK_EMU_USERS])
{
	struct ck_emu_device *d;
	nvmlReturn_t err = ck_emu_nvml_begin(device, infoCount, &d);
	unsigned int room;

	if (err)
		return err;
	room = *infoCount;
	*infoCount = ck_emu_usage_list(d->number, list);
	if (room < *infoCount)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	return *infoCount && !infos ? NVML_ERROR_INVALID_ARGUMENT : NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int *infoCount,
						     struct nvmlProcessInfo_t *infos)
{
	struct ck_emu_use list[CK_EMU_USERS];
	nvmlReturn_t err = processes(device, infoCount, infos, list);

	for (unsigned int i = 0; !err && i < *infoCount; i++)
		infos[i] = (struct nvmlProcessInfo_t){list[i].pid, list[i].bytes, NVML_NO_INSTANCE,
						      NVML_NO_INSTANCE};
	return err;
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t device, unsigned int *infoCount,
						  struct nvmlProcessInfo_v1_t *infos)
{
	struct ck_emu_use list[CK_EMU_USERS];
	nvmlReturn_t err = processes(device, infoCount, infos, list);

	for (unsigned int i = 0; !err && i < *infoCount; i++)
		infos[i] = (struct nvmlProcessInfo_v1_t){list[i].pid, list[i].bytes};
	return err;
}

/* Nothing draws here, and there is no MPS. */
static nvmlReturn_t none(nvmlDevice_t device, unsigned int *infoCount)
{
	struct ck_emu_device *d;
	nvmlReturn_t err = ck_emu_nvml_begin(device, infoCount, &d);

	if (!err)
		*infoCount = 0;
	return err;
}

nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t device, unsigned int *infoCount,
						      struct nvmlProcessInfo_t *infos)
{
	(void)infos;
	return none(device, infoCount);
}

nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v3(nvmlDevice_t device,
							unsigned int *infoCount,
							struct nvmlProcessInfo_t *infos)
{
	(void)infos;
	return none(device, infoCount);
}

/* --- between devices */

nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t device1, nvmlDevice_t device2,
						 int *pathInfo)
{
	struct ck_emu_device *one, *two;
	nvmlReturn_t err = ck_emu_nvml_begin(device1, pathInfo, &one);

	if (!err)
		err = ck_emu_nvml_begin(device2, pathInfo, &two);
	if (!err)
		*pathInfo = one == two ? 0 : TOPOLOGY_NODE;
	return err;
}

nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t device1, nvmlDevice_t device2, int p2pIndex,
				    int *p2pStatus)
{
	struct ck_emu_device *d;
	nvmlReturn_t err = ck_emu_nvml_begin(device1, p2pStatus, &d);

	(void)p2pIndex;
	if (!err)
		err = ck_emu_nvml_begin(device2, p2pStatus, &d);
	if (!err)
		*p2pStatus = P2P_NOT_SUPPORTED;
	return err;
}
