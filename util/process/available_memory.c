/*
 * util/process/available_memory.c - see available_memory.h.
 */
#include <inttypes.h>
#include <stdio.h>

#include "util/process/available_memory.h"

uint64_t ck_available_memory(void)
{
	FILE *file = fopen("/proc/meminfo", "re");
	uint64_t kib = 0;
	char line[128];

	while (file && kib == 0 && fgets(line, sizeof(line), file))
		sscanf(line, "MemAvailable: %" SCNu64 " kB", &kib);
	if (file)
		fclose(file);
	return kib << 10;
}
