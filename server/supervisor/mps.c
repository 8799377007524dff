/*
 * server/supervisor/mps.c - warn of NVIDIA's MPS, which puts several processes into one context:
 * one session's fault would end the others. The server cannot turn it off, so it warns.
 */
#include <stdlib.h>

#include "cuda/mps.h"
#include "server/supervisor/host.h"
#include "util/log.h"

CK_LOG_DEFINE("server");

void cks_mps_check(void)
{
	if (ck_cuda_mps_runs())
		ck_warn("NVIDIA MPS is running: a fault of one session may end the others; "
			"to stop it: echo quit | nvidia-cuda-mps-control");
	else if (getenv("CUDA_MPS_PIPE_DIRECTORY"))
		ck_warn("CUDA_MPS_PIPE_DIRECTORY is set: sessions will use NVIDIA MPS if it runs; "
			"to stop it: echo quit | nvidia-cuda-mps-control");
}
