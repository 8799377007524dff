/*
 * server/life/suspend_return.c - how a session returns to the GPU; see suspend_part.h.
 */
#include <stdio.h>
#include <unistd.h>

#include "server/children/workers.h"
#include "server/helpers/checkpoint.h"
#include "server/life/suspend_part.h"
#include "server/processes/messages.h"
#include "util/log.h"
#include "util/until.h"
#include "util/util.h"

CK_LOG_DEFINE("server");

/* Until a session that finds no room tries again, if it has not tried often: the others take no
 * memory while it tries. */
#define CK_AGAIN_MS 500
#define CK_OFTEN 4
#define CK_LATER_MS 5000 /* until one tries again that the driver refuses for another reason */
#define CK_ROOM_MS 100	 /* for others to return memory, and between two such times */

/* While @s returns, the others take no memory. How long does it wait for room, in ms? If it has
 * found none before, and none of the others has to leave for it, it waits for memory that they
 * return: they would take it again. */
static unsigned int hold_others(const struct cks_suspender *p, const struct cks_session_info *s)
{
	const struct cks_suspension *u = &s->suspension;
	bool waits = u->asked || (u->no_room > 0 && !cks_suspend_takes_turns(p, s));

	cks_suspension_tell_others(p, s, CK_CONTROL_FREEZE);
	if (waits)
		cks_suspension_tell_others(p, s, CK_CONTROL_PRESS);
	return waits ? CK_ROOM_MS : 0;
}

void cks_suspension_run(struct cks_session_info *s)
{
	struct cks_suspension *u = &s->suspension;

	u->held = u->wanted = false;
	u->used = ck_now_ms();
	u->tried = u->parked = false;
	u->no_room = 0;
	u->bytes = u->away = 0;
	u->wish[0] = u->there[0] = '\0';
	cks_suspension_set(s, CK_RUNNING);
	cks_suspend_begin_turn(s);
}

/* Bytes that others give back now on the GPUs of @s. The bus carries both directions at once. */
static uint64_t count_leaving(const struct cks_suspender *p, const struct cks_session_info *s)
{
	struct cks_session_info *other = NULL;
	uint64_t bytes = 0;

	while ((other = cks_workers_next(p->workers, other)) != NULL) {
		if (other->suspension.state == CK_PARKING && other->suspension.to_park &&
		    cks_suspend_same_gpu(other, s))
			bytes += other->suspension.leaving;
	}
	return bytes;
}

/* Its contexts are on the GPU: its worker brings its memory back, and opens the gate. */
void cks_suspension_return(struct cks_suspender *p, struct cks_session_info *s)
{
	uint64_t leaving = count_leaving(p, s);
	struct cks_suspension *u = &s->suspension;

	u->parked = true;
	u->wanted = true;
	u->beside = leaving > 0;
	u->said.kind = CK_NOTE_STANDBY;
	if (cks_workers_unpark(s, hold_others(p, s), leaving)) {
		u->state = CK_RETURNING;
		return;
	}
	cks_suspension_tell_others(p, s, CK_CONTROL_THAW);
	u->state = CK_SUSPENDED;
	u->again = ck_now_ms() + CK_AGAIN_MS;
}

/* All of it is back. */
static void finish_return(struct cks_suspender *p, struct cks_session_info *s)
{
	char name[CK_SESSION_NAME];

	ck_info("session %s goes on: %llu MiB moved back in %u ms", cks_session_name(s, name),
		(unsigned long long)s->suspension.bytes >> 20, s->suspension.ms);
	cks_suspension_reply(p, s, cks_suspension_report(s));
	s->suspension.spared = 0;
	s->suspension.in_ms = ck_max(s->suspension.ms, 1u);
	cks_suspension_run(s);
}

static void move_in(struct cks_suspender *p, struct cks_session_info *s)
{
	/* before the helper looks whether there is room */
	unsigned int wait_ms = hold_others(p, s);

	if (cks_suspension_move(p, s, false, wait_ms) > 0)
		return;
	cks_suspension_tell_others(p, s, CK_CONTROL_THAW);
	s->suspension.again = ck_now_ms() + CK_AGAIN_MS;
}

/* It is where it was, or parked: its worker has not returned all of its memory. */
void cks_suspension_resume(struct cks_suspender *p, struct cks_session_info *s)
{
	s->suspension.ms = 0;
	s->suspension.device = -1;
	s->suspension.stuck = false;
	if (s->suspension.parked)
		cks_suspension_return(p, s);
	else
		move_in(p, s);
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
	if (full && u->parked && !u->beside && count_leaving(p, s) > 0)
		u->again = 0; /* it began before the other one did */
	u->tried |= a->status == CK_CHECKPOINT_TOO_LATE;
	if (u->asked) /* whoever asked may ask again */
		u->held = u->was_held;
	if (u->wish[0]) /* not there, and the program may not need it yet */
		u->wanted = u->was_wanted;
	u->wish[0] = '\0';
	cks_suspension_reply(
		p, s, cks_control_error("%s stays %s: %s", name, cks_suspension_name(u), a->why));
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

void cks_suspension_moved_in(struct cks_suspender *p, struct cks_session_info *s)
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
			cks_suspension_return(p, s);
			return;
		}
		cks_workers_unpark(s, 0, 0);
		finish_return(p, s);
	} else if (a.status == CK_CHECKPOINT_LOST ||
		   (a.status == CK_CHECKPOINT_FAILED && u->tried)) {
		cks_suspension_lose(p, s, a.why);
	} else {
		keep_suspended(p, s, &a);
	}
	cks_suspension_tell_others(p, s, CK_CONTROL_THAW);
}

void cks_suspension_returned(struct cks_suspender *p, struct cks_session_info *s)
{
	struct cks_suspension *u = &s->suspension;
	struct cks_checkpoint_answer a = {.status = CK_CHECKPOINT_NO_ROOM};

	if (u->said.kind != CK_NOTE_RETURNED && u->said.kind != CK_NOTE_NO_ROOM &&
	    u->said.kind != CK_NOTE_LOST)
		return;
	cks_suspension_tell_others(p, s, CK_CONTROL_THAW);
	u->said.text[CK_NOTE_TEXT - 1] = '\0';
	u->ms += u->said.move_ms;
	if (u->said.kind == CK_NOTE_RETURNED) {
		finish_return(p, s);
	} else if (u->said.kind == CK_NOTE_LOST) {
		cks_suspension_lose(p, s, u->said.text);
	} else {
		snprintf(a.why, sizeof(a.why), "%s", u->said.text);
		keep_suspended(p, s, &a);
	}
}

/* A worker that was late has parked, or cannot return. */
void cks_suspension_late_note(struct cks_suspender *p, struct cks_session_info *s)
{
	struct cks_suspension *u = &s->suspension;

	if (u->said.kind == CK_NOTE_PARKED && u->said.away > 0) {
		u->bytes = u->said.number;
		u->away = u->said.away;
		cks_suspension_return(p, s);
	} else if (u->said.kind == CK_NOTE_PARKED) {
		cks_workers_unpark(s, 0, 0);
	} else if (u->said.kind == CK_NOTE_NO_ROOM) {
		u->bytes = u->said.number;
		u->away = u->said.away;
		u->parked = u->wanted = true;
		cks_suspension_set(s, CK_SUSPENDED);
	} else if (u->said.kind == CK_NOTE_LOST) {
		u->said.text[CK_NOTE_TEXT - 1] = '\0';
		cks_suspension_lose(p, s, u->said.text);
	}
	u->said.kind = CK_NOTE_STANDBY;
}
