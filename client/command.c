/*
 * client/command.c - the one ordered stream of one-way messages (D4), ONC RPC batching.
 *
 * Threads append encoded messages to one buffer under a short lock; whoever finds nobody
 * writing writes, and goes on until the buffer is empty. While one thread writes, the others
 * fill the second buffer: under load messages leave in large pieces, a lone message leaves at
 * once. In a storm of small messages the writing is left to a thread of our own, so that the
 * application's thread pays for the encoding only.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "client/client.h"
#include "client/command.h"
#include "client/managed.h"
#include "client/stats.h"
#include "rpc/proc.h"
#include "rpc/record.h"
#include "util/log.h"

CK_LOG_DEFINE("client");

#define BUFFER_SIZE (1u << 20)
#define INLINE_BULK (16u << 10)		/* payload up to this is copied into the buffer */
#define BULK_ROOM (64u << 10)		/* for a message with a payload: more than both need */
#define STORM_NS 20000			/* messages closer than this are a storm */
#define SPIN_NS 200000			/* the sender looks for more this long before it sleeps: */
#define SPIN_NS_FEW 20000		/* operators of a framework come every 5 to 50 us */

static struct {
	pthread_mutex_t lock;
	pthread_cond_t written;		/* the writer has finished a piece */
	pthread_cond_t work;		/* the sender is to write */
	struct ck_chan *chan;
	unsigned char *buf[2];
	_Atomic size_t len;		/* of the buffer being filled */
	int fill;
	bool writing;			/* somebody writes the other buffer */
	bool sender_sleeps;
	bool broken;
	uint64_t last_write_ns, spin_ns;
	_Atomic uint64_t seq;
} cmd = { .lock = PTHREAD_MUTEX_INITIALIZER, .written = PTHREAD_COND_INITIALIZER,
	  .work = PTHREAD_COND_INITIALIZER };

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* Write the filled buffer and @bulk behind it. Called with the lock and with nobody writing;
 * the lock is given up while the bytes go out. */
static void write_piece(const void *bulk, size_t bulk_size)
{
	static const unsigned char zero[4];
	struct iovec iov[3] = {
		{ cmd.buf[cmd.fill], cmd.len },
		{ (void *)(uintptr_t)bulk, bulk_size },
		{ (void *)(uintptr_t)zero, -bulk_size & 3 },
	};
	int ret;

	cmd.writing = true;
	cmd.fill ^= 1;
	cmd.len = 0;
	pthread_mutex_unlock(&cmd.lock);
	ret = ck_chan_writev(cmd.chan, iov, 3);
	pthread_mutex_lock(&cmd.lock);
	cmd.writing = false;
	cmd.last_write_ns = now_ns();
	pthread_cond_broadcast(&cmd.written);
	if (ret < 0 && !cmd.broken) {
		char why[96];

		cmd.broken = true;
		snprintf(why, sizeof(why), "sending: %s", strerror(-ret));
		ck_session_lost(why);
	}
}

static void write_all(void)
{
	while (cmd.len > 0 && !cmd.writing && !cmd.broken)
		write_piece(NULL, 0);
}

/* Wait for work without sleeping, for a while. Called without the lock. */
static void spin(void)
{
	uint64_t end = now_ns() + cmd.spin_ns;

	do {
		for (int i = 0; i < 64; i++) {
			if (atomic_load_explicit(&cmd.len, memory_order_relaxed) > 0)
				return;
			__builtin_ia32_pause();
		}
	} while (now_ns() < end);
}

static void *sender(void *arg)
{
	(void)arg;
	pthread_mutex_lock(&cmd.lock);
	while (!cmd.broken) {
		write_all();
		pthread_mutex_unlock(&cmd.lock);
		spin();
		pthread_mutex_lock(&cmd.lock);
		if (cmd.len > 0 && !cmd.writing)
			continue;	/* it may have come when spin had just given up */
		cmd.sender_sleeps = true;
		while (cmd.sender_sleeps && !cmd.broken)
			pthread_cond_wait(&cmd.work, &cmd.lock);
	}
	pthread_mutex_unlock(&cmd.lock);
	return NULL;
}

/* After an append: see to it that the bytes leave soon. Called with the lock. */
static void dispatch(void)
{
	if (cmd.writing || !cmd.sender_sleeps)
		return;			/* whoever writes, or the sender, will take it along */
	if (now_ns() - cmd.last_write_ns > STORM_NS) {
		write_all();
		return;
	}
	cmd.sender_sleeps = false;
	pthread_cond_signal(&cmd.work);
}

