/*
 * server/helpers/gpu_probe.h - the process that looks at the GPUs for clients that choose among
 * servers (CK_OFFER).
 *
 * It opens the driver and NVML, and makes no context: it takes no memory of the GPUs.
 * CUDA_VISIBLE_DEVICES says which ones it sees, and in which order, as for a worker.
 */
#ifndef CK_SERVER_HELPERS_GPU_PROBE_H
#define CK_SERVER_HELPERS_GPU_PROBE_H

#include <stdint.h>

#define CK_GPU_PROBE_ARGUMENT "--scout" /* and the driver */
/* SOCK_SEQPACKET: a byte asks, struct cks_gpu_probe_note answers */
#define CK_GPU_PROBE_SOCKET 3
#define CK_GPU_PROBE_GPUS 64
#define CK_GPU_PROBE_NAME 96
#define CK_GPU_PROBE_WHY 128

struct cks_gpu_probe_note {
	char why[CK_GPU_PROBE_WHY]; /* why it cannot tell; empty: it can */
	uint32_t count;
	struct cks_gpu_probe_gpu {
		char name[CK_GPU_PROBE_NAME];
		uint64_t memory, free;
		uint32_t programs;
		int32_t utilization; /* percent; -1: unknown */
	} gpus[CK_GPU_PROBE_GPUS];
};

/* The process: until the socket's other end is closed, or no question comes for some seconds. The
 * exit status. */
int cks_gpu_probe_main(const char *driver);

#endif
