/*
 * util/cancel.h - a thread of the program that is cancelled (pthread_cancel) while it is in one of our
 * functions goes on until it has left it: it may be in the middle of a message, or hold a lock.
 */
#ifndef CK_UTIL_CANCEL_H
#define CK_UTIL_CANCEL_H

#include <pthread.h>

/* From now on the thread is not cancelled; what ck_cancel_restore is to be given. */
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
