/*
 * client/wire/command.c - the one ordered stream of one-way messages (D4), ONC RPC batching.
 *
 * Threads append encoded messages to one buffer under a short lock; whoever finds nobody
 * writing writes, and goes on until the buffer is empty. While one thread writes, the others
 * fill the second buffer: under load messages leave in large pieces, a lone message leaves at
 * once. In a storm of small messages the writing is left to a thread of our own, so that the
 * application's thread pays for the encoding only.
 *
 * In shared memory none of this is needed: a message goes straight into it, and the server sees it.
 */
#define _GNU_SOURCE
#include <endian.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "client/wire/client.h"
#include "client/wire/command.h"
#include "client/wire/hooks.h"
#include "client/wire/stats.h"
#include "rpc/fields.h"
#include "rpc/proc.h"
#include "rpc/record.h"
#include "util/cancel.h"
#include "util/log.h"
#include "util/spin.h"
#include "util/until.h"

CK_LOG_DEFINE("client");

#define BUFFER_SIZE (CK_RECORD_MAX + 4)	/* the longest message fits, with its mark */
#define INLINE_BULK (16u << 10)		/* payload up to this is copied into the buffer */
#define SMALL 8192			/* messages that need no memory of their own: launches too */
#define STORM_NS 20000			/* messages closer than this are a storm */
#define SPIN_US 200			/* the sender looks for more before it sleeps: operators of
					 * a framework come every 5 to 50 us */
#define ROOM_SPIN_US 20			/* for room in shared memory, which is large */

/* One message; the payload is the caller's. */
struct message {
	unsigned char *bytes;
	size_t size;
	const void *bulk;
	size_t bulk_size;
};

static const unsigned char zero[4]; /* what pads payloads */

static struct {
	pthread_mutex_t lock;
	pthread_cond_t written;		/* the writer has finished a piece */
	pthread_cond_t work;		/* the sender is to write */
	struct ck_chan *chan;
	bool shared;			/* it is in shared memory: what follows is not used */
	unsigned char *buf[2];
	_Atomic size_t len;		/* of the buffer being filled */
	int fill;
	bool writing;			/* somebody writes the other buffer */
	bool sender_sleeps;
	bool broken;
	uint64_t last_write_ns;
	struct ck_spin spin;
	_Atomic uint64_t seq;
	_Atomic uint64_t calls;		/* that have enqueued work */
} cmd = { .lock = PTHREAD_MUTEX_INITIALIZER, .written = PTHREAD_COND_INITIALIZER,
	  .work = PTHREAD_COND_INITIALIZER };

/* This thread has the lock or waits, as a handler of a signal that calls exit() must know: what is
 * held here stays held, and who waits on a condition holds up those that signal it. */
static __thread volatile bool inside __attribute__((tls_model("initial-exec")));

/* What writing has ended with: an error ends the session. */
static void note_result(int ret)
{
	char why[96];

	if (likely(ret == 0) || cmd.broken)
		return;
	cmd.broken = true;
	snprintf(why, sizeof(why), "sending: %s", strerror(-ret));
	ck_session_lost(why);
}

/* Give @m the next number: the call's, and its head's, which begins the arguments. */
static void number(struct message *m)
{
	uint64_t seq = cmd.seq + 1;
	uint64_t wide = htobe64(seq);
	uint32_t xid = htobe32((uint32_t)seq);

	memcpy(m->bytes + CK_CALL_XID, &xid, sizeof(xid));
	memcpy(m->bytes + CK_CALL_HEADER, &wide, sizeof(wide));
	atomic_store_explicit(&cmd.seq, seq, memory_order_release);
}

/* Write the filled buffer and @bulk behind it. Called with the lock and with nobody writing;
 * the lock is given up while the bytes go out. */
static void write_piece(const void *bulk, size_t bulk_size)
{
	struct iovec iov[3] = {
		{ cmd.buf[cmd.fill], cmd.len },
		{ (void *)(uintptr_t)bulk, bulk_size },
		{ (void *)(uintptr_t)zero, -bulk_size & 3 },
	};
	int ret, cancel = ck_cancel_disable();

	cmd.writing = true;
	cmd.fill ^= 1;
	cmd.len = 0;
	pthread_mutex_unlock(&cmd.lock);
	ret = ck_chan_writev(cmd.chan, iov, 3);
	pthread_mutex_lock(&cmd.lock);
	cmd.writing = false;
	cmd.last_write_ns = ck_now_ns();
	pthread_cond_broadcast(&cmd.written);
	note_result(ret);
	ck_cancel_restore(cancel);
}

