/*
 * client/wire/names.c - this object is libcuda.so and libnvidia-ml.so.1 too.
 *
 * A library has one SONAME; this one's is libcuda.so.1. But programs look for NVML as
 * libnvidia-ml.so.1, and some for the driver as libcuda.so. So a library with each of these SONAMEs
 * lies beside it, empty but for the need of this one: what is looked up there is found here.
 * Loading them when this library is loaded makes LD_PRELOAD of cricket-client.so alone enough: the
 * loader then takes every later dlopen() of the name for them. CRICKET_NVML=0 leaves NVML to
 * whoever else has that name.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "util/env.h"

/* Load the library @name, if it lies where @self does. */
static void take_name(const char *self, const char *name)
{
	const char *slash = strrchr(self, '/');
	char path[PATH_MAX];
	int dir = slash ? (int)(slash - self) : 0;

	if (!slash || snprintf(path, sizeof(path), "%.*s/%s", dir, self, name) >= PATH_MAX)
		return;
	if (access(path, R_OK) == 0 && !dlopen(path, RTLD_LAZY | RTLD_LOCAL))
		dlerror();	/* it is not this program's business */
}

__attribute__((constructor)) static void take_names(void)
{
	const char *wanted = ck_env_string("CRICKET_NVML");
	Dl_info info;

	if (!dladdr((void *)take_names, &info) || !info.dli_fname)
		return;
	take_name(info.dli_fname, "libcuda.so");
	if (!wanted || strcmp(wanted, "0") != 0)
		take_name(info.dli_fname, "libnvidia-ml.so.1");
}
