/*
 * server/life/suspend.c - the steps of a suspended session; see suspend.h.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/children/workers.h"
#include "server/helpers/checkpoint.h"
#include "server/life/suspend.h"
#include "server/options/options.h"
#include "server/processes/messages.h"
#include "server/processes/session_info.h"
#include "util/log.h"
#include "util/until.h"
#include "util/util.h"

CK_LOG_DEFINE("server");

#define CK_LATE_MS 5000 /* for the answer of a worker, beside its own wait */
/* Until a session that finds no room tries again, if it has not tried often: the others take no
 * memory while it tries. */
#define CK_AGAIN_MS 500
#define CK_OFTEN 4
#define CK_LATER_MS 5000 /* until one tries again that the driver refuses for another reason */
#define CK_ROOM_MS 100	 /* for others to return memory, and between two such times */
#define CK_SLOW_SHIFT 20 /* a worker moves at least 1 MiB in a millisecond */

struct cks_suspender *cks_suspender_create(const struct cks_options *options, const char *driver,
					   struct cks_workers *workers, struct cks_control *control)
{
	struct cks_suspender *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->driver = driver;
	p->wait_ms = (unsigned int)(options->limits.value[CK_LIMIT_PARK] * 1000);
	p->anywhere = options->resume_anywhere;
	p->workers = workers;
	p->control = control;
	cks_suspend_policy_init(&p->policy, options);
	return p;
}

void cks_suspender_destroy(struct cks_suspender *p)
{
	free(p);
}

const char *cks_suspension_name(const struct cks_suspension *s)
{
	static const char *const names[] = {
		[CK_RUNNING] = "running",	[CK_PARKING] = "suspending",
		[CK_MOVING_OUT] = "suspending", [CK_SUSPENDED] = "suspended",
		[CK_MOVING_IN] = "resuming",	[CK_RETURNING] = "resuming"};

	return s->state == CK_SUSPENDED && s->parked ? "parked" : names[s->state];
}

uint64_t cks_suspension_away(const struct cks_suspension *s)
{
	switch (s->state) {
	case CK_SUSPENDED:
	case CK_RETURNING:
		return s->parked ? s->away : s->bytes;
	case CK_MOVING_IN:
		return s->bytes;
	case CK_MOVING_OUT:
		return s->away;
	default:
		return 0;
	}
}

/* --- changes of state */

static void set_state(struct cks_session_info *s, int state)
{
	s->suspension.state = state;
	s->suspension.since = ck_now_ms();
}

static void send_reply(struct cks_suspender *p, struct cks_session_info *s, json_t *answer)
{
	if (s->suspension.asked)
		cks_control_answer(p->control, s->suspension.asker, answer);
	else
		json_decref(answer);
	s->suspension.asked = false;
}

static json_t *make_move_reply(const struct cks_session_info *s)
{
	const struct cks_suspension *u = &s->suspension;
	char name[CK_SESSION_NAME];

	return json_pack("{s:b, s:s, s:I, s:i, s:o*}", "ok", 1, "session",
			 cks_session_name(s, name), "memory", (json_int_t)u->bytes, "ms",
			 (int)u->ms, "device", u->device < 0 ? NULL : json_integer(u->device));
}

static void tell_others(const struct cks_suspender *p, const struct cks_session_info *s, char kind)
{
	struct cks_session_info *other = NULL;

	while ((other = cks_workers_next(p->workers, other)) != NULL) {
		if (other != s)
			cks_workers_send(other, kind);
	}
}

/* While @s returns, the others take no memory. How long does it wait for room, in ms? If it has
 * found none before, and none of the others has to leave for it, it waits for memory that they
 * return: they would take it again. */
static unsigned int hold_others(const struct cks_suspender *p, const struct cks_session_info *s)
{
	const struct cks_suspension *u = &s->suspension;
	bool waits = u->asked || (u->no_room > 0 && !cks_suspend_takes_turns(p, s));

	tell_others(p, s, CK_CONTROL_FREEZE);
	if (waits)
		tell_others(p, s, CK_CONTROL_PRESS);
	return waits ? CK_ROOM_MS : 0;
}

