/*
 * client/wire/names.c - make this library serve as libcuda.so, libnvidia-ml.so.1 and libcupti.so too.
 *
 * A library has one SONAME; this one's is libcuda.so.1. But programs open NVML as
 * libnvidia-ml.so.1, and some open the driver as libcuda.so. So an almost empty library with each
 * of these SONAMEs lies beside this one and depends on it: symbols looked up there are found here.
 * This library loads them at start, so that an LD_PRELOAD of cricket-client.so alone is enough: the
 * dynamic loader resolves every later dlopen() of these names to them. With CRICKET_NVML=0 and
 * CRICKET_CUPTI=0, other libraries may provide NVML and CUPTI.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "util/env.h"

/* Load the library @name from the folder of @self, if it exists. */
static void take_name(const char *self, const char *name)
{
	const char *slash = strrchr(self, '/');
	char path[PATH_MAX];
	int dir = slash ? (int)(slash - self) : 0;

	if (!slash || snprintf(path, sizeof(path), "%.*s/%s", dir, self, name) >= PATH_MAX)
		return;
	if (access(path, R_OK) == 0 && !dlopen(path, RTLD_LAZY | RTLD_LOCAL))
		dlerror(); /* hide the error from the program's dlerror() */
}

static bool is_wanted(const char *variable)
{
	const char *value = ck_env_string(variable);

	return !value || strcmp(value, "0") != 0;
}

__attribute__((constructor)) static void take_names(void)
{
	Dl_info info;

	if (!dladdr((void *)take_names, &info) || !info.dli_fname)
		return;
	take_name(info.dli_fname, "libcuda.so");
	if (is_wanted("CRICKET_NVML"))
		take_name(info.dli_fname, "libnvidia-ml.so.1");
	if (!is_wanted("CRICKET_CUPTI"))
		return;
	take_name(info.dli_fname, "libcupti.so.12");
	take_name(info.dli_fname, "libcupti.so.13");
}
