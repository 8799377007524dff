/*
 * launcher/compile/compiler.c - look for NVRTC and nvcc; see compiler.h.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launcher/compile/compiler.h"
#include "util/util.h"

static const char *const libraries[] = {"libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12"};

/* Take the file at @path, if it is one. Its size and time stand for its version. */
static bool try_compiler(struct ckl_compiler *compiler, bool nvrtc, const char *path)
{
	struct stat st;

	if (!realpath(path, compiler->path) || stat(compiler->path, &st) < 0 ||
	    !S_ISREG(st.st_mode) || (!nvrtc && access(compiler->path, X_OK) < 0))
		return false;
	compiler->nvrtc = nvrtc;
	snprintf(compiler->identity, sizeof(compiler->identity), "%s %s %lld %lld.%09ld",
		 nvrtc ? "nvrtc" : "nvcc", compiler->path, (long long)st.st_size,
		 (long long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
	return true;
}

/* One of @names in @folder. */
static bool look_in(struct ckl_compiler *compiler, bool nvrtc, const char *folder, size_t length)
{
	char path[PATH_MAX];

	for (size_t i = 0; i < (nvrtc ? CK_ARRAY_SIZE(libraries) : 1); i++) {
		snprintf(path, sizeof(path), "%.*s/%s", (int)length, folder,
			 nvrtc ? libraries[i] : "nvcc");
		if (try_compiler(compiler, nvrtc, path))
			return true;
	}
	return false;
}

/* In the folders of a list like PATH. */
static bool look_along(struct ckl_compiler *compiler, bool nvrtc, const char *list)
{
	size_t length;

	for (; list && *list; list += length + (list[length] == ':')) {
		length = strcspn(list, ":");
		if (length > 0 && look_in(compiler, nvrtc, list, length))
			return true;
	}
	return false;
}

/* Toolkits that the environment names, and the default one. */
static bool look_in_toolkits(struct ckl_compiler *compiler, bool nvrtc)
{
	const char *homes[] = {getenv("CUDA_HOME"), getenv("CUDA_PATH"), "/usr/local/cuda"};
	const char *folders[] = {nvrtc ? "lib64" : "bin", nvrtc ? "lib" : "bin"};
	char path[PATH_MAX];

	for (size_t i = 0; i < 2 * CK_ARRAY_SIZE(homes); i++) {
		if (!homes[i / 2])
			continue;
		snprintf(path, sizeof(path), "%s/%s", homes[i / 2], folders[i % 2]);
		if (look_in(compiler, nvrtc, path, strlen(path)))
			return true;
	}
	return false;
}

/* As the dynamic loader finds it; this loads it. */
static bool look_with_loader(struct ckl_compiler *compiler)
{
	struct link_map *map;
	bool found = false;
	void *library;

	for (size_t i = 0; !found && i < CK_ARRAY_SIZE(libraries); i++) {
		library = dlopen(libraries[i], RTLD_LAZY | RTLD_LOCAL);
		if (!library)
			continue;
		found = dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 &&
			try_compiler(compiler, true, map->l_name);
		dlclose(library);
	}
	return found;
}

static bool find_nvrtc(struct ckl_compiler *compiler)
{
	return look_along(compiler, true, getenv("LD_LIBRARY_PATH")) ||
	       look_in_toolkits(compiler, true) || look_with_loader(compiler);
}

static bool find_nvcc(struct ckl_compiler *compiler)
{
	const char *own = getenv("NVCC");

	return (own && try_compiler(compiler, false, own)) || look_in_toolkits(compiler, false) ||
	       look_along(compiler, false, getenv("PATH"));
}

bool ckl_compiler_find(const char *which, struct ckl_compiler *compiler)
{
	const char *name = strrchr(which, '/');

	if (strcmp(which, "nvrtc") == 0)
		return find_nvrtc(compiler);
	if (strcmp(which, "nvcc") == 0)
		return find_nvcc(compiler);
	if (strcmp(which, "auto") == 0)
		return find_nvrtc(compiler) || find_nvcc(compiler);
	return name && try_compiler(compiler, strncmp(name + 1, "libnvrtc", 8) == 0, which);
}
