/*
 * client/wire/command.c - the one ordered stream of one-way messages (D4), ONC RPC batching.
 *
 * Threads append encoded messages to a buffer under a short lock. If no other thread is writing,
 * the thread writes the buffer out, and continues until it is empty. Meanwhile the others fill the
 * second buffer. So under load, messages leave in large pieces; a single message leaves at once. In
 * a burst of small messages, a client thread does the writing, and the application's thread pays
 * only for encoding.
 *
 * In shared memory none of this is needed: the message is placed where the server sees it.
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
#include "client/wire/profile.h"
#include "client/wire/progress.h"
#include "client/wire/servers.h"
#include "client/wire/stats.h"
#include "rpc/fields.h"
#include "rpc/proc.h"
#include "rpc/record.h"
#include "util/cancel.h"
#include "util/log.h"
#include "util/spin.h"
#include "util/until.h"

CK_LOG_DEFINE("client");

#define BUFFER_SIZE (CK_RECORD_MAX + 4) /* the longest message fits, with its mark */
#define INLINE_BULK (16u << 10)		/* payload up to this is copied into the buffer */
#define STOP_MS 1000			/* for the last bytes at exit */
#define SMALL 8192			/* larger messages need an allocation */
#define STORM_NS 20000			/* messages closer than this form a burst */
#define SPIN_US                                                                                    \
	200		/* before the sender sleeps: operators of a framework come
					 * every 5 to 50 us */
#define ROOM_SPIN_US 20 /* for room in shared memory, which is large */

/* One message; the payload is the caller's. */
struct message {
	unsigned char *bytes;
	size_t size;
	const void *bulk;
	size_t bulk_size;
	bool quiet; /* see rpc/proc.h */
};

static const unsigned char zero[4]; /* padding of payloads */

/* This thread holds the lock or waits. The handler of a signal that calls exit() must know: a lock
 * held here stays held, and a waiter on a condition delays the thread that signals it. */
static __thread volatile bool inside __attribute__((tls_model("initial-exec")));

static bool decode_reply(const struct ck_record *record)
{
	ck_join_res res = {.status = 1};
	uint32_t xid, low, high;
	size_t offset;
	XDR xdrs;

	if (ck_reply_decode(record->body, record->body_size, &xid, &offset, &low, &high) < 0)
		return false;
	xdrmem_create(&xdrs, (char *)(uintptr_t)record->body + offset,
		      (u_int)(record->body_size - offset), XDR_DECODE);
	return xdr_ck_join_res(&xdrs, &res) && res.status == 0;
}

static bool read_reply(struct ck_chan *chan)
{
	struct ck_reader *reader;
	struct ck_record record;
	bool yes;

	if (ck_reader_create(chan, &reader) < 0)
		return false;
	ck_chan_timeout(chan, STOP_MS);
	yes = ck_reader_next(reader, &record) == 0 && decode_reply(&record);
	ck_chan_timeout(chan, 0);
	ck_reader_destroy(reader);
	return yes;
}

/* Has the server accepted the connection? The reply to the join is read only when that matters. */
static bool accepted(struct ckc_command *cmd)
{
	if (!cmd->accepted)
		cmd->accepted = read_reply(cmd->chan);
	return cmd->accepted;
}

/* Note the result of a write: an error ends the session. */
static void note_result(struct ckc_client *c, int ret)
{
	struct ckc_command *cmd = &c->command;
	char why[96];

	if (likely(ret == 0) || cmd->broken)
		return;
	cmd->broken = true;
	snprintf(why, sizeof(why), "%s: %s",
		 accepted(cmd) ? "sending" : "it does not accept the command stream",
		 strerror(-ret));
	ckc_session_lost(c, why);
}

/* Give @m the next number, in the xid and in the head that begins the arguments. Call with the lock
 * held. */
