/*
 * server/door/memory_need.c - see offers.h.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "server/door/offers.h"

static int check_gpu_memory(const struct cks_gpu_probe_note *note, uint64_t memory, u_int device,
			    char *why, size_t size)
{
	if (device >= note->count) {
		snprintf(why, size, "it has no GPU %u", device);
		return -ENOSPC;
	}
	if (note->gpus[device].free >= memory)
		return 0;
	snprintf(why, size, "its GPU %u has %llu MiB free, and the program needs %llu MiB", device,
		 (unsigned long long)note->gpus[device].free >> 20,
		 (unsigned long long)memory >> 20);
	return -ENOSPC;
}

int cks_memory_need_check(struct cks_offers *offers, const ck_hello_need *need,
			  const struct cks_terms *terms, int64_t since, char *why, size_t size)
{
	u_int named = need->devices.devices_len;
	const struct cks_gpu_probe_note *note;
	int ret = 0;

	if (need->memory == 0)
		return 0;
	ret = cks_gpu_probes_look(offers, terms->gpus, since, &note);
	if (ret == 0 && note->why[0]) {
		snprintf(why, size, "%s", note->why);
		ret = -ENOSPC;
	}
	for (u_int i = 0; ret == 0 && i < (named ? named : note->count); i++)
		ret = check_gpu_memory(note, need->memory, named ? need->devices.devices_val[i] : i,
				       why, size);
	if (ret < 0 && ret != -EAGAIN && ret != -ENOSPC) {
		snprintf(why, size, "it cannot read the state of its GPUs: %s", strerror(-ret));
		ret = -ENOSPC;
	}
	return ret;
}
