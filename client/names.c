/*
 * client/nvml_name.c - this object is libnvidia-ml.so.1 too.
 *
 * A program finds NVML by the name libnvidia-ml.so.1, and a library has one SONAME; this one's is
 * the driver's. So a second library with NVML's SONAME lies beside it, empty but for the need of
 * this one: what is looked up there is found here. Loading it when this library is loaded makes
 * LD_PRELOAD of cricket-client.so alone enough: the loader then takes every later
 * dlopen("libnvidia-ml.so.1") for it. CRICKET_NVML=0 leaves NVML to whoever else has that name.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "util/env.h"

#define NAME "libnvidia-ml.so.1"

__attribute__((constructor)) static void take_name(void)
{
	const char *wanted = ck_env_string("CRICKET_NVML");
	char path[PATH_MAX];
	Dl_info info;
	const char *slash;
	int dir;

	if (wanted && strcmp(wanted, "0") == 0)
		return;
	if (!dladdr((void *)take_name, &info) || !info.dli_fname)
		return;
	slash = strrchr(info.dli_fname, '/');
	dir = slash ? (int)(slash - info.dli_fname) : 0;
	if (!slash || snprintf(path, sizeof(path), "%.*s/" NAME, dir, info.dli_fname) >= PATH_MAX)
		return;
	if (access(path, R_OK) == 0 && !dlopen(path, RTLD_LAZY | RTLD_LOCAL))
		dlerror();	/* it is not this program's business */
}
