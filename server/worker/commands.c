/*
 * server/worker/commands.c - see commands.h.
 *
 * The thread that holds `busy` reads the connection and carries out a command. The lane that polls
 * may take it; without such a lane, the command thread may. A lane that reads a command which may
 * wait for the device keeps it in `next`, for the command thread. The client may wait for what
 * another thread does meanwhile, so a lane that waited with its command could deadlock.
 *
 * The command thread sleeps while a lane polls, and the client need not wake it. A lane that polls
 * no longer arms the ring for the sleeper, and then looks once more: either it finds the client's
 * bytes and wakes the command thread, or the client finds the ring armed.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gen/handlers.h"
#include "rpc/pipe.h"
#include "server/memory/status.h"
#include "server/session/event_retime.h"
#include "server/worker/commands.h"
#include "util/log.h"
#include "util/util.h"

CK_LOG_DEFINE("server");

/* A busy client sends commands every few microseconds, except while it waits for the GPU: a step of
 * a model, after which the next step begins with a command. */
#define POLL_SPIN_US 10000
#define THREAD_SPIN_US 1000 /* of the command thread, when all lanes answer calls */
#define LEAVE_US 100	    /* a lane looks more often than that */
#define LOOK_MS 500	    /* until a sleeper notices the client's end */

struct cks_commands {
	struct ck_chan *chan;
	struct ck_reader *reader;
	struct ck_pipe *ring;
	struct ck_spin lane_spin, thread_spin;
	_Alignas(64) atomic_bool polled; /* by a lane */
	atomic_bool asleep;		 /* the command thread */
	_Atomic int error;		 /* of the connection, for the command thread */
	_Alignas(64) atomic_bool busy;
	/* written by the thread that holds busy */
	atomic_bool buffered; /* the reader holds bytes that have left the ring */
	atomic_bool left;     /* next is a command for the command thread */
	struct ck_record next;
	struct ck_call_header header;
};

/* --- one command */

static int read_next(struct cks_lane *l, struct ck_chan *chan, struct ck_reader *reader,
		     struct ck_record *record, struct ck_call_header *header)
{
	struct cks_session *s = l->session;
	const struct ck_proc *proc;
	uint64_t bytes;
	int ret = cks_lane_read(chan, reader, record, header);

	if (ret == -EPROTONOSUPPORT) {
		ck_warn("another version of RPC on the command connection");
		ret = -EPROTO;
	}
	if (ret < 0)
		return ret;
	proc = ck_proc(header->proc);
	if (header->program != CK_PROGRAM || header->version != CK_VERSION || !proc ||
	    !proc->one_way) {
		ck_warn("program %u version %u procedure %u on the command connection",
			header->program, header->version, header->proc);
		return -EPROTO;
	}
	/* only one thread at a time is here: no atomic addition is needed */
	bytes = atomic_load_explicit(&s->command_bytes, memory_order_relaxed);
	atomic_store_explicit(&s->command_bytes, bytes + record->total, memory_order_relaxed);
	cks_rate_limit_take(&s->pace, CK_WAY_IN, record->total);
	cks_rate_limit_wait(&s->pace, CK_WAY_IN);
	return 0;
}

/* Run the decoded command and count it. */
static int run_command(struct cks_lane *l, struct cks_request *q, const struct ck_proc *proc)
{
	const struct ck_head *head = l->args;
	struct cks_session *s = l->session;
	bool uses = !proc->driverless, waits;
	CUresult err;

	if (head->seq != atomic_load_explicit(&s->executed, memory_order_relaxed) + 1) {
		ck_warn("%s: command %llu after %llu", proc->name, (unsigned long long)head->seq,
			(unsigned long long)atomic_load(&s->executed));
		return -EPROTO;
	}
	waits = cks_stream_holds_enter(&s->holds, proc);
	if (likely(uses))
		cks_gate_enter(&s->gate, &l->pass);
	err = cks_lane_carry_out(l, q, proc, NULL);
	if (waits)
		cks_stream_holds_leave(&s->holds);
	if (likely(uses))
		cks_gate_leave(&l->pass);
	if (q->broken)
		return q->broken;
	cks_event_retime_command(&s->retime, proc);
	/* Log only the error that will be reported: in a broken context, every command fails. */
	if (err && cks_session_fail(s, err))
		ck_info("%s: %s", proc->name, cks_error_name(err));
	else if (err)
		ck_debug("%s: %s", proc->name, cks_error_name(err));
	cks_session_executed(s, head->seq);
	cks_session_mark_used(s);
	return 0;
}

