/*
 * cuda/mps.h - NVIDIA MPS, which lets processes share a GPU, and their faults.
 */
#ifndef CK_CUDA_MPS_H
#define CK_CUDA_MPS_H

#include <stdbool.h>

/* Does MPS run on this host, as far as /proc shows? */
bool ck_cuda_mps_runs(void);

#endif
