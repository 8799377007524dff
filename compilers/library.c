/*
 * compilers/library.c - see library.h.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

#include "compilers/library.h"

struct wanted {
	const char *name;
	char path[PATH_MAX];
};

static int is_wanted(struct dl_phdr_info *info, size_t size, void *argument)
{
	struct wanted *wanted = argument;
	const char *slash = info->dlpi_name ? strrchr(info->dlpi_name, '/') : NULL;

	(void)size;
	if (!slash || strncmp(slash + 1, wanted->name, strlen(wanted->name)) != 0)
		return 0;
	snprintf(wanted->path, sizeof(wanted->path), "%s", info->dlpi_name);
	return 1;
}

void *ck_compiler_function(const char *library, const char *name)
{
	struct wanted wanted = {.name = library};
	void *handle = NULL, *found = NULL;

	if (dl_iterate_phdr(is_wanted, &wanted))
		handle = dlopen(wanted.path, RTLD_LAZY | RTLD_NOLOAD);
	if (handle) {
		found = dlsym(handle, name);
		dlclose(handle);
	}
	return found;
}