static void number(struct ckc_command *cmd, struct message *m)
{
	uint64_t seq = cmd->seq + 1;
	uint64_t wide = htobe64(seq);
	uint32_t xid = htobe32((uint32_t)seq);

	memcpy(m->bytes + CK_CALL_XID, &xid, sizeof(xid));
	memcpy(m->bytes + CK_CALL_HEADER, &wide, sizeof(wide));
	if (!m->quiet) /* before others can see its number */
		atomic_store_explicit(&cmd->loud, seq + atomic_load(&cmd->calls),
				      memory_order_relaxed);
	atomic_store_explicit(&cmd->seq, seq, memory_order_release);
}

/* Write the filled buffer, then @bulk. Call with the lock held and no writer active; the lock is
 * released during the write. */
static void write_piece(struct ckc_client *c, const void *bulk, size_t bulk_size)
{
	struct ckc_command *cmd = &c->command;
	struct iovec iov[3] = {
		{cmd->buf[cmd->fill], cmd->len},
		{(void *)(uintptr_t)bulk, bulk_size},
		{(void *)(uintptr_t)zero, -bulk_size & 3},
	};
	int ret, cancel = ck_cancel_disable();

	cmd->writing = true;
	cmd->fill ^= 1;
	cmd->len = 0;
	ck_unlock(&cmd->lock);
	ret = ck_chan_writev(cmd->chan, iov, 3);
	ck_lock(&cmd->lock);
	cmd->writing = false;
	cmd->last_write_ns = ck_now_ns();
	pthread_cond_broadcast(&cmd->written);
	note_result(c, ret);
	ck_cancel_restore(cancel);
}

static void write_all(struct ckc_client *c)
{
	struct ckc_command *cmd = &c->command;

	while (cmd->len > 0 && !cmd->writing && !cmd->broken)
		write_piece(c, NULL, 0);
}

static void *sender(void *client)
{
	struct ckc_client *c = client;
	struct ckc_command *cmd = &c->command;

	ckc_route_serve(c);
	ck_lock(&cmd->lock);
	while (!cmd->broken) {
		struct ck_spin_turn turn = ck_spin_begin(&cmd->spin);

		write_all(c);
		ck_unlock(&cmd->lock);
		while (atomic_load_explicit(&cmd->len, memory_order_relaxed) == 0 &&
		       ck_spin_again(&turn))
			;
		ck_lock(&cmd->lock);
		if (cmd->len == 0 || cmd->writing) {
			cmd->sender_sleeps = true;
			while (cmd->sender_sleeps && !cmd->broken)
				ck_cond_wait(&cmd->work, &cmd->lock);
		}
		ck_spin_end(&turn);
	}
	ck_unlock(&cmd->lock);
	return NULL;
}

/* Called with the lock held after an append: arrange for the bytes to leave soon. */
static void dispatch(struct ckc_client *c)
{
	struct ckc_command *cmd = &c->command;

	if (cmd->writing || !cmd->sender_sleeps)
		return; /* the current writer or the sender will write it too */
	if (ck_now_ns() - cmd->last_write_ns > STORM_NS) {
		write_all(c);
		return;
	}
	cmd->sender_sleeps = false;
	pthread_cond_signal(&cmd->work);
}

/* Make room for @size bytes in the buffer. With @write, also become the writer, for a payload that
 * is not copied: it must directly follow its message. The lock is not released after that. */
static void make_room(struct ckc_client *c, size_t size, bool write)
{
	struct ckc_command *cmd = &c->command;
	int cancel;

	while (!cmd->broken) {
		bool full = BUFFER_SIZE - cmd->len < size;

		if (cmd->writing && (write || full)) {
			cancel = ck_cancel_disable();
			ck_cond_wait(&cmd->written, &cmd->lock);
			ck_cancel_restore(cancel);
		} else if (full) {
			write_piece(c, NULL, 0);
		} else {
			return;
		}
	}
}

static void append(struct ckc_command *cmd, const void *bytes, size_t size)
{
	memcpy(cmd->buf[cmd->fill] + cmd->len, bytes, size);
	atomic_store_explicit(&cmd->len, cmd->len + size, memory_order_relaxed);
}