static void begin_run(struct cks_session_info *s)
{
	struct cks_suspension *u = &s->suspension;

	u->held = u->wanted = false;
	u->used = ck_now_ms();
	u->tried = u->parked = false;
	u->no_room = 0;
	u->bytes = u->away = 0;
	u->wish[0] = u->there[0] = '\0';
	set_state(s, CK_RUNNING);
	cks_suspend_begin_turn(s);
}

/* Its contexts are on the GPU: its worker brings its memory back, and opens the gate. */
static void begin_return(struct cks_suspender *p, struct cks_session_info *s)
{
	struct cks_suspension *u = &s->suspension;

	u->parked = true;
	u->wanted = true;
	u->said.kind = CK_NOTE_STANDBY;
	if (cks_workers_unpark(s, hold_others(p, s))) {
		u->state = CK_RETURNING;
		return;
	}
	tell_others(p, s, CK_CONTROL_THAW);
	u->state = CK_SUSPENDED;
	u->again = ck_now_ms() + CK_AGAIN_MS;
}

/* The session goes on, because it could not be suspended: @why. */
static void release_session(struct cks_suspender *p, struct cks_session_info *s, const char *why)
{
	struct cks_suspension *u = &s->suspension;
	char name[CK_SESSION_NAME];

	snprintf(u->why, sizeof(u->why), "%s", why);
	ck_info("session %s is not suspended: %s", cks_session_name(s, name), why);
	send_reply(p, s, cks_control_error("%s cannot be suspended: %s", name, why));
	if (u->parked) { /* it was before */
		u->state = CK_SUSPENDED;
		u->again = 0;
		return;
	}
	u->held = false;
	if (u->away > 0) {
		begin_return(p, s);
		return;
	}
	cks_workers_unpark(s, 0);
	begin_run(s);
}

/* All of it is back. */
static void finish_return(struct cks_suspender *p, struct cks_session_info *s)
{
	char name[CK_SESSION_NAME];

	ck_info("session %s goes on: %llu MiB moved back in %u ms", cks_session_name(s, name),
		(unsigned long long)s->suspension.bytes >> 20, s->suspension.ms);
	send_reply(p, s, make_move_reply(s));
	s->suspension.spared = 0;
	s->suspension.in_ms = ck_max(s->suspension.ms, 1u);
	begin_run(s);
}

static void move_session(struct cks_suspender *p, struct cks_session_info *s, bool out)
{
	struct cks_suspension *u = &s->suspension;
	uint32_t seat = 0;
	int account = cks_session_account(s, &seat);
	struct cks_checkpoint_move move = {
		.worker = s->pid,
		.out = out,
		.wait_ms = p->wait_ms,
		.bytes = u->bytes,
		.away = u->away_on,
		.need = &u->need,
		.gpus = {.there = u->there, .marks = s->gpus, .goal = u->wish},
		.allowed = cks_session_terms(s)->gpus,
		.anywhere = p->anywhere,
		.account = account,
		.seat = seat};
	pid_t pid;

	if (!out) /* before the helper looks whether there is room */
		move.wait_ms = hold_others(p, s);
	pid = cks_checkpoint_start(p->driver, &move, &u->answer);
	if (pid > 0) {
		u->mover = pid;
		u->state = out ? CK_MOVING_OUT : CK_MOVING_IN;
	} else if (out) {
		release_session(p, s, strerror((int)-pid));
	} else {
		tell_others(p, s, CK_CONTROL_THAW);
		u->again = ck_now_ms() + CK_AGAIN_MS;
	}
}

/* The driver cannot bring the session's state back, so it must not go on as if nothing had
 * happened. */
