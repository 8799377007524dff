/*
 * tests/test_apps/entry.h - calls of the driver API in a program of the runtime: CU(cuStreamQuery)
 * is the function under that name, as cuda.h's macros have it, without linking a driver.
 */
#ifndef CK_TEST_APPS_ENTRY_H
#define CK_TEST_APPS_ENTRY_H

#include <cuda.h>
#include <dlfcn.h>

#include "check.h"

static inline void *entry(const char *name)
{
	static void *driver = dlopen("libcuda.so.1", RTLD_NOW);
	void *symbol = driver ? dlsym(driver, name) : NULL;

	if (!symbol) {
		fprintf(stderr, "the driver has no %s\n", name);
		exit(1);
	}
	return symbol;
}

#define ENTRY_TEXT(name) #name
#define ENTRY_NAME(name) ENTRY_TEXT(name)
#define CU(name) (reinterpret_cast<decltype(&name)>(entry(ENTRY_NAME(name))))

/* Ends the program with status 1 when a driver call does not return what is expected. */
#define EXPECT_CU(expected, call) expect_cu(expected, call, #call, __FILE__, __LINE__)
#define CHECK_CU(call) EXPECT_CU(CUDA_SUCCESS, call)

static inline void expect_cu(CUresult expected, CUresult err, const char *call, const char *file,
			     int line)
{
	if (err == expected)
		return;
	fprintf(stderr, "%s:%d: %s: %d, not %d\n", file, line, call, err, expected);
	exit(1);
}

#endif
