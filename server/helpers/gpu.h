/*
 * server/helpers/gpu.h - the driver and the GPUs of this server, as checkpoints name them.
 */
#ifndef CK_SERVER_HELPERS_GPU_H
#define CK_SERVER_HELPERS_GPU_H

#include "server/checkpoint/manifest.h"

/* Open @driver, in a child process, and describe it. */
int cks_gpu_describe(const char *driver, struct cks_manifest_gpu *gpu, struct cks_why *why);

#endif