static void end_lost(struct cks_suspender *p, struct cks_session_info *s, const char *why)
{
	char name[CK_SESSION_NAME];

	ck_err("session %s is lost: %s", cks_session_name(s, name), why);
	send_reply(p, s, cks_control_error("%s is lost: %s", name, why));
	snprintf(s->cause, sizeof(s->cause), "its GPU memory could not be moved back");
	if (!cks_workers_send_line(s, "the driver could not move its memory back to the GPU", true))
		cks_workers_kill(s);
	set_state(s, CK_SUSPENDED);
	s->suspension.held = true;
}

/* --- steps */

/* The session has left the GPU, or what moves fast of it. */
static void finish_leave(struct cks_suspender *p, struct cks_session_info *s)
{
	struct cks_suspension *u = &s->suspension;
	char name[CK_SESSION_NAME];

	u->device = -1;
	u->spared = 0;
	u->out_ms = ck_max(u->ms, 1u);
	/* its thread has stopped to wait for memory, and asks again when it is back */
	u->memory_request = CK_NO_MEMORY_REQUEST;
	u->coming = false;
	set_state(s, CK_SUSPENDED);
	cks_suspend_left(p, s);
	ck_info("session %s is %s: %llu MiB moved out of GPU memory in %u ms",
		cks_session_name(s, name), cks_suspension_name(u),
		(unsigned long long)(u->parked ? u->away : u->bytes) >> 20, u->ms);
	send_reply(p, s, make_move_reply(s));
}

static int64_t late_parking(const struct cks_suspender *p, const struct cks_session_info *s)
{
	return s->suspension.since + p->wait_ms + CK_LATE_MS +
	       (int64_t)(s->memory >> CK_SLOW_SHIFT);
}

static void after_parking(struct cks_suspender *p, struct cks_session_info *s)
{
	struct cks_suspension *u = &s->suspension;

	if (u->said.kind == CK_NOTE_PARKED) {
		u->bytes = u->said.number;
		u->away = u->said.away;
		memcpy(u->away_on, u->said.away_on, sizeof(u->away_on));
		u->ms = u->said.move_ms;
		/* without memory that its worker can move, only the driver frees some */
		u->parked |= u->to_park && (u->away > 0 || u->bytes == 0 || s->mps);
		if (u->to_park && u->parked)
			finish_leave(p, s);
		else
			move_session(p, s, true);
	} else if (u->said.kind == CK_NOTE_BUSY) {
		u->said.text[CK_NOTE_TEXT - 1] = '\0';
		release_session(p, s, u->said.text);
	} else if (ck_now_ms() > late_parking(p, s)) {
		release_session(p, s, "its worker does not answer");
	}
}

static void after_moving_out(struct cks_suspender *p, struct cks_session_info *s)
{
	struct cks_checkpoint_answer a;

	cks_checkpoint_read(s->suspension.answer, &a);
	close(s->suspension.answer);
	if (a.status == CK_CHECKPOINT_LOST) {
		end_lost(p, s, a.why);
	} else if (a.status != CK_CHECKPOINT_DONE) {
		release_session(p, s, a.why);
	} else {
		s->suspension.need = a.need;
		s->suspension.parked = false;
		s->suspension.ms += a.ms;
		finish_leave(p, s);
	}
}

/* It stays suspended: there is no room for it, or the driver has another reason. */
static void keep_suspended(struct cks_suspender *p, struct cks_session_info *s,
			   const struct cks_checkpoint_answer *a)
{
	struct cks_suspension *u = &s->suspension;
	bool full = a->status == CK_CHECKPOINT_NO_ROOM || a->status == CK_CHECKPOINT_TOO_LATE;
	char name[CK_SESSION_NAME];

	cks_session_name(s, name);
	u->state = CK_SUSPENDED; /* since then */
	if (!full || !u->no_room)
		ck_info("session %s stays %s: %s", name, cks_suspension_name(u), a->why);
	if (full && !u->no_room)
		cks_suspend_line_up(p, s);
	if (full)
		p->pause = ck_now_ms() + CK_ROOM_MS;
	u->no_room = full ? u->no_room + 1 : 0;
	u->again = ck_now_ms() +
		   (full ? CK_AGAIN_MS * ck_min(u->no_room, (unsigned int)CK_OFTEN) : CK_LATER_MS);
	u->tried |= a->status == CK_CHECKPOINT_TOO_LATE;
	if (u->asked) /* whoever asked may ask again */
		u->held = u->was_held;
	if (u->wish[0]) /* not there, and the program may not need it yet */
		u->wanted = u->was_wanted;
	u->wish[0] = '\0';
	send_reply(p, s,
		   cks_control_error("%s stays %s: %s", name, cks_suspension_name(u), a->why));
}

