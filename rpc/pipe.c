/*
 * rpc/pipe.c - see pipe.h.
 *
 * Sleeping and waking: a sleeper sets its flag and then checks the position again; the other end
 * changes its position and then checks the flag. All four accesses are sequentially consistent, so
 * at least one end sees the other: either the sleeper finds the change, or the waker finds the
 * sleeper. The flag is the futex word: odd while somebody sleeps. Each change increments it,
 * so that no value returns. A wake-up between the last check and the system call makes the call
 * return at once.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "rpc/pipe.h"
#include "util/util.h"

/* Wake a sleeping writer when this fraction is free, not for every few bytes. */
#define WAKE_PART 4

#ifndef CK_PIPE_RACE /* hook for a stress test that widens race windows */
#define CK_PIPE_RACE()
#endif

/* Make the word odd; returns its value. */
static uint32_t arm_sleep(_Atomic uint32_t *sleeps)
{
	return atomic_fetch_or(sleeps, 1) | 1;
}

/* Make it even; false: it was. */
static bool disarm_sleep(_Atomic uint32_t *sleeps)
{
	uint32_t word = atomic_load(sleeps);

	while (word & 1) {
		if (atomic_compare_exchange_weak(sleeps, &word, word + 1))
			return true;
	}
	return false;
}

static void wake_sleepers(_Atomic uint32_t *sleeps)
{
	if (disarm_sleep(sleeps))
		syscall(SYS_futex, sleeps, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static void sleep_on(_Atomic uint32_t *sleeps, uint32_t word, int timeout_ms)
{
	struct timespec limit = {timeout_ms / 1000, timeout_ms % 1000 * 1000000L};

	CK_PIPE_RACE();
	syscall(SYS_futex, sleeps, FUTEX_WAIT, word, &limit, NULL, 0);
}

long ck_pipe_filled(struct ck_pipe *pipe)
{
	if (pipe->other == pipe->at) {
		pipe->other = atomic_load(&pipe->control->written);
		if (pipe->other - pipe->at > pipe->size) {
			pipe->other = pipe->at;
			return -EPROTO;
		}
	}
	return (long)(pipe->other - pipe->at);
}

void ck_pipe_take(struct ck_pipe *pipe, void *to, size_t size)
{
	memcpy(to, pipe->data + (pipe->at & (pipe->size - 1)), size);
	pipe->at += size;
	atomic_store(&pipe->control->taken, pipe->at);
	CK_PIPE_RACE();
	/* A reader sleeps only when the pipe is empty, so a sleeping writer is always woken. */
	if ((atomic_load(&pipe->control->writer_sleeps) & 1) != 0 &&
	    (pipe->other == pipe->at ||
	     pipe->other - pipe->at <= pipe->size - pipe->size / WAKE_PART))
		wake_sleepers(&pipe->control->writer_sleeps);
}

long ck_pipe_room(struct ck_pipe *pipe)
{
	uint64_t room = pipe->size - (pipe->at - pipe->other);

	if (room < pipe->size / 2) {
		uint64_t taken = atomic_load(&pipe->control->taken);

		/* taken must be between the last known and the published value */
		if (pipe->at - taken > pipe->at - pipe->other)
			return -EPROTO;
		pipe->other = taken;
		room = pipe->size - (pipe->at - taken);
	}
	return (long)room;
}

void ck_pipe_put(struct ck_pipe *pipe, const void *from, size_t size)
{
	memcpy(pipe->data + (pipe->at & (pipe->size - 1)), from, size);
	pipe->at += size;
}

bool ck_pipe_publish(struct ck_pipe *pipe)
{
	atomic_store(&pipe->control->written, pipe->at);
	CK_PIPE_RACE();
	if (likely((atomic_load(&pipe->control->reader_sleeps) & 1) == 0))
		return false;
	wake_sleepers(&pipe->control->reader_sleeps);
	return true;
}

int ck_pipe_sleep_filled(struct ck_pipe *pipe, int timeout_ms)
{
	uint32_t word = arm_sleep(&pipe->control->reader_sleeps);
	long filled;

	CK_PIPE_RACE();
	filled = ck_pipe_filled(pipe);
	if (filled == 0)
		sleep_on(&pipe->control->reader_sleeps, word, timeout_ms);
	disarm_sleep(&pipe->control->reader_sleeps);
	return filled < 0 ? (int)filled : 0;
}

int ck_pipe_sleep_room(struct ck_pipe *pipe, int timeout_ms)
{
	uint32_t word = arm_sleep(&pipe->control->writer_sleeps);
	long room;

	CK_PIPE_RACE();
	room = ck_pipe_room(pipe);
	if (room == 0)
		sleep_on(&pipe->control->writer_sleeps, word, timeout_ms);
	disarm_sleep(&pipe->control->writer_sleeps);
	return room < 0 ? (int)room : 0;
}

void ck_pipe_wake(struct ck_pipe *pipe)
{
	wake_sleepers(&pipe->control->reader_sleeps);
	wake_sleepers(&pipe->control->writer_sleeps);
}

bool ck_pipe_holds(const struct ck_pipe *pipe)
{
	return atomic_load(&pipe->control->written) != atomic_load(&pipe->control->taken);
}

void ck_pipe_arm(struct ck_pipe *pipe)
{
	arm_sleep(&pipe->control->reader_sleeps);
}

void ck_pipe_disarm(struct ck_pipe *pipe)
{
	disarm_sleep(&pipe->control->reader_sleeps);
}

uint32_t ck_pipe_mark(const struct ck_pipe *pipe)
{
	return atomic_load(&pipe->control->reader_sleeps);
}

void ck_pipe_sleep_until(struct ck_pipe *pipe, uint32_t mark, int timeout_ms)
{
	sleep_on(&pipe->control->reader_sleeps, mark, timeout_ms);
}
