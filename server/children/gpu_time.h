/*
 * server/children/gpu_time.h - the process that measures GPU time
 * (server/helpers/gpu_time_meter.h), for --gpu-time.
 */
#ifndef CK_SERVER_CHILDREN_GPU_TIME_H
#define CK_SERVER_CHILDREN_GPU_TIME_H

#include <poll.h>
#include <stdbool.h>
#include <sys/types.h>

struct cks_workers;

struct cks_gpu_time {
	bool wanted;
	const char *driver;
	int control; /* -1: there is no process */
	pid_t pid;
};

/* Start it if it is @wanted. A failure is logged: sessions have no GPU time then. */
void cks_gpu_time_start(struct cks_gpu_time *gauge, bool wanted, const char *driver);
void cks_gpu_time_stop(struct cks_gpu_time *gauge);

/* Fill in one descriptor; and take reports. */
void cks_gpu_time_poll(const struct cks_gpu_time *gauge, struct pollfd *fd);
void cks_gpu_time_run(struct cks_gpu_time *gauge, struct cks_workers *workers);

/* Process @pid has ended; false: it is another one. */
bool cks_gpu_time_ended(struct cks_gpu_time *gauge, pid_t pid);

#endif
