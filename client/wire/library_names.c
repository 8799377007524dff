/*
 * client/wire/library_names.c - make this library serve as libcuda.so, libnvidia-ml.so.1 and
 * libcupti.so too.
 *
 * A library has one SONAME; this one's is libcuda.so.1. But programs open NVML as
 * libnvidia-ml.so.1, and some open the driver as libcuda.so. So an almost empty library with each
 * of these SONAMEs lies beside this one and depends on it: symbols looked up there are found here.
 * This library loads them at start, so that an LD_PRELOAD of cricket-client.so alone is enough: the
 * dynamic loader resolves every later dlopen() of these names to them. With no-nvml and
 * no-cupti in CRICKET_DEBUG, other libraries may provide NVML and CUPTI.
 *
 * The stand-in for NCCL (nccl/) is loaded only where NCCL runs in the workers, and globally: its
 * functions then come before those of a library that the program opens by its path, as PyTorch
 * does.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "util/env.h"
#include "util/log.h"
#include "util/nccl.h"

CK_LOG_DEFINE("client");

/* Load the library @name from the folder of @self, if it exists. */
static void take_name(const char *self, const char *name, int scope)
{
	const char *slash = strrchr(self, '/');
	char path[PATH_MAX];
	int dir = slash ? (int)(slash - self) : 0;

	if (!slash || snprintf(path, sizeof(path), "%.*s/%s", dir, self, name) >= PATH_MAX)
		return;
	if (access(path, R_OK) == 0 && !dlopen(path, RTLD_LAZY | scope))
		dlerror(); /* hide the error from the program's dlerror() */
}

static bool is_wanted(const char *word)
{
	char value[4];

	return ck_env_word("CRICKET_DEBUG", word, value, sizeof(value)) < 0 ||
	       strcmp(value, "0") != 0;
}

static void take_nccl(const char *self)
{
	const char *word = ck_env_string("CRICKET_NCCL");
	int wanted = ck_nccl_in_workers(word, ck_env_string("REMOTE_GPU_ADDRESS"));

	if (wanted < 0)
		ck_warn("CRICKET_NCCL: not auto, workers or program: %s", word);
	if (wanted > 0)
		take_name(self, "libnccl.so.2", RTLD_GLOBAL);
}

__attribute__((constructor)) static void take_names(void)
{
	Dl_info info;

	if (!dladdr((void *)take_names, &info) || !info.dli_fname)
		return;
	take_name(info.dli_fname, "libcuda.so", RTLD_LOCAL);
	take_nccl(info.dli_fname);
	if (is_wanted("nvml"))
		take_name(info.dli_fname, "libnvidia-ml.so.1", RTLD_LOCAL);
	if (!is_wanted("cupti"))
		return;
	take_name(info.dli_fname, "libcupti.so.12", RTLD_LOCAL);
	take_name(info.dli_fname, "libcupti.so.13", RTLD_LOCAL);
}
