/*
 * server/helpers/gpu.h - the driver and the GPUs of this server, as checkpoints name them.
 */
#ifndef CK_SERVER_HELPERS_GPU_H
#define CK_SERVER_HELPERS_GPU_H

#include "server/checkpoint/manifest.h"
#include "server/helpers/gpu_map.h"

/* Open @driver, in a child process, and describe it. */
int cks_gpu_describe(const char *driver, struct cks_manifest_gpu *gpu, struct cks_why *why);
/* The same, and which more GPUs the machine has. Afterwards this process has no
 * CUDA_VISIBLE_DEVICES. */
int cks_gpu_describe_all(const char *driver, struct cks_manifest_gpu *gpu, struct cks_why *why);

/*
 * The GPUs of this machine, of which the server has those of its own CUDA_VISIBLE_DEVICES, and the
 * session those of @allowed, such a list too; "": the server's. Afterwards this process has the
 * driver open, and sees all GPUs: it must not have opened it before.
 */
int cks_gpu_machine(const char *driver, const char *allowed, struct cks_machine *machine,
		    struct cks_why *why);

#endif