/* It is on other GPUs from now on, or the same ones have other UUIDs: its worker has to know, and
 * so has the next way. */
static void note_place(struct cks_session_info *s, const struct cks_checkpoint_answer *a)
{
	char name[CK_SESSION_NAME];

	if (a->map.count == 0)
		return;
	if (!cks_workers_map(s, &a->map))
		ck_warn("the worker of %s cannot be told its GPU", cks_session_name(s, name));
	if (a->device >= 0) {
		s->moved = 1 + a->device;
		ck_info("session %s is on GPU %d", cks_session_name(s, name), a->device);
	}
}

static void after_moving_in(struct cks_suspender *p, struct cks_session_info *s)
{
	struct cks_suspension *u = &s->suspension;
	struct cks_checkpoint_answer a;

	cks_checkpoint_read(u->answer, &a);
	close(u->answer);
	if (a.status == CK_CHECKPOINT_DONE) {
		u->ms = a.ms;
		u->device = a.device;
		note_place(s, &a);
		if (u->away > 0) { /* the others still take no memory */
			begin_return(p, s);
			return;
		}
		cks_workers_unpark(s, 0);
		finish_return(p, s);
	} else if (a.status == CK_CHECKPOINT_LOST ||
		   (a.status == CK_CHECKPOINT_FAILED && u->tried)) {
		end_lost(p, s, a.why);
	} else {
		keep_suspended(p, s, &a);
	}
	tell_others(p, s, CK_CONTROL_THAW);
}

static void after_returning(struct cks_suspender *p, struct cks_session_info *s)
{
	struct cks_suspension *u = &s->suspension;
	struct cks_checkpoint_answer a = {.status = CK_CHECKPOINT_NO_ROOM};

	if (u->said.kind != CK_NOTE_RETURNED && u->said.kind != CK_NOTE_NO_ROOM &&
	    u->said.kind != CK_NOTE_LOST)
		return;
	tell_others(p, s, CK_CONTROL_THAW);
	u->said.text[CK_NOTE_TEXT - 1] = '\0';
	u->ms += u->said.move_ms;
	if (u->said.kind == CK_NOTE_RETURNED) {
		finish_return(p, s);
	} else if (u->said.kind == CK_NOTE_LOST) {
		end_lost(p, s, u->said.text);
	} else {
		snprintf(a.why, sizeof(a.why), "%s", u->said.text);
		keep_suspended(p, s, &a);
	}
}

/* It is where it was, or parked: its worker has not returned all of its memory. */
static void resume_session(struct cks_suspender *p, struct cks_session_info *s)
{
	s->suspension.ms = 0;
	s->suspension.device = -1;
	s->suspension.stuck = false;
	if (s->suspension.parked)
		begin_return(p, s);
	else
		move_session(p, s, false);
}

/* A worker that was late has parked, or cannot return. */
static void handle_late_note(struct cks_suspender *p, struct cks_session_info *s)
{
	struct cks_suspension *u = &s->suspension;

	if (u->said.kind == CK_NOTE_PARKED && u->said.away > 0) {
		u->bytes = u->said.number;
		u->away = u->said.away;
		begin_return(p, s);
	} else if (u->said.kind == CK_NOTE_PARKED) {
		cks_workers_unpark(s, 0);
	} else if (u->said.kind == CK_NOTE_NO_ROOM) {
		u->bytes = u->said.number;
		u->away = u->said.away;
		u->parked = u->wanted = true;
		set_state(s, CK_SUSPENDED);
	} else if (u->said.kind == CK_NOTE_LOST) {
		u->said.text[CK_NOTE_TEXT - 1] = '\0';
		end_lost(p, s, u->said.text);
	}
	u->said.kind = CK_NOTE_STANDBY;
}

