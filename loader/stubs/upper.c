/*
 * loader/upper.c - libupper.so, which the loader has the application's ld.so preload: it says that
 * the application is there, and when it ends by exit(), so that lower halves end too.
 */
#include <dlfcn.h>

#include "loader/find.h"

/* libc's own: a program's reference to it may lead through the program's own table. */
static void *exit_entry(void)
{
	void *libc = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);

	return libc ? dlsym(libc, "_exit") : NULL;
}

__attribute__((constructor)) static void begin(void)
{
	struct lhinfo *info = lhinfo_find();

	if (!info)
		return;
	info->half[0].exit_entry = exit_entry;
	info->ready(&info->half[0]);
}

/* Other destructors may still follow, and may still call lower halves: these end in _exit(). */
__attribute__((destructor)) static void end(void)
{
	struct lhinfo *info = lhinfo_find();

	if (info)
		info->exiting = 1;
}
