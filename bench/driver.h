/*
 * bench/driver.h - calls of a driver library that was opened by name. Needs `driver`, its handle.
 */
#ifndef CK_BENCH_DRIVER_H
#define CK_BENCH_DRIVER_H

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#define CU(name) ((__typeof__(name) *)dlsym(driver, #name))
/* Ends the program with status 1 when the call fails. */
#define MUST(call)                                                                                 \
	do {                                                                                       \
		CUresult err_ = (call);                                                            \
		if (err_) {                                                                        \
			fprintf(stderr, "%s = %d\n", #call, (int)err_);                            \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

#endif