static void write_all(void)
{
	while (cmd.len > 0 && !cmd.writing && !cmd.broken)
		write_piece(NULL, 0);
}

static void *sender(void *arg)
{
	(void)arg;
	pthread_mutex_lock(&cmd.lock);
	while (!cmd.broken) {
		struct ck_spin_turn turn = ck_spin_begin(&cmd.spin);

		write_all();
		pthread_mutex_unlock(&cmd.lock);
		while (atomic_load_explicit(&cmd.len, memory_order_relaxed) == 0 &&
		       ck_spin_again(&turn))
			;
		pthread_mutex_lock(&cmd.lock);
		if (cmd.len == 0 || cmd.writing) {
			cmd.sender_sleeps = true;
			while (cmd.sender_sleeps && !cmd.broken)
				pthread_cond_wait(&cmd.work, &cmd.lock);
		}
		ck_spin_end(&turn);
	}
	pthread_mutex_unlock(&cmd.lock);
	return NULL;
}

/* After an append: see to it that the bytes leave soon. Called with the lock. */
static void dispatch(void)
{
	if (cmd.writing || !cmd.sender_sleeps)
		return;			/* whoever writes, or the sender, will take it along */
	if (ck_now_ns() - cmd.last_write_ns > STORM_NS) {
		write_all();
		return;
	}
	cmd.sender_sleeps = false;
	pthread_cond_signal(&cmd.work);
}

/* Room for @size bytes in the buffer; for a payload that stays where it is also the writer's role,
 * because it must directly follow its message. Then nothing lets go of the lock in between. */
static void make_room(size_t size, bool write)
{
	int cancel;

	while (!cmd.broken) {
		bool full = BUFFER_SIZE - cmd.len < size;

		if (cmd.writing && (write || full)) {
			cancel = ck_cancel_disable();
			pthread_cond_wait(&cmd.written, &cmd.lock);
			ck_cancel_restore(cancel);
		} else if (full) {
			write_piece(NULL, 0);
		} else {
			return;
		}
	}
}

static void append(const void *bytes, size_t size)
{
	memcpy(cmd.buf[cmd.fill] + cmd.len, bytes, size);
	atomic_store_explicit(&cmd.len, cmd.len + size, memory_order_relaxed);
}

/* Put @m, an encoded message, into the buffer, and see to it that it leaves soon. */
static void send_buffered(struct message *m)
{
	bool write = m->bulk_size > INLINE_BULK;
	size_t pad = -m->bulk_size & 3;

	make_room(m->size + (write ? 0 : m->bulk_size + pad), write);
	if (cmd.broken)
		return;
	number(m);
	append(m->bytes, m->size);
	if (write) {
		write_piece(m->bulk, m->bulk_size);
	} else if (m->bulk_size > 0) {
		append(m->bulk, m->bulk_size);
		append(zero, pad);
	}
	dispatch();
}

/* Shared memory is the buffer: no other is needed, and nobody to write it out. */
static void send_shared(struct message *m)
{
	struct iovec iov[3] = {
		{ m->bytes, m->size },
		{ (void *)(uintptr_t)m->bulk, m->bulk_size },
		{ (void *)(uintptr_t)zero, -m->bulk_size & 3 },
	};

	if (cmd.broken)
		return;
	number(m);
	note_result(ck_chan_writev(cmd.chan, iov, m->bulk_size ? 3 : 1));
}

/* Encode outside the lock, with a number that is put in later; into @room, or memory of its own
 * where that does not do. */
static int encode(struct message *m, unsigned char room[SMALL], uint32_t proc, const void *args)
{
	long n = ck_message_encode(room, SMALL, 0, proc, args, m->bulk_size);

	m->bytes = room;
	if (n == -ENOSPC) {
		m->bytes = malloc(CK_RECORD_MAX + 4);
		if (!m->bytes)
			return -ENOMEM;
		n = ck_message_encode(m->bytes, CK_RECORD_MAX + 4, 0, proc, args, m->bulk_size);
	}
	m->size = n > 0 ? (size_t)n : 0;
	return n < 0 ? (int)n : 0;
}

