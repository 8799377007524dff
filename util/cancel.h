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

/* The same with @lock held in between: for what is held over calls at which a thread is cancelled, as close() is. */
static inline int ck_cancel_lock(pthread_mutex_t *lock)
{
	int was = ck_cancel_disable();

	pthread_mutex_lock(lock);
	return was;
}

static inline void ck_cancel_unlock(pthread_mutex_t *lock, int was)
{
	pthread_mutex_unlock(lock);
	ck_cancel_restore(was);
}

#endif
