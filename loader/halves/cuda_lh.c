/*
 * loader/halves/cuda_lh.c - the CUDA half: Cricket's client, or with "local" (--lh cuda=local) the
 * machine's own driver library.
 */
#include <dlfcn.h>
#include <string.h>

#include "loader/halves/half.h"

extern const char *const lh_names[];
extern const unsigned long lh_hash;

static void *driver, *management;

static void *find(const char *name)
{
	void *f = dlsym(driver, name);

	return f || !management ? f : dlsym(management, name);
}

/* The client is found beside this program, or where it is built: see the RUNPATH in the Makefile. */
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
	return ck_half_offer(lh_names, lh_hash, find);
}
