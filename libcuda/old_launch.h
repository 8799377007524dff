/*
 * libcuda/old_launch.h - launches as they were before CUDA 4.
 */
#ifndef CK_LIBCUDA_OLD_LAUNCH_H
#define CK_LIBCUDA_OLD_LAUNCH_H

#include "cuda/types.h"

/* Forget the function and its settings. */
void ck_old_launch_forget(CUfunction function);

#endif
