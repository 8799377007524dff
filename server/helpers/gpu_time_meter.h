/*
 * server/helpers/gpu_time_meter.h - the process that measures the GPU time of sessions, by NVML
 * (--gpu-time).
 *
 * NVML samples how busy each process keeps the GPU. This process asks once a second and reports
 * each process's share of that second. It is a process of its own because NVML loads the driver and
 * may take long; and workers with NVML open could not be written into files.
 */
#ifndef CK_SERVER_HELPERS_GPU_TIME_METER_H
#define CK_SERVER_HELPERS_GPU_TIME_METER_H

#include <stdint.h>

#define CK_GPU_TIME_ARGUMENT "--gauge" /* and the driver */
#define CK_GPU_TIME_SOCKET 3	       /* SOCK_SEQPACKET: struct cks_gpu_time_note up */
#define CK_GPU_TIME_NOTES 64

/* GPU time that processes have had since the last report; of more processes than fit, several
 * notes. */
struct cks_gpu_time_note {
	uint32_t count;
	struct {
		uint32_t pid, us;
	} list[CK_GPU_TIME_NOTES];
};

/* The process: until the socket's other end is closed. The exit status. */
int cks_gpu_time_main(const char *driver);

#endif
