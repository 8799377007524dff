/*
 * util/cancel.h - delay cancellation of a program's thread (pthread_cancel) until it has left our
 * functions: it may be in the middle of a message, or hold a lock.
 */
#ifndef CK_UTIL_CANCEL_H
#define CK_UTIL_CANCEL_H

#include <pthread.h>

/* Disable cancellation of this thread; returns the argument for ck_cancel_restore. */
static inline int ck_cancel_disable(void)
{
	int was;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &was);
	return was;
}

static inline void ck_cancel_restore(int was)
{
	pthread_setcancelstate(was, NULL);
}

#endif
