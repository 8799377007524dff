/*
 * launcher/driver/driver_log.h - the log of a driver library while it starts: the client library
 * says why a server cannot be used in a line of its log, and CUDA has only an error code for it.
 */
#ifndef CK_LAUNCHER_DRIVER_DRIVER_LOG_H
#define CK_LAUNCHER_DRIVER_DRIVER_LOG_H

#include <pthread.h>

struct ckl_driver_log {
	int pipe[2];	/* -1: not listening */
	int log;	/* where the lines go on to */
	char was[16];	/* CRICKET_LOG_FD before */
	char line[400]; /* the last error, without its head; empty: none */
	pthread_t thread;
};

/* Listen to the log lines of this process. They are still written, at once. It cannot fail: nothing
 * is heard then. */
void ckl_driver_log_begin(struct ckl_driver_log *heard);
/* Stop. @heard->line is the last error. */
void ckl_driver_log_end(struct ckl_driver_log *heard);

#endif
