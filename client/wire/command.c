/*
 * client/wire/command.c - the one ordered stream of one-way messages (D4), ONC RPC batching.
 *
 * Over a socket, messages go into a buffer, which one thread at a time writes out
 * (command_buffer.c). In shared memory no buffer is needed: the message is placed where the server
 * sees it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client/link/client.h"
#include "client/wire/command.h"
#include "client/wire/command_part.h"
#include "client/link/hooks.h"
#include "client/wire/profile.h"
#include "client/wire/progress.h"
#include "client/link/session_list.h"
#include "client/link/stats.h"
#include "rpc/fields.h"
#include "rpc/proc.h"
#include "rpc/record.h"
#include "util/log.h"
#include "util/until.h"

CK_LOG_DEFINE("client");

#define STOP_MS 1000	/* for the last bytes at exit */
#define SMALL 1536	/* larger messages need an allocation */
#define MEDIUM 8192	/* of this, or of the most */
#define ROOM_SPIN_US 20 /* for room in shared memory, which is large */

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
static bool stream_is_accepted(struct ckc_command *cmd)
{
	if (!cmd->accepted)
		cmd->accepted = read_reply(cmd->chan);
	return cmd->accepted;
}

/* A write has failed: the session ends. */
static void fail_session(struct ckc_client *c, int ret)
{
	struct ckc_command *cmd = &c->command;
	char why[96];

	if (cmd->broken)
		return;
	cmd->broken = true;
	snprintf(why, sizeof(why), "%s%s",
		 ret == -EBADF		   ? ""
		 : stream_is_accepted(cmd) ? "sending: "
					   : "it does not accept the command stream: ",
		 ckc_wire_error(ret));
	ckc_session_lost(c, why);
}

/* Shared memory is the buffer: there is nothing to write out. */
static void send_shared(struct ckc_client *c, struct ckc_outgoing *m)
{
	struct ckc_command *cmd = &c->command;
	struct iovec iov[3] = {
		{m->bytes, m->size},
		{(void *)(uintptr_t)m->bulk, m->bulk_size},
		{(void *)(uintptr_t)ckc_padding, -m->bulk_size & 3},
	};
	int ret;

	if (cmd->broken)
		return;
	ckc_command_give_number(cmd, m);
	ret = ck_chan_writev(cmd->chan, iov, m->bulk_size ? 3 : 1);
	if (unlikely(ret < 0))
		fail_session(c, ret);
}

/* Encode outside the lock; the number is filled in later. Uses @room, of SMALL bytes (NULL: out of
 * memory), or allocates if the message does not fit. */
static int encode_message(struct ckc_outgoing *m, unsigned char *room, uint32_t proc,
			  const void *args)
{
	static const size_t sizes[] = {MEDIUM, CK_RECORD_MAX + 4};
	long n;

	if (unlikely(!room))
		return -ENOMEM;
	n = ck_message_encode(room, SMALL, 0, proc, args, m->bulk_size);
	m->bytes = room;
	for (size_t i = 0; unlikely(n == -ENOSPC) && i < CK_ARRAY_SIZE(sizes); i++) {
		if (m->bytes != room)
			free(m->bytes);
		m->bytes = malloc(sizes[i]);
		if (!m->bytes)
			return -ENOMEM;
		n = ck_message_encode(m->bytes, sizes[i], 0, proc, args, m->bulk_size);
	}
	m->size = n > 0 ? (size_t)n : 0;
	return n < 0 ? (int)n : 0;
}

/* Send the message next in order; false: the stream is broken. */
static bool send_next(struct ckc_client *c, struct ckc_outgoing *m, ck_head *head)
{
	struct ckc_command *cmd = &c->command;
	bool sent, wake = false;

	inside = true;
	ck_lock(&cmd->lock);
	if (cmd->shared)
		send_shared(c, m);
	else
		wake = ckc_command_buffer(c, m);
	sent = !cmd->broken;
	head->seq = cmd->seq;
	ck_unlock(&cmd->lock);
	if (wake)
		ck_cond_signal(&cmd->work);
	inside = false;
	return sent;
}

