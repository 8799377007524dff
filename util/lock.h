/*
 * util/lock.h - mutexes with a rank, which a checked build (SAN=1, TSAN=1) holds threads to.
 *
 * A thread may take a lock only while each lock that it holds has a lower rank. Two locks of one
 * rank are therefore never held together, and no lock is taken while a leaf, of the highest rank,
 * is held. The ranks of a folder are listed in one enumeration, outermost first
 * (client/link/locks.h). Unchecked builds only store the rank.
 */
#ifndef CK_UTIL_LOCK_H
#define CK_UTIL_LOCK_H

#include <pthread.h>
#include <time.h>

#include "util/cancel.h"
#include "util/wait.h"

#define CK_RANK_LEAF 63 /* no other lock is taken while it is held */

struct ck_mutex {
	pthread_mutex_t mutex;
	unsigned int rank; /* 1 to CK_RANK_LEAF */
};

#define CK_MUTEX(rank)                                                                             \
	{                                                                                          \
		PTHREAD_MUTEX_INITIALIZER, (rank)                                                  \
	}

#ifdef CK_CHECK_LOCKS
/* Abort if the thread holds a lock of the same or a higher rank. */
void ck_lock_check(const struct ck_mutex *m);
void ck_lock_note(const struct ck_mutex *m); /* the thread has it */
void ck_lock_drop(const struct ck_mutex *m); /* the thread gives it up */
#else
static inline void ck_lock_check(const struct ck_mutex *m)
{
	(void)m;
}

static inline void ck_lock_note(const struct ck_mutex *m)
{
	(void)m;
}

static inline void ck_lock_drop(const struct ck_mutex *m)
{
	(void)m;
}
#endif

/* Also for a lock that a fork has left in an unknown state; the rank stays. */
static inline void ck_mutex_renew(struct ck_mutex *m)
{
	pthread_mutex_init(&m->mutex, NULL);
}

static inline void ck_mutex_destroy(struct ck_mutex *m)
{
	pthread_mutex_destroy(&m->mutex);
}

static inline void ck_lock(struct ck_mutex *m)
{
	ck_lock_check(m);
	pthread_mutex_lock(&m->mutex);
	ck_lock_note(m);
}

/* 0 or an error number, as pthread_mutex_trylock. It cannot block, so the order does not matter. */
static inline int ck_trylock(struct ck_mutex *m)
{
	int ret = pthread_mutex_trylock(&m->mutex);

	if (ret == 0)
		ck_lock_note(m);
	return ret;
}

/* 0 or an error number: ETIMEDOUT from @until on, a time of ck_until. */
static inline int ck_lock_until(struct ck_mutex *m, const struct timespec *until)
{
	int ret = ck_mutex_lock_until(&m->mutex, until);

	if (ret == 0)
		ck_lock_note(m);
	return ret;
}

static inline void ck_unlock(struct ck_mutex *m)
{
	ck_lock_drop(m);
	pthread_mutex_unlock(&m->mutex);
}

static inline void ck_cond_wait(struct ck_cond *cond, struct ck_mutex *m)
{
	ck_cond_wait_with(cond, &m->mutex);
}

static inline int ck_cond_timedwait(struct ck_cond *cond, struct ck_mutex *m,
				    const struct timespec *until)
{
	return ck_cond_timedwait_with(cond, &m->mutex, until);
}

/* Lock, and the thread is not cancelled meanwhile: for a lock that is held over cancellation
 * points. */
static inline int ck_lock_uncancelled(struct ck_mutex *m)
{
	int was = ck_cancel_disable();

	ck_lock(m);
	return was;
}

static inline void ck_unlock_uncancelled(struct ck_mutex *m, int was)
{
	ck_unlock(m);
	ck_cancel_restore(was);
}

#endif