static int carry_out(struct cks_lane *l, struct ck_chan *chan, struct ck_reader *reader,
		     const struct ck_record *record, const struct ck_call_header *header)
{
	const struct ck_proc *proc = ck_proc(header->proc);
	struct cks_request q = {.chan = chan, .reader = reader};
	int ret = cks_lane_decode(l, proc, record, header, &q);

	if (ret == 0) {
		ret = run_command(l, &q, proc);
	} else {
		ck_warn("%s: arguments that cannot be decoded", proc->name);
		ret = -EPROTO;
	}
	cks_lane_release(l, proc);
	if (ret == 0) /* or a lane would take the padding for the next command, and wait for it */
		ret = ck_reader_finish(reader);
	return ret;
}

/* --- taking turns */

static bool begin_turn(struct cks_commands *c)
{
	return !atomic_load_explicit(&c->busy, memory_order_relaxed) &&
	       !atomic_exchange(&c->busy, true);
}

static void end_turn(struct cks_commands *c)
{
	atomic_store_explicit(&c->buffered, ck_reader_holds(c->reader), memory_order_relaxed);
	atomic_store(&c->busy, false);
}

static bool has_commands(const struct cks_commands *c)
{
	return atomic_load_explicit(&c->buffered, memory_order_relaxed) || ck_pipe_holds(c->ring);
}

/* Is there something that the command thread has to do? */
static bool is_due(const struct cks_commands *c)
{
	return atomic_load(&c->left) || atomic_load(&c->error) ||
	       (!atomic_load(&c->polled) && has_commands(c));
}

static void wake_thread(struct cks_commands *c)
{
	if (atomic_load(&c->asleep)) {
		ck_pipe_arm(c->ring);
		ck_pipe_wake(c->ring);
	}
}

/* --- the command thread */

static void sleep_until_due(struct cks_commands *c)
{
	atomic_store(&c->asleep, true);
	if (!atomic_load(&c->polled))
		ck_pipe_arm(c->ring);
	for (;;) {
		uint32_t mark = ck_pipe_mark(c->ring);

		if (is_due(c) || ck_chan_peer_gone(c->chan))
			break;
		ck_pipe_sleep_until(c->ring, mark, LOOK_MS);
		if (!atomic_load(&c->polled))
			ck_pipe_arm(c->ring);
	}
	atomic_store(&c->asleep, false);
	ck_pipe_disarm(c->ring);
}

static void wait_until_due(struct cks_commands *c)
{
	struct ck_spin_turn turn = ck_spin_begin(&c->thread_spin);
	bool due;

	do {
		due = is_due(c);
	} while (!due && ck_spin_again(&turn));
	if (!due)
		sleep_until_due(c);
	ck_spin_end(&turn);
}

/* Carry out the next command, or the one that a lane has left. */
static int execute_next(struct cks_lane *l, struct cks_commands *c)
{
	int ret = atomic_load(&c->error);

	if (ret == 0 && !atomic_load(&c->left))
		ret = read_next(l, c->chan, c->reader, &c->next, &c->header);
	if (ret == 0)
		ret = carry_out(l, c->chan, c->reader, &c->next, &c->header);
	atomic_store(&c->left, false);
	return ret;
}

static int run_in_turns(struct cks_lane *l, struct cks_commands *c)
{
	int ret = 0;

	while (ret == 0) {
		wait_until_due(c);
		if (!begin_turn(c))
			continue;
		ret = execute_next(l, c);
		end_turn(c);
	}
	atomic_store(&c->error, ret);
	while (atomic_load(&c->polled)) /* the ring ends with the connection */
		usleep(LEAVE_US);
	return ret;
}

static struct cks_commands *create_commands(struct cks_lane *l)
{
	struct cks_commands *c = aligned_alloc(64, sizeof(*c));

	if (!c)
		return NULL;
	memset(c, 0, sizeof(*c));
	c->chan = l->chan;
	c->reader = l->reader;
	c->ring = ck_chan_ring(l->chan);
	ck_spin_init(&c->lane_spin, POLL_SPIN_US);
	ck_spin_init(&c->thread_spin, THREAD_SPIN_US);
	return c;
}

