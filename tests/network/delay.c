/*
 * tests/network/delay.c - a queue that releases each piece at its due time.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>

#include "tests/network/delay.h"
#include "util/cpu.h"
#include "util/until.h"
#include "util/wait.h"

#define NS_PER_S 1000000000
#define QUEUE_MAX (64u << 20) /* a queue with more bytes accepts no piece */

static struct timespec timespec_of(int64_t ns)
{
	return (struct timespec){.tv_sec = ns / NS_PER_S, .tv_nsec = ns % NS_PER_S};
}

void ck_delay_sleep(int64_t when)
{
	struct timespec ts = timespec_of(when);

	while (when > ck_delay_now() &&
	       clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) == EINTR)
		;
}

void ck_delay_init(struct ck_delay *q, int64_t late_ns)
{
	cpu_set_t cpus;

	pthread_mutex_init(&q->lock, NULL);
	q->end = &q->first;
	/* Polling the clock would take processor time from other threads if there are few
	 * processors. */
	if (sched_getaffinity(0, sizeof(cpus), &cpus) == 0 && CPU_COUNT(&cpus) >= CK_SPIN_CPUS)
		q->wake_ns = late_ns;
}

void ck_delay_destroy(struct ck_delay *q)
{
	struct ck_piece *p, *next;

	for (p = q->first; p; p = next) {
		next = p->next;
		free(p);
	}
	ck_cond_destroy(&q->changed);
	pthread_mutex_destroy(&q->lock);
}

void ck_delay_end(struct ck_delay *q, int error, int64_t due)
{
	pthread_mutex_lock(&q->lock);
	if (q->error == 0) {
		q->error = error;
		q->error_due = due;
	}
	ck_cond_broadcast(&q->changed);
	pthread_mutex_unlock(&q->lock);
}

void ck_delay_close(struct ck_delay *q)
{
	pthread_mutex_lock(&q->lock);
	q->closed = true;
	ck_cond_broadcast(&q->changed);
	pthread_mutex_unlock(&q->lock);
}

/* Wait for a change, at most until @deadline (-1: no limit). Call with the lock held.
 * -ETIMEDOUT. */
static int queue_wait(struct ck_delay *q, int64_t deadline)
{
	struct timespec ts = timespec_of(deadline);

	if (deadline < 0)
		ck_cond_wait_with(&q->changed, &q->lock);
	else if (ck_cond_timedwait_with(&q->changed, &q->lock, &ts) == ETIMEDOUT)
		return -ETIMEDOUT;
	return 0;
}

int ck_delay_put(struct ck_delay *q, struct ck_piece *p, int64_t deadline)
{
	int ret = 0;

	pthread_mutex_lock(&q->lock);
	while (ret == 0 && !q->closed && q->error == 0 && q->bytes > QUEUE_MAX)
		ret = queue_wait(q, deadline);
	if (q->closed)
		ret = -EPIPE;
	else if (q->error < 0)
		ret = q->error;
	if (ret == 0) {
		*q->end = p;
		q->end = &p->next;
		q->bytes += p->size;
		ck_cond_broadcast(&q->changed);
	}
	pthread_mutex_unlock(&q->lock);
	if (ret < 0)
		free(p);
	return ret;
}

struct ck_piece *ck_delay_first(struct ck_delay *q, int64_t deadline, int *error)
{
	for (;;) {
		int64_t due = q->first ? q->first->due : q->error_due, now = ck_delay_now();

		*error = q->closed ? -EPIPE : 0;
		if (q->closed)
			return NULL;
		if (!q->first && q->error == 0) {
			*error = queue_wait(q, deadline);
			if (*error < 0)
				return NULL;
		} else if (now >= due) {
			*error = q->first ? 0 : q->error;
			return q->first;
		} else if (due - now > q->wake_ns) {
			queue_wait(q, due - q->wake_ns);
		} else {
			pthread_mutex_unlock(&q->lock);
			while (ck_delay_now() < due)
				ck_cpu_relax();
			pthread_mutex_lock(&q->lock);
		}
	}
}

void ck_delay_drop(struct ck_delay *q)
{
	struct ck_piece *p = q->first;

	q->first = p->next;
	if (!q->first)
		q->end = &q->first;
	q->bytes -= p->size;
	ck_cond_broadcast(&q->changed);
}

struct ck_piece *ck_piece_new(size_t size)
{
	struct ck_piece *p = malloc(sizeof(*p) + size);

	if (p)
		*p = (struct ck_piece){.size = size};
	return p;
}

void ck_delay_left(struct ck_delay *q)
{
	q->idle = true;
	ck_cond_broadcast(&q->changed);
}

void ck_delay_await_left(struct ck_delay *q, int64_t deadline)
{
	pthread_mutex_lock(&q->lock);
	while (!q->idle && queue_wait(q, deadline) == 0)
		;
	pthread_mutex_unlock(&q->lock);
}
