/*
 * loader/upper.c - libupper.so, which the loader makes the application's ld.so preload. It reports
 * to the loader that the application is there, when it forks, and when it ends by exit(), so that
 * lower halves end too.
 */
#include <dlfcn.h>
#include <pthread.h>

#include "loader/find.h"

/* libc's own: a program's reference to it may lead through the program's own table. */
static void *exit_entry(void)
{
	void *libc = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);

	return libc ? dlsym(libc, "_exit") : NULL;
}

static struct lhinfo *info;

/* Get the forking thread's block before the fork, because the child cannot make one. */
static void fork_stage(enum lh_fork_stage stage)
{
	for (unsigned int i = 1; i < info->halves; i++)
		if (info->half[i].state == LH_READY && info->half[i].forked)
			info->call(i, info->half[i].forked, (void *)(uintptr_t)stage);
}

static void prepare_fork(void)
{
	fork_stage(LH_FORK_PREPARE);
}

static void finish_fork_parent(void)
{
	fork_stage(LH_FORK_PARENT);
}

static void finish_fork_child(void)
{
	info->child = getpid();
	fork_stage(LH_FORK_CHILD);
}

__attribute__((constructor)) static void begin(void)
{
	info = lhinfo_find();
	if (!info)
		return;
	info->half[0].exit_entry = exit_entry;
	info->ready(&info->half[0]);
	pthread_atfork(prepare_fork, finish_fork_parent, finish_fork_child);
}

/* Other destructors may still follow, and may still call lower halves: these end in _exit(). */
__attribute__((destructor)) static void end(void)
{
	if (info && lhinfo_find())
		info->exiting = 1;
}