int cks_commands_run(struct cks_lane *l)
{
	struct cks_commands *c;
	struct ck_record record;
	struct ck_call_header header;
	int ret = 0;

	ck_chan_spin(l->chan, POLL_SPIN_US);
	if (ck_chan_ring(l->chan)) {
		c = create_commands(l);
		if (!c)
			return -ENOMEM;
		/* lanes use it as long as the process lives */
		atomic_store(&l->session->commands, c);
		return run_in_turns(l, c);
	}
	while (ret == 0) {
		ret = read_next(l, l->chan, l->reader, &record, &header);
		if (ret == 0)
			ret = carry_out(l, l->chan, l->reader, &record, &header);
	}
	return ret;
}

/* --- a lane */

/* Has a call come to the lane? */
static bool is_called(struct cks_lane *l)
{
	return ck_reader_holds(l->reader) || ck_pipe_holds(ck_chan_ring(l->chan));
}

/* Carry out the next command, or leave it. */
static int take_next(struct cks_lane *l, struct cks_commands *c)
{
	int ret = read_next(l, c->chan, c->reader, &c->next, &c->header);

	if (ret == 0 && ck_proc(c->header.proc)->light)
		return carry_out(l, c->chan, c->reader, &c->next, &c->header);
	if (ret == 0)
		atomic_store(&c->left, true);
	return ret;
}

/*
 * Carry out commands if there are any, up to command @seq, or until a call has come. False: there
 * are none, or it is another thread's turn.
 */
static bool execute_pending(struct cks_lane *l, struct cks_commands *c, uint64_t seq)
{
	int ret = 0;

	if (!has_commands(c) || atomic_load_explicit(&c->left, memory_order_relaxed) ||
	    !begin_turn(c))
		return false;
	/* another thread may have taken the command before this one's turn: reading would wait for
	 * the next one */
	if (has_commands(c) && !atomic_load(&c->left) && !atomic_load(&c->error)) {
		do {
			ret = take_next(l, c);
		} while (ret == 0 && !atomic_load_explicit(&c->left, memory_order_relaxed) &&
			 ck_reader_holds(c->reader) && !is_called(l) &&
			 atomic_load_explicit(&l->session->executed, memory_order_relaxed) < seq);
	}
	if (ret < 0)
		atomic_store(&c->error, ret);
	end_turn(c);
	if (is_due(c))
		wake_thread(c);
	return true;
}

static void stop_polling(struct cks_lane *l, struct cks_commands *c)
{
	l->polls = false;
	atomic_store(&c->polled, false);
	if (!atomic_load(&c->asleep))
		return;
	ck_pipe_arm(c->ring);
	if (is_due(c))
		ck_pipe_wake(c->ring);
}

static bool start_polling(struct cks_lane *l, struct cks_commands *c)
{
	if (atomic_load_explicit(&c->polled, memory_order_relaxed) || atomic_load(&c->error) ||
	    atomic_exchange(&c->polled, true))
		return false;
	if (atomic_load(&c->error)) {
		atomic_store(&c->polled, false);
		return false;
	}
	if (atomic_load(&c->asleep))
		ck_pipe_disarm(c->ring);
	l->polls = true;
	return true;
}

void cks_commands_poll(struct cks_lane *l, struct ck_spin_turn *turn)
{
	struct cks_commands *c = atomic_load(&l->session->commands);

	cks_status_wake(l->session);
	*turn = ck_spin_begin(&l->spin);
	if (!ck_chan_ring(l->chan))
		return;
	while (!is_called(l)) {
		if (c && l->ordered && !l->polls && start_polling(l, c))
			*turn = ck_spin_begin(&c->lane_spin);
		if (l->polls && unlikely(atomic_load_explicit(&c->error, memory_order_relaxed))) {
			stop_polling(l, c);
			break;
		}
		if (l->polls && execute_pending(l, c, UINT64_MAX)) {
			ck_spin_end(turn);
			*turn = ck_spin_begin(&c->lane_spin);
			continue;
		}
		if (l->polls && cks_gate_try(&l->session->gate, &l->pass)) {
			cks_status_report(l->session, false);
			cks_gate_leave(&l->pass);
		}
		if (!ck_spin_again(turn))
			break;
	}
	if (l->polls && !is_called(l))
		stop_polling(l, c);
}

void cks_commands_finish(struct cks_lane *l, uint64_t seq)
{
	struct cks_commands *c = atomic_load(&l->session->commands);

	if (!l->polls)
		return;
	while (atomic_load(&l->session->executed) < seq && execute_pending(l, c, seq))
		;
	stop_polling(l, c);
}
