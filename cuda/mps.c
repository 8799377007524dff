/*
 * cuda/mps.c - see cuda/mps.h.
 */
#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include "cuda/mps.h"

/* The kernel truncates process names to 15 characters, so -control and -server look the same. */
#define CK_MPS_NAME "nvidia-cuda-mps"

static bool is_mps(const char *pid)
{
	char path[64], name[32] = "";
	FILE *f;

	if (snprintf(path, sizeof(path), "/proc/%.20s/comm", pid) >= (int)sizeof(path))
		return false;
	f = fopen(path, "re");
	if (!f)
		return false;
	if (!fgets(name, sizeof(name), f))
		name[0] = '\0';
	fclose(f);
	return strncmp(name, CK_MPS_NAME, strlen(CK_MPS_NAME)) == 0;
}

bool ck_cuda_mps_runs(void)
{
	struct dirent *entry;
	bool found = false;
	DIR *d = opendir("/proc");

	while (d && !found && (entry = readdir(d)))
		found = isdigit((unsigned char)entry->d_name[0]) && is_mps(entry->d_name);
	if (d)
		closedir(d);
	return found;
}
