/*
 * client/nvml/nvml_memory.c - the memory of a device: what the session has leased and the program has not taken counts as free,
 * as for cuMemGetInfo.
 */
#include <string.h>

#include "client/memory/arena.h"
#include "client/nvml/nvml.h"
#include "cricket.h"
#include "gen/numbers.h"
#include "util/util.h"

/* Leased and idle bytes of @device, a number of the current session's server. */
static unsigned long long idle_on(unsigned int device)
{
	unsigned int ordinal;

	if (ckc_nvml_ordinal(device, &ordinal))
		return 0;
	return ckc_arena_idle_on(ckc_client_current(), ordinal);
}

static void count_as_free(unsigned long long idle, unsigned long long *used,
			  unsigned long long *free)
{
	idle = ck_min(idle, *used);
	*used -= idle;
	*free += idle;
}

nvmlReturn_t ckc_nvml_memory(uint32_t proc, void *args, void *res, const int *nvml)
{
	bool is_v2 = proc == CK_PROC_nvmlDeviceGetMemoryInfo_v2;
	unsigned int device = is_v2 ? ((nvmlDeviceGetMemoryInfo_v2_args *)args)->device
				    : ((nvmlDeviceGetMemoryInfo_args *)args)->device;
	unsigned long long idle = idle_on(device);
	nvmlReturn_t err = ckc_nvml_ask(proc, args, res, nvml);
	struct nvmlMemory_v2_t v2;
	struct nvmlMemory_t v1;

	if (err)
		return err;
	if (is_v2) {
		nvmlDeviceGetMemoryInfo_v2_res *r = res;

		memcpy(&v2, r->memory, sizeof(v2));
		count_as_free(idle, &v2.used, &v2.free);
		memcpy(r->memory, &v2, sizeof(v2));
	} else {
		nvmlDeviceGetMemoryInfo_res *r = res;

		memcpy(&v1, r->memory, sizeof(v1));
		count_as_free(idle, &v1.used, &v1.free);
		memcpy(r->memory, &v1, sizeof(v1));
	}
	return NVML_SUCCESS;
}
