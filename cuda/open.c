/*
 * cuda/open.c - see cuda/open.h.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cuda/open.h"

static void *open_own(const char *name)
{
	static const char *const places[] = {"", "lib/", "../lib/"};
	char self[PATH_MAX], path[PATH_MAX + 64];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	char *slash;

	self[n > 0 ? n : 0] = '\0';
	slash = strrchr(self, '/');
	for (size_t i = 0; slash && i < sizeof(places) / sizeof(places[0]); i++) {
		snprintf(path, sizeof(path), "%.*s/%s%s", (int)(slash - self), self, places[i],
			 name);
		if (access(path, R_OK) == 0)
			return dlopen(path, RTLD_NOW | RTLD_LOCAL);
	}
	return dlopen(name, RTLD_NOW | RTLD_LOCAL);
}

void *ck_cuda_open(const char *which)
{
	if (strcmp(which, "emu") == 0)
		return open_own("libcuda-emu.so");
	if (strcmp(which, "remote") == 0)
		return open_own("cricket-client.so");
	return dlopen(strcmp(which, "cuda") == 0 ? "libcuda.so.1" : which, RTLD_NOW | RTLD_LOCAL);
}

bool ck_cuda_find(const char *symbol, void **library)
{
	*library = RTLD_DEFAULT; /* a process that links its driver has its symbols everywhere */
	if (dlsym(*library, symbol))
		return true;
	*library = ck_cuda_open("cuda");
	return *library != NULL;
}

bool ck_cuda_emulated(void *library)
{
	return dlsym(library ? library : RTLD_DEFAULT, "ckDriverAcceptsCubin") != NULL;
}
