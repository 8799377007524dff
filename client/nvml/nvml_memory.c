/*
 * client/nvml/nvml_memory.c - the memory of a device. As for cuMemGetInfo, memory that the session
 * has leased and the program has not taken is free.
 */
#include <string.h>

#include "client/memory/arena.h"
#include "client/nvml/nvml.h"
#include "cricket.h"
#include "gen/numbers.h"
#include "gen/nvml_bodies.h"
#include "util/util.h"

/* Leased and idle bytes of @device, a number of the current session's server. */
static unsigned long long idle_on(unsigned int device)
{
	unsigned int ordinal;

	if (ckc_nvml_ordinal(device, &ordinal))
		return 0;
	return ckc_arena_idle(ckc_client_current(), ordinal);
}

static void count_as_free(unsigned long long idle, unsigned long long *used,
			  unsigned long long *free)
{
	idle = ck_min(idle, *used);
	*used -= idle;
	*free += idle;
}

nvmlReturn_t ckc_do_nvmlDeviceGetMemoryInfo(nvmlDeviceGetMemoryInfo_args *a,
					    nvmlDeviceGetMemoryInfo_res *r)
{
	unsigned long long idle = idle_on(a->device);
	nvmlReturn_t err = ckc_nvml_ask(CK_PROC_nvmlDeviceGetMemoryInfo, a, r, &r->nvml);
	struct nvmlMemory_t m;

	if (err)
		return err;
	memcpy(&m, r->memory, sizeof(m));
	count_as_free(idle, &m.used, &m.free);
	memcpy(r->memory, &m, sizeof(m));
	return NVML_SUCCESS;
}

nvmlReturn_t ckc_do_nvmlDeviceGetMemoryInfo_v2(nvmlDeviceGetMemoryInfo_v2_args *a,
					       nvmlDeviceGetMemoryInfo_v2_res *r)
{
	unsigned long long idle = idle_on(a->device);
	nvmlReturn_t err = ckc_nvml_ask(CK_PROC_nvmlDeviceGetMemoryInfo_v2, a, r, &r->nvml);
	struct nvmlMemory_v2_t m;

	if (err)
		return err;
	memcpy(&m, r->memory, sizeof(m));
	count_as_free(idle, &m.used, &m.free);
	memcpy(r->memory, &m, sizeof(m));
	return NVML_SUCCESS;
}