/* The message goes out as the next one; false: the stream is broken. */
static bool send_next(struct message *m, ck_head *head)
{
	bool sent;

	inside = true;
	pthread_mutex_lock(&cmd.lock);
	if (cmd.shared)
		send_shared(m);
	else
		send_buffered(m);
	sent = !cmd.broken;
	head->seq = cmd.seq;
	pthread_mutex_unlock(&cmd.lock);
	inside = false;
	return sent;
}

CUresult ck_unsent(const struct ck_proc *p, int ret)
{
	if (ret == -ENOMEM)
		return CUDA_ERROR_OUT_OF_MEMORY;
	ck_info("%s: more than a message of %u KiB holds", p->name, CK_RECORD_MAX >> 10);
	return CUDA_ERROR_INVALID_VALUE;
}

CUresult ck_send(uint32_t proc, void *args, const void *bulk, size_t bulk_size)
{
	struct message m = { .bulk = ck_payload_reach(bulk, bulk_size, false),
			     .bulk_size = bulk_size };
	unsigned char room[SMALL];
	bool sent = false;
	int ret;

	if (unlikely(ck_client.state == CK_STATE_LOST || (bulk_size > 0 && !m.bulk)))
		return CUDA_ERROR_DEVICE_UNAVAILABLE;
	if (unlikely(!ck_session_offers(proc)))
		return ck_not_offered(proc);
	ret = encode(&m, room, proc, args);
	if (likely(ret == 0))
		sent = send_next(&m, args);
	if (unlikely(m.bytes != room))
		free(m.bytes);
	if (unlikely(ck_stats_on))
		ck_stats_sent(proc, CK_CALL_HEADER + ck_procs[proc].args_size + bulk_size);
	if (unlikely(ck_trace_on))
		ck_trace_message(proc, args, NULL, CUDA_SUCCESS);
	if (unlikely(ret < 0))
		return ck_unsent(&ck_procs[proc], ret);
	return sent ? CUDA_SUCCESS : CUDA_ERROR_DEVICE_UNAVAILABLE;
}

uint64_t ck_command_number(void)
{
	return atomic_load(&cmd.seq);
}

uint64_t ck_command_last(void)
{
	return atomic_load(&cmd.seq) + atomic_load(&cmd.calls);
}

void ck_command_called(void)
{
	atomic_fetch_add(&cmd.calls, 1);
}

void ck_command_flush(void)
{
	if (atomic_load_explicit(&cmd.len, memory_order_acquire) == 0)
		return;			/* whatever is being written is on its way */
	inside = true;
	pthread_mutex_lock(&cmd.lock);
	write_all();
	pthread_mutex_unlock(&cmd.lock);
	inside = false;
}

static void quiet(void *unused)
{
	(void)unused;
	ck_quiet();
}

int ck_command_start(struct ck_chan *chan)
{
	int ret;

	cmd.chan = chan;
	ck_chan_on_quiet(chan, quiet, NULL);
	cmd.shared = ck_chan_in_rings(chan);
	if (cmd.shared) {
		ck_chan_spin(chan, ROOM_SPIN_US);
		return 0;
	}
	for (int i = 0; i < 2; i++) {
		cmd.buf[i] = malloc(BUFFER_SIZE);
		if (!cmd.buf[i])
			return -ENOMEM;
	}
	ck_spin_init(&cmd.spin, SPIN_US);
	ret = ck_thread_start(sender, NULL);
	if (ret < 0)
		ck_err("no thread for the command stream: %s", strerror(-ret));
	return ret;
}

bool ck_command_over(void)
{
	return !cmd.chan || ck_chan_peer_gone(cmd.chan);
}

bool ck_command_stop(void)
{
	struct timespec until;
	bool stuck;

	if (inside)
		return false;
	/* a thread may be stuck in a write to a server that is stuck */
	until = ck_until(CLOCK_REALTIME, 1000 * CK_NS_PER_MS);
	if (pthread_mutex_timedlock(&cmd.lock, &until) != 0)
		return false;
	while (cmd.writing && pthread_cond_timedwait(&cmd.written, &cmd.lock, &until) == 0)
		;
	if (cmd.chan) {
		ck_chan_timeout(cmd.chan, 1000);
		write_all();
	}
	stuck = cmd.writing;
	pthread_mutex_unlock(&cmd.lock);
	return !stuck;
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