/* Room for a message of unknown size is made by writing out; -ENOSPC only if it can never fit. */
static int append(uint32_t proc, ck_head *head, size_t bulk_size)
{
	const struct ck_proc *p = &ck_procs[proc];

	for (;;) {
		size_t len = cmd.len;
		long n;

		head->seq = cmd.seq + 1;	/* others may have come in while we waited */
		n = ck_call_encode(cmd.buf[cmd.fill] + len, BUFFER_SIZE - len, (uint32_t)head->seq,
				   proc, p->xdr_args, head, bulk_size);

		if (n >= 0) {
			atomic_store_explicit(&cmd.len, len + (size_t)n, memory_order_relaxed);
			return 0;
		}
		if (n != -ENOSPC || cmd.broken || (len == 0 && !cmd.writing))
			return (int)n;
		if (cmd.writing)
			pthread_cond_wait(&cmd.written, &cmd.lock);
		else
			write_piece(NULL, 0);
	}
}

/* Room for a message and a small payload; for a large one also the writer's role, because the
 * payload must directly follow its message. Then nothing lets go of the lock in between. */
static void prepare_bulk(size_t size)
{
	while (!cmd.broken) {
		if (cmd.writing && (size > INLINE_BULK || BUFFER_SIZE - cmd.len < BULK_ROOM))
			pthread_cond_wait(&cmd.written, &cmd.lock);
		else if (BUFFER_SIZE - cmd.len < BULK_ROOM)
			write_piece(NULL, 0);
		else
			return;
	}
}

/* The payload of the message just appended: copied if small, else written from where it is. */
static void append_bulk(const void *bulk, size_t size)
{
	size_t len = cmd.len, padded = (size + 3) & ~(size_t)3;

	if (size > INLINE_BULK) {
		write_piece(bulk, size);
		return;
	}
	memcpy(cmd.buf[cmd.fill] + len, bulk, size);
	memset(cmd.buf[cmd.fill] + len + size, 0, padded - size);
	cmd.len = len + padded;
}

CUresult ck_send(uint32_t proc, void *args, const void *bulk, size_t bulk_size)
{
	ck_head *head = args;
	int ret;

	if (unlikely(ck_client.state == CK_STATE_LOST))
		return CUDA_ERROR_DEVICE_UNAVAILABLE;
	bulk = ck_managed_host(bulk, bulk_size, false);
	pthread_mutex_lock(&cmd.lock);
	if (bulk_size > 0)
		prepare_bulk(bulk_size);
	ret = cmd.broken ? -EPIPE : append(proc, head, bulk_size);
	if (ret == 0) {
		cmd.seq = head->seq;
		if (bulk_size > 0)
			append_bulk(bulk, bulk_size);
	}
	dispatch();	/* refused or not: others' messages may wait for what we wrote to end */
	pthread_mutex_unlock(&cmd.lock);
	if (unlikely(ck_stats_on))
		ck_stats_sent(proc, CK_CALL_HEADER + ck_procs[proc].args_size + bulk_size);
	if (unlikely(ck_trace_on))
		ck_trace_message(proc, args, NULL, CUDA_SUCCESS);
	if (ret == -ENOSPC || ret == -EINVAL)
		return CUDA_ERROR_INVALID_VALUE;
	return ret < 0 ? CUDA_ERROR_DEVICE_UNAVAILABLE : CUDA_SUCCESS;
}

uint64_t ck_command_last(void)
{
	return atomic_load(&cmd.seq);
}

void ck_command_flush(void)
{
	if (atomic_load_explicit(&cmd.len, memory_order_acquire) == 0)
		return;			/* whatever is being written is on its way */
	pthread_mutex_lock(&cmd.lock);
	write_all();
	pthread_mutex_unlock(&cmd.lock);
}

int ck_command_start(struct ck_chan *chan)
{
	int ret;

	for (int i = 0; i < 2; i++) {
		cmd.buf[i] = malloc(BUFFER_SIZE);
		if (!cmd.buf[i])
			return -ENOMEM;
	}
	cmd.chan = chan;
	cmd.spin_ns = sysconf(_SC_NPROCESSORS_ONLN) >= 4 ? SPIN_NS : SPIN_NS_FEW;
	ret = ck_thread_start(sender, NULL);
	if (ret < 0)
		ck_err("no thread for the command stream: %s", strerror(-ret));
	return ret;
}

void ck_command_stop(void)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += 1;	/* a thread may be stuck in a write to a server that is stuck */
	if (pthread_mutex_timedlock(&cmd.lock, &until) != 0)
		return;
	if (cmd.chan) {
		ck_chan_timeout(cmd.chan, 1000);
		write_all();
	}
	pthread_mutex_unlock(&cmd.lock);
}

void ck_command_abandon(void)
{
	if (cmd.chan)
		ck_chan_shutdown(cmd.chan);
}

void ck_command_forked(void)
{
	if (cmd.chan)
		close(ck_chan_fd(cmd.chan));
}

void ck_command_forget(void)
{
	if (cmd.chan)
		ck_chan_close(cmd.chan);
	free(cmd.buf[0]);
	free(cmd.buf[1]);
	memset(&cmd, 0, sizeof(cmd));
	pthread_mutex_init(&cmd.lock, NULL);
	pthread_cond_init(&cmd.written, NULL);
	pthread_cond_init(&cmd.work, NULL);
}