/* Append the encoded message @m to the buffer, and arrange for it to leave soon. */
static void send_buffered(struct ckc_client *c, struct message *m)
{
	struct ckc_command *cmd = &c->command;
	bool write = m->bulk_size > INLINE_BULK;
	size_t pad = -m->bulk_size & 3;

	make_room(c, m->size + (write ? 0 : m->bulk_size + pad), write);
	if (cmd->broken)
		return;
	number(cmd, m);
	append(cmd, m->bytes, m->size);
	if (write) {
		write_piece(c, m->bulk, m->bulk_size);
	} else if (m->bulk_size > 0) {
		append(cmd, m->bulk, m->bulk_size);
		append(cmd, zero, pad);
	}
	dispatch(c);
}

/* Shared memory is the buffer: there is nothing to write out. */
static void send_shared(struct ckc_client *c, struct message *m)
{
	struct ckc_command *cmd = &c->command;
	struct iovec iov[3] = {
		{m->bytes, m->size},
		{(void *)(uintptr_t)m->bulk, m->bulk_size},
		{(void *)(uintptr_t)zero, -m->bulk_size & 3},
	};

	if (cmd->broken)
		return;
	number(cmd, m);
	note_result(c, ck_chan_writev(cmd->chan, iov, m->bulk_size ? 3 : 1));
}

/* Encode outside the lock; the number is filled in later. Uses @room, or allocates if the message
 * does not fit. */
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

/* Send the message next in order; false: the stream is broken. */
static bool send_next(struct ckc_client *c, struct message *m, ck_head *head)
{
	struct ckc_command *cmd = &c->command;
	bool sent;

	inside = true;
	ck_lock(&cmd->lock);
	if (cmd->shared)
		send_shared(c, m);
	else
		send_buffered(c, m);
	sent = !cmd->broken;
	head->seq = cmd->seq;
	ck_unlock(&cmd->lock);
	inside = false;
	return sent;
}

CUresult ckc_unsent(const struct ck_proc *p, int ret)
{
	if (ret == -ENOMEM)
		return CUDA_ERROR_OUT_OF_MEMORY;
	ck_info("%s: more than a message of %u KiB holds", p->name, CK_RECORD_MAX >> 10);
	return CUDA_ERROR_INVALID_VALUE;
}

static void note_profile(uint32_t proc, const ck_head *head, size_t bulk_size, uint64_t began)
{
	ckc_profile_end(&(struct ckc_message){
		.proc = proc,
		.id = head->seq,
		.began = began,
		.sent = CK_CALL_HEADER + ck_procs[proc].args_size + bulk_size,
	});
}

CUresult ckc_send(uint32_t proc, void *args, const void *bulk, size_t bulk_size)
{
	struct ckc_client *c = ckc_session_of(proc, args);
	struct message m = {.bulk = ckc_payload_reach(bulk, bulk_size, false),
			    .bulk_size = bulk_size,
			    .quiet = ck_procs[proc].quiet};
	uint64_t profiled = ckc_profile_begin();
	unsigned char room[SMALL];
	bool large = bulk_size >= CK_PROGRESS_LEAST, sent = false;
	uint64_t began = large ? ckc_stats_clock() : 0;
	int ret;

	if (unlikely(!c))
		return CUDA_ERROR_NOT_SUPPORTED;
	if (unlikely(c->state == CK_STATE_LOST || (bulk_size > 0 && !m.bulk)))
		return CUDA_ERROR_DEVICE_UNAVAILABLE;
	if (unlikely(!ckc_session_offers(c, proc)))
		return ckc_not_offered(c, proc);
	ret = encode(&m, room, proc, args);
	if (likely(ret == 0))
		sent = send_next(c, &m, args);
	if (unlikely(m.bytes != room))
		free(m.bytes);
	if (unlikely(large))
		ckc_progress_sent(bulk_size, began);
	if (unlikely(ckc_stats_on))
		ckc_stats_sent(proc, CK_CALL_HEADER + ck_procs[proc].args_size + bulk_size);
	if (unlikely(ckc_trace_on))
		ckc_trace_message(proc, args, NULL, CUDA_SUCCESS, 0, bulk_size);
	if (unlikely(profiled && sent))
		note_profile(proc, args, bulk_size, profiled);
	if (unlikely(ret < 0))
		return ckc_unsent(&ck_procs[proc], ret);
	return sent ? CUDA_SUCCESS : CUDA_ERROR_DEVICE_UNAVAILABLE;
}

