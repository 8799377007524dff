/*
 * client/wire/command_buffer.c - the buffers of the command stream over a socket.
 *
 * Threads append encoded messages to a buffer under a short lock. If no other thread is writing,
 * the thread writes the buffer out, and continues until it is empty. Meanwhile the others fill the
 * second buffer. So under load, messages leave in large pieces; a single message leaves at once. In
 * a burst of small messages, a client thread does the writing, and the application's thread pays
 * only for encoding.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "client/link/client.h"
#include "client/wire/command_part.h"
#include "client/link/session_list.h"
#include "rpc/chan.h"
#include "rpc/record.h"
#include "util/cancel.h"
#include "util/log.h"
#include "util/spin.h"
#include "util/until.h"

CK_LOG_DEFINE("client");

#define BUFFER_SIZE (CK_RECORD_MAX + 4) /* the longest message fits, with its mark */
#define INLINE_BULK (16u << 10)		/* payload up to this is copied into the buffer */
#define STORM_NS 20000			/* messages closer than this form a burst, */
#define BURST 3				/* and more than these, without a wait between them */
/* Before the sender sleeps: operators of a framework come every 5 to 50 us. */
#define SPIN_US 200
/* Then it looks every LOOK_NS, also where spinning does not pay, until that long after a message:
 * a thread that sends meanwhile pays for encoding only. */
#define AWAKE_NS 1000000
#define LOOK_NS 20000

/* Write the filled buffer, then @bulk. Call with no writer active; the lock is released during the
 * write. */
static void write_piece(struct ckc_client *c, const void *bulk, size_t bulk_size)
{
	struct ckc_command *cmd = &c->command;
	struct iovec iov[3] = {
		{cmd->buf[cmd->fill], cmd->len},
		{(void *)(uintptr_t)bulk, bulk_size},
		{(void *)(uintptr_t)ckc_padding, -bulk_size & 3},
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
	ck_cond_broadcast(&cmd->written);
	if (unlikely(ret < 0))
		cmd->failed(c, ret);
	ck_cancel_restore(cancel);
}

void ckc_command_write_all(struct ckc_client *c)
{
	struct ckc_command *cmd = &c->command;

	while (cmd->len > 0 && !cmd->writing && !cmd->broken)
		write_piece(c, NULL, 0);
}

static bool has_work(const struct ckc_command *cmd)
{
	return cmd->broken || (cmd->len > 0 && !cmd->writing);
}

/* Take the lock when there are bytes, or when it does not pay to spin longer. The bytes appear
 * while their thread holds the lock: to wait for it would make that thread wake this one. */
static void spin_for_bytes(struct ckc_command *cmd, struct ck_spin_turn *turn)
{
	while (ck_spin_again(turn)) {
		if (atomic_load_explicit(&cmd->len, memory_order_relaxed) > 0 &&
		    ck_trylock(&cmd->lock) == 0)
			return;
	}
	ck_lock(&cmd->lock);
}

/* The sender waits, with the lock: it spins, then looks now and then, then sleeps until a thread
 * wakes it. */
static void await_bytes(struct ckc_command *cmd)
{
	struct ck_spin_turn turn = ck_spin_begin(&cmd->spin);
	uint64_t end = ck_now_ns() + AWAKE_NS;
	struct timespec until;

	ck_unlock(&cmd->lock);
	spin_for_bytes(cmd, &turn);
	while (!has_work(cmd) && ck_now_ns() < end) {
		until = ck_until(LOOK_NS);
		ck_cond_timedwait(&cmd->work, &cmd->lock, &until);
	}
	cmd->sender_sleeps = !has_work(cmd);
	while (cmd->sender_sleeps && !cmd->broken)
		ck_cond_wait(&cmd->work, &cmd->lock);
	ck_spin_end(&turn);
}

static void *run_sender(void *client)
{
	struct ckc_client *c = client;
	struct ckc_command *cmd = &c->command;

	ckc_route_serve(c);
	ck_lock(&cmd->lock);
	while (!cmd->broken) {
		ckc_command_write_all(c);
		await_bytes(cmd);
	}
	ck_unlock(&cmd->lock);
	return NULL;
}

/*
 * Called with the lock held after an append: arrange for the bytes to leave soon. True: the sender
 * has to be woken, which costs a thread as much as a write. So the thread of the program writes,
 * unless it sends more and more without a wait.
 */
static bool dispatch_bytes(struct ckc_client *c)
{
	struct ckc_command *cmd = &c->command;
	uint64_t pause;

	if (cmd->writing || !cmd->sender_sleeps)
		return false; /* the current writer or the sender will write it too */
	pause = ck_now_ns() - cmd->last_write_ns;
	if (pause > AWAKE_NS)
		cmd->burst = 0;
	if (pause > STORM_NS && atomic_fetch_add(&cmd->burst, 1) < BURST) {
		ckc_command_write_all(c);
		return false;
	}
	cmd->sender_sleeps = false;
	return true;
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

static void append_bytes(struct ckc_command *cmd, const void *bytes, size_t size)
{
	memcpy(cmd->buf[cmd->fill] + cmd->len, bytes, size);
	atomic_store_explicit(&cmd->len, cmd->len + size, memory_order_relaxed);
}

bool ckc_command_buffer(struct ckc_client *c, struct ckc_outgoing *m)
{
	struct ckc_command *cmd = &c->command;
	bool write = m->bulk_size > INLINE_BULK;
	size_t pad = -m->bulk_size & 3;

	make_room(c, m->size + (write ? 0 : m->bulk_size + pad), write);
	if (cmd->broken)
		return false;
	ckc_command_give_number(cmd, m);
	append_bytes(cmd, m->bytes, m->size);
	if (write) {
		write_piece(c, m->bulk, m->bulk_size);
	} else if (m->bulk_size > 0) {
		append_bytes(cmd, m->bulk, m->bulk_size);
		append_bytes(cmd, ckc_padding, pad);
	}
	return dispatch_bytes(c);
}

int ckc_command_buffer_start(struct ckc_client *c, void (*failed)(struct ckc_client *c, int ret))
{
	struct ckc_command *cmd = &c->command;

	cmd->failed = failed;
	for (int i = 0; i < 2; i++) {
		cmd->buf[i] = malloc(BUFFER_SIZE);
		if (!cmd->buf[i])
			return -ENOMEM;
	}
	ck_spin_init(&cmd->spin, SPIN_US);
	return ckc_thread_start(run_sender, c);
}

void ckc_command_buffer_free(struct ckc_client *c)
{
	for (int i = 0; i < 2; i++) {
		free(c->command.buf[i]);
		c->command.buf[i] = NULL;
	}
}
