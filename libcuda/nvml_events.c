/*
 * libcuda/nvml_events.c - event sets: programs can make them and wait, but no events occur.
 *
 * The client does not transmit events of devices, and emulated devices have none. So registering
 * for one is refused, as by a device that has none. The sets must work, because nvidia-smi exits if
 * it gets none.
 */
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "gen/nvml_api.h"
#include "libcuda/libcuda.h"
#include "libcuda/locks.h"
#include "util/util.h"

#define SETS 256

/* Per process: a set is the address of its slot. */
static struct ck_mutex sets_lock = CK_MUTEX(CK_RANK_NVML_SETS);
static bool used[SETS];

/* The slot of a live set, or NULL. */
static bool *find_event_set(nvmlEventSet_t set)
{
	uintptr_t at = (uintptr_t)set - (uintptr_t)used;
	bool *place = at < sizeof(used) ? &used[at] : NULL;

	return place && *place ? place : NULL;
}

CK_EXPORT nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *set)
{
	nvmlReturn_t err = ck_libcuda_nvml_enter();

	if (err)
		return err;
	if (!set)
		return NVML_ERROR_INVALID_ARGUMENT;
	err = NVML_ERROR_INSUFFICIENT_RESOURCES;
	ck_lock(&sets_lock);
	for (int i = 0; i < SETS && err; i++) {
		if (used[i])
			continue;
		used[i] = true;
		*set = (nvmlEventSet_t)&used[i];
		err = NVML_SUCCESS;
	}
	ck_unlock(&sets_lock);
	return err;
}

CK_EXPORT nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set)
{
	nvmlReturn_t err = ck_libcuda_nvml_enter();
	bool *place;

	if (err)
		return err;
	ck_lock(&sets_lock);
	place = find_event_set(set);
	if (place)
		*place = false;
	ck_unlock(&sets_lock);
	return place ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

CK_EXPORT nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long eventTypes,
						nvmlEventSet_t set)
{
	nvmlReturn_t err = ck_libcuda_nvml_enter();

	if (!err)
		err = ck_libcuda_nvml_device(device);
	if (err)
		return err;
	if (!find_event_set(set))
		return NVML_ERROR_INVALID_ARGUMENT;
	return eventTypes ? NVML_ERROR_NOT_SUPPORTED : NVML_SUCCESS;
}

/* Waits for the caller's full timeout. */
CK_EXPORT nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, void *data, unsigned int timeoutms)
{
	const struct timespec time = {.tv_sec = timeoutms / 1000,
				      .tv_nsec = (long)(timeoutms % 1000) * 1000000};
	nvmlReturn_t err = ck_libcuda_nvml_enter();

	if (err)
		return err;
	if (!data || !find_event_set(set))
		return NVML_ERROR_INVALID_ARGUMENT;
	nanosleep(&time, NULL);
	return NVML_ERROR_TIMEOUT;
}

CK_EXPORT nvmlReturn_t nvmlEventSetWait(nvmlEventSet_t set, void *data, unsigned int timeoutms)
{
	return nvmlEventSetWait_v2(set, data, timeoutms);
}