uint64_t ckc_command_number(const struct ckc_client *c)
{
	return atomic_load(&c->command.seq);
}

uint64_t ckc_command_last(void)
{
	const struct ckc_command *cmd = &ckc_client_current()->command;

	return atomic_load(&cmd->seq) + atomic_load(&cmd->calls);
}

uint64_t ckc_command_loud(void)
{
	return atomic_load(&ckc_client_current()->command.loud);
}

void ckc_command_called(void)
{
	atomic_fetch_add(&ckc_client_current()->command.calls, 1);
}

void ckc_command_flush(struct ckc_client *c)
{
	struct ckc_command *cmd = &c->command;

	if (atomic_load_explicit(&cmd->len, memory_order_acquire) == 0)
		return; /* all bytes have left or are being written */
	inside = true;
	ck_lock(&cmd->lock);
	write_all(c);
	ck_unlock(&cmd->lock);
	inside = false;
}

static void quiet(void *client)
{
	ckc_quiet(client);
}

int ckc_command_start(struct ckc_client *c, struct ck_chan *chan, bool accepted)
{
	struct ckc_command *cmd = &c->command;
	int ret;

	cmd->chan = chan;
	cmd->accepted = accepted;
	ck_chan_on_quiet(chan, quiet, c);
	cmd->shared = ck_chan_in_rings(chan);
	if (cmd->shared) {
		ck_chan_spin(chan, ROOM_SPIN_US);
		return 0;
	}
	for (int i = 0; i < 2; i++) {
		cmd->buf[i] = malloc(BUFFER_SIZE);
		if (!cmd->buf[i])
			return -ENOMEM;
	}
	ck_spin_init(&cmd->spin, SPIN_US);
	ret = ckc_thread_start(sender, c);
	if (ret < 0)
		ck_err("no thread for the command stream: %s", strerror(-ret));
	return ret;
}

bool ckc_command_stop(struct ckc_client *c)
{
	struct ckc_command *cmd = &c->command;
	struct timespec until;
	bool stuck;

	if (inside)
		return false;
	/* a thread may be blocked in a write to a hung server */
	until = ck_until(CLOCK_REALTIME, STOP_MS * CK_NS_PER_MS);
	if (ck_lock_until(&cmd->lock, &until) != 0)
		return false;
	while (cmd->writing && ck_cond_timedwait(&cmd->written, &cmd->lock, &until) == 0)
		;
	if (cmd->chan) {
		ck_chan_timeout(cmd->chan, STOP_MS);
		write_all(c);
	}
	stuck = cmd->writing;
	/* a socket that closes with unread bytes takes back what it has sent */
	if (cmd->chan && !stuck && !cmd->broken)
		accepted(cmd);
	ck_unlock(&cmd->lock);
	return !stuck;
}

void ckc_command_abandon(struct ckc_client *c)
{
	if (c->command.chan)
		ck_chan_shutdown(c->command.chan);
}

void ckc_command_forked(struct ckc_client *c)
{
	if (c->command.chan)
		close(ck_chan_fd(c->command.chan));
}

void ckc_command_forget(struct ckc_client *c)
{
	struct ckc_command *cmd = &c->command;

	if (cmd->chan)
		ck_chan_close(cmd->chan);
	cmd->chan = NULL;
	for (int i = 0; i < 2; i++) {
		free(cmd->buf[i]);
		cmd->buf[i] = NULL;
	}
}