CUresult ckc_unsent(const struct ck_proc *p, int ret)
{
	if (ret == -ENOMEM)
		return CUDA_ERROR_OUT_OF_MEMORY;
	ck_info("%s: does not fit into a message of %u KiB", p->name, CK_RECORD_MAX >> 10);
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
	const struct ckc_thread *t = ckc_thread();
	struct ckc_outgoing m = {.bulk = ckc_payload_reach(bulk, bulk_size, false),
				 .bulk_size = bulk_size,
				 .quiet = ck_procs[proc].quiet,
				 .legacy = !t || t->in_legacy};
	uint64_t profiled = ckc_profile_begin();
	unsigned char *room;
	bool large = bulk_size >= CK_PROGRESS_LEAST, sent = false;
	uint64_t began = large ? ck_now_ns() : 0;
	int ret;

	if (unlikely(!c))
		return CUDA_ERROR_NOT_SUPPORTED;
	if (unlikely(c->state == CK_STATE_LOST || (bulk_size > 0 && !m.bulk)))
		return CUDA_ERROR_DEVICE_UNAVAILABLE;
	if (unlikely(!ckc_session_offers(c, proc)))
		return ckc_not_offered(c, proc);
	room = ckc_room_take(SMALL);
	ret = encode_message(&m, room, proc, args);
	if (likely(ret == 0))
		sent = send_next(c, &m, args);
	if (unlikely(m.bytes != room))
		free(m.bytes);
	ckc_room_give(room);
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

uint64_t ckc_command_before(struct ckc_client *c)
{
	uint64_t seq;

	if (unlikely(ckc_aside))
		return ckc_thread()->aside_after;
	seq = ckc_command_number(c);
	ckc_command_flush(c);
	return seq;
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

	atomic_store_explicit(&cmd->burst, 0, memory_order_relaxed);
	if (atomic_load_explicit(&cmd->len, memory_order_acquire) == 0)
		return; /* all bytes have left or are being written */
	inside = true;
	ck_lock(&cmd->lock);
	ckc_command_write_all(c);
	ck_unlock(&cmd->lock);
	inside = false;
}

static void handle_quiet(void *client)
{
	ckc_quiet(client);
}

int ckc_command_start(struct ckc_client *c, struct ck_chan *chan, bool accepted)
{
	struct ckc_command *cmd = &c->command;

	cmd->chan = chan;
	cmd->accepted = accepted;
	ck_chan_on_quiet(chan, handle_quiet, c);
	cmd->shared = ck_chan_in_rings(chan);
	if (cmd->shared) {
		ck_chan_spin(chan, ROOM_SPIN_US);
		return 0;
	}
	return ckc_command_buffer_start(c, fail_session);
}

bool ckc_command_stop(struct ckc_client *c)
{
	struct ckc_command *cmd = &c->command;
	struct timespec until;
	bool stuck;

	if (inside)
		return false;
	/* a thread may be blocked in a write to a hung server */
	until = ck_until(STOP_MS * CK_NS_PER_MS);
	if (ck_lock_until(&cmd->lock, &until) != 0)
		return false;
	while (cmd->writing && ck_cond_timedwait(&cmd->written, &cmd->lock, &until) == 0)
		;
	if (cmd->chan) {
		ck_chan_timeout(cmd->chan, STOP_MS);
		ckc_command_write_all(c);
	}
	stuck = cmd->writing;
	/* a socket that closes with unread bytes discards the bytes that it has sent */
	if (cmd->chan && !stuck && !cmd->broken)
		stream_is_accepted(cmd);
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
		ck_chan_forked(c->command.chan);
}

void ckc_command_forget(struct ckc_client *c)
{
	struct ckc_command *cmd = &c->command;

	if (cmd->chan)
		ck_chan_close(cmd->chan);
	cmd->chan = NULL;
	ckc_command_buffer_free(c);
}
