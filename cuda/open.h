/*
 * cuda/open.h - finding and opening a CUDA driver library.
 */
#ifndef CK_CUDA_OPEN_H
#define CK_CUDA_OPEN_H

#include <stdbool.h>

/*
 * Open the driver library @which: "cuda" (libcuda.so.1), "emu" (libcuda-emu.so), "remote"
 * (cricket-client.so), or a path. Our own libraries are looked for beside this program, in lib/
 * beside it and in ../lib/, then by the loader. The caller owns the handle. NULL: dlerror() has the
 * reason.
 */
void *ck_cuda_open(const char *which);

/*
 * The driver library for code in another program's process: what the process has already, if that
 * has function @symbol (*@library is RTLD_DEFAULT then), else libcuda.so.1. False: there is none,
 * dlerror() has the reason.
 */
bool ck_cuda_find(const char *symbol, void **library);

/* Whether an open driver library (NULL: one in the process) is the emulated one. */
bool ck_cuda_emulated(void *library);

#endif
