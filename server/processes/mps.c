/*
 * server/processes/mps.c - detect NVIDIA's MPS, which puts several processes into one context: one
 * session's fault would end the others. The server cannot turn it off, so it warns.
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/processes/supervisor.h"
#include "util/log.h"

CK_LOG_DEFINE("server");

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

static bool mps_runs(void)
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

void cks_mps_check(void)
{
	if (mps_runs())
		ck_warn("NVIDIA MPS is running: a fault of one session may end the others; "
			"to stop it: echo quit | nvidia-cuda-mps-control");
	else if (getenv("CUDA_MPS_PIPE_DIRECTORY"))
		ck_warn("CUDA_MPS_PIPE_DIRECTORY is set: sessions will use NVIDIA MPS if it runs; "
			"to stop it: echo quit | nvidia-cuda-mps-control");
}
