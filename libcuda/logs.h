/*
 * libcuda/logs.h - the logs that an application may read.
 */
#ifndef CK_LIBCUDA_LOGS_H
#define CK_LIBCUDA_LOGS_H

/* Keep the errors and warnings that are logged from now on. */
void ck_logs_begin(void);

#endif