static void advance_session(struct cks_suspender *p, struct cks_session_info *s)
{
	struct cks_suspension *u = &s->suspension;

	switch (u->state) {
	case CK_RUNNING:
		handle_late_note(p, s);
		break;
	case CK_PARKING:
		after_parking(p, s);
		break;
	case CK_MOVING_OUT:
		if (u->mover == 0)
			after_moving_out(p, s);
		break;
	case CK_MOVING_IN:
		if (u->mover == 0)
			after_moving_in(p, s);
		break;
	case CK_SUSPENDED:
		if (u->wanted && !u->held && ck_now_ms() >= cks_suspend_turn(p, s))
			resume_session(p, s);
		break;
	case CK_RETURNING:
		after_returning(p, s);
		break;
	}
}

/* When to look at the session again without being told; INT64_MAX: never. */
static int64_t next_look(const struct cks_suspender *p, const struct cks_session_info *s)
{
	const struct cks_suspension *u = &s->suspension;

	if (u->state == CK_PARKING)
		return late_parking(p, s) + 1;
	return u->state == CK_SUSPENDED && u->wanted && !u->held ? cks_suspend_turn(p, s)
								 : INT64_MAX;
}

/* Is the session where it stays until it, a command or the time changes that? */
static bool is_at_rest(const struct cks_suspension *u)
{
	return !u->memory_request && !u->coming && u->said.kind == CK_NOTE_STANDBY &&
	       (u->state == CK_RUNNING || (u->state == CK_SUSPENDED && !u->wanted));
}

/* Look at all sessions; the time of the next look. */
static int64_t look_at_all(struct cks_suspender *p)
{
	struct cks_session_info *s = NULL;
	bool rest = true;
	int64_t next;

	while ((s = cks_workers_next(p->workers, s)) != NULL)
		advance_session(p, s);
	next = cks_suspend_policy(p);
	while ((s = cks_workers_next(p->workers, s)) != NULL) {
		next = ck_min(next, ck_min(next_look(p, s), cks_suspend_notice(s)));
		rest &= is_at_rest(&s->suspension);
	}
	if (!rest)
		cks_workers_mark_changed(p->workers); /* again, after each event */
	return next;
}

void cks_suspender_run(struct cks_suspender *p, int *timeout_ms)
{
	if (cks_workers_take_changed(p->workers) || ck_now_ms() >= p->due)
		p->due = look_at_all(p);
	if (p->due < INT64_MAX)
		ck_poll_sooner(timeout_ms, ck_max(p->due - ck_now_ms(), (int64_t)0));
}

bool cks_suspender_busy(const struct cks_suspender *p)
{
	for (struct cks_session_info *s = NULL; (s = cks_workers_next(p->workers, s)) != NULL;) {
		if (s->suspension.state != CK_RUNNING && s->suspension.state != CK_SUSPENDED)
			return true;
	}
	return false;
}

bool cks_suspender_ended(struct cks_suspender *p, pid_t pid)
{
	struct cks_session_info *s = NULL;

	while ((s = cks_workers_next(p->workers, s)) != NULL) {
		struct cks_suspension *u = &s->suspension;
		bool moves = u->state == CK_MOVING_OUT || u->state == CK_MOVING_IN;

		if (moves && u->mover == pid) {
			u->mover = 0;
			cks_workers_mark_changed(p->workers);
			return true;
		}
		if (cks_session_child(s) != pid)
			continue;
		if (moves || u->state == CK_RETURNING)
			tell_others(p, s, CK_CONTROL_THAW);
		if (moves)
			close(u->answer);
		send_reply(p, s, cks_control_error("the session has ended"));
		cks_suspend_freed(p, s);
		cks_workers_mark_changed(p->workers);
		return false;
	}
	return false;
}
