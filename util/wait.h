/*
 * util/wait.h - condition variables, and timed waits for locks and semaphores.
 *
 * All times are of CLOCK_MONOTONIC (ck_until): a step of the clock neither shortens nor stretches a
 * wait. tools/check-waits refuses the functions of the C library that wait otherwise.
 */
#ifndef CK_UTIL_WAIT_H
#define CK_UTIL_WAIT_H

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>

/*
 * A condition variable. Zero bytes are one, so a static or zeroed object needs no initialisation.
 * All threads that wait for it use the same mutex.
 *
 * The first thread that waits makes the one of the C library, with the right clock. It holds the
 * mutex, so a thread that changes the condition later sees that; if it changed the condition
 * earlier, no thread waits yet.
 */
struct ck_cond {
	pthread_cond_t cond;
	atomic_bool made;
};

/* For the waits below. */
static inline pthread_cond_t *ck_cond_made(struct ck_cond *c)
{
	pthread_condattr_t clock;

	if (!atomic_load_explicit(&c->made, memory_order_relaxed)) {
		pthread_condattr_init(&clock);
		pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
		pthread_cond_init(&c->cond, &clock);
		pthread_condattr_destroy(&clock);
		atomic_store_explicit(&c->made, true, memory_order_release);
	}
	return &c->cond;
}

/* lock.h has the same two for its mutexes. */
static inline void ck_cond_wait_with(struct ck_cond *c, pthread_mutex_t *mutex)
{
	pthread_cond_wait(ck_cond_made(c), mutex);
}

/* 0, or ETIMEDOUT from @until on. */
static inline int ck_cond_timedwait_with(struct ck_cond *c, pthread_mutex_t *mutex,
					 const struct timespec *until)
{
	return pthread_cond_timedwait(ck_cond_made(c), mutex, until);
}

static inline void ck_cond_signal(struct ck_cond *c)
{
	if (atomic_load_explicit(&c->made, memory_order_acquire))
		pthread_cond_signal(&c->cond);
}

static inline void ck_cond_broadcast(struct ck_cond *c)
{
	if (atomic_load_explicit(&c->made, memory_order_acquire))
		pthread_cond_broadcast(&c->cond);
}

/* No thread waits, and none will. */
static inline void ck_cond_destroy(struct ck_cond *c)
{
	if (atomic_load_explicit(&c->made, memory_order_acquire))
		pthread_cond_destroy(&c->cond);
	atomic_store_explicit(&c->made, false, memory_order_relaxed);
}

/* 0, or an error number: ETIMEDOUT from @until on. */
int ck_mutex_lock_until(pthread_mutex_t *mutex, const struct timespec *until);

/* 0, or -1 with errno: ETIMEDOUT from @until on, EINTR. */
int ck_sem_wait_until(sem_t *sem, const struct timespec *until);

#endif
