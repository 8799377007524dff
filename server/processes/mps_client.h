/*
 * server/processes/mps_client.h - cuInit of a worker, which may be a client of NVIDIA MPS
 * (server/children/mps.h).
 */
#ifndef CK_SERVER_PROCESSES_MPS_CLIENT_H
#define CK_SERVER_PROCESSES_MPS_CLIENT_H

#include "cuda/types.h"

/* cuInit; if the worker is to use a daemon of MPS, wait for that first, for at most 20 s, and as
 * long again until it takes a client. CUDA_ERROR_MPS_CONNECTION_FAILED: there is none. */
CUresult cks_mps_client_init(void);
/* The message to the client beside @err; "": none. */
const char *cks_mps_client_hint(CUresult err);

#endif
