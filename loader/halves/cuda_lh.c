/*
 * loader/halves/cuda_lh.c - the CUDA half: Cricket's client, or with "local" (--lh cuda=local) the
 * machine's own driver library.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "loader/halves/half.h"
#include "loader/lhinfo.h"

extern const char *const lh_names[];
extern const unsigned long lh_hash;

static void *driver, *management;

static void *find_symbol(const char *name)
{
	void *f = dlsym(driver, name);

	return f || !management ? f : dlsym(management, name);
}

/* --- managed memory: the client's own functions replace libc's and fetch it for their callers */

static ssize_t (*client_pwrite)(int fd, const void *buf, size_t size, off_t at);
typedef ssize_t copy_function(pid_t pid, const struct iovec *own, unsigned long count,
			      const struct iovec *other, unsigned long others, unsigned long flags);
static copy_function *client_store, *client_copy;
static int (*client_sigaction)(int sig, const struct sigaction *act, struct sigaction *old);

/* Nothing is written to a file: the call only fetches the memory. The others are for bytes of any
 * process, here of this one. */
static long use_range(void *argument)
{
	const struct lh_range *range = argument;
	void *bytes = range->from ? (void *)(uintptr_t)range->from : range->to;
	struct iovec own = {range->at, range->size}, other = {bytes, range->size};
	copy_function *copy = range->from ? client_store : client_copy;

	if (!bytes) {
		client_pwrite(-1, range->at, range->size, 0);
		return 0;
	}
	return copy(getpid(), &own, 1, &other, 1, 0) == (ssize_t)range->size ? 0 : -EFAULT;
}

static long set_action(void *argument)
{
	const struct lh_action *a = argument;

	return client_sigaction(a->sig, a->act, a->old) ? -errno : 0;
}

static void *find_client_symbol(const char *name)
{
	void *f = dlsym(driver, name);
	Dl_info where, client;

	/* a client without them (built with a sanitizer) would lead us to libc's */
	return f && dladdr(f, &where) && dladdr(dlsym(driver, "cuInit"), &client) &&
			       where.dli_fbase == client.dli_fbase
		       ? f
		       : NULL;
}

/* The client's own _exit says goodbye to the servers first, and ends the process. */
static void (*client_exit)(int status);

static long leave(void *status)
{
	client_exit((int)(intptr_t)status);
	return 0;
}

static void find_end(void)
{
	*(void **)&client_exit = find_client_symbol("_exit");
	if (client_exit)
		ck_half_leaves(leave);
}

static void find_managed(void)
{
	*(void **)&client_pwrite = find_client_symbol("pwrite");
	*(void **)&client_store = find_client_symbol("process_vm_readv");
	*(void **)&client_copy = find_client_symbol("process_vm_writev");
	*(void **)&client_sigaction = find_client_symbol("sigaction");
	if (client_pwrite && client_store && client_copy && client_sigaction)
		ck_half_keeps(use_range, set_action);
}

/* The client is found beside this program, or where it is built: see the RUNPATH in the Makefile.
 */
int main(int argc, char **argv)
{
	int local = argc > 1 && !strcmp(argv[1], "local");
	const char *name = local ? "libcuda.so.1" : "cricket-client.so";

	driver = dlopen(name, RTLD_NOW | RTLD_GLOBAL);
	if (!driver) {
		ck_half_say("%s", dlerror());
		return 2;
	}
	if (local)
		management = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_GLOBAL);
	else {
		find_managed();
		find_end();
	}
	return ck_half_offer(lh_names, lh_hash, find_symbol);
}
