/*
 * server/rules/fair_share.c - see fair_share.h.
 */
#include <stdlib.h>

#include "server/rules/fair_share.h"
#include "util/util.h"

#define CK_SCALE 1024u /* of passed, for a weight of 1 */

uint64_t cks_fair_share_bits(struct cks_fair_share *y, const uint32_t marks[CK_NOTE_GPUS])
{
	uint64_t bits = 0;

	for (size_t i = 0; i < CK_NOTE_GPUS; i++) {
		size_t at = 0;

		if (marks[i] == 0)
			continue;
		while (at < CK_SHARE_GPUS && y->marks[at] && y->marks[at] != marks[i])
			at++;
		if (at == CK_SHARE_GPUS)
			continue; /* shared without weights */
		y->marks[at] = marks[i];
		bits |= 1ull << at;
	}
	return bits;
}

static void lower_next(int64_t *next, int64_t time)
{
	*next = ck_min(*next, time);
}

/* How far the sessions are that compete with @s: on its GPUs, with its priority. */
static uint64_t passed_there(const struct cks_share *s, struct cks_share **list, size_t count)
{
	uint64_t most = 0;

	for (size_t i = 0; i < count; i++) {
		const struct cks_share *t = list[i];

		if (t != s && t->held && t->priority == s->priority && (t->gpus & s->gpus))
			most = ck_max(most, t->begun);
	}
	return most;
}

/* --- which sessions are held */

static bool shares_differ(const struct cks_share *a, const struct cks_share *b)
{
	return a->weight != b->weight || a->priority != b->priority;
}

/* The GPUs that active sessions of different weights or priorities use. */
static uint64_t find_contested(struct cks_share **list, size_t count)
{
	const struct cks_share *last[CK_SHARE_GPUS] = {0};
	uint64_t bits = 0;

	for (size_t i = 0; i < count; i++) {
		for (size_t g = 0; list[i]->active && g < CK_SHARE_GPUS; g++) {
			if (!(list[i]->gpus >> g & 1))
				continue;
			if (last[g] && shares_differ(last[g], list[i]))
				bits |= 1ull << g;
			last[g] = list[i];
		}
	}
	return bits;
}

/* Is @high of higher priority than @low, on a GPU of both? */
static bool goes_before(const struct cks_share *high, const struct cks_share *low)
{
	return high->priority > low->priority && (high->gpus & low->gpus) != 0;
}

/* Do active sessions of higher and lower priority use a GPU of @s? */
static void rank_share(struct cks_share *s, struct cks_share **list, size_t count)
{
	s->below = s->above = false;
	for (size_t i = 0; s->held && i < count; i++) {
		s->below |= list[i]->active && goes_before(list[i], s);
		s->above |= list[i]->active && goes_before(s, list[i]);
	}
}

static void hold_share(struct cks_fair_share *y, struct cks_share *s, uint64_t passed)
{
	s->held = true;
	s->wants = s->eager = false;
	s->window_us = CK_SHARE_TURN_US / 4; /* its next work is unknown */
	s->passed = s->begun = passed;
	y->tell(s, CK_CONTROL_HOLD);
}

static void let_go(struct cks_fair_share *y, struct cks_share *s)
{
	s->held = s->wants = s->running = s->eager = false;
	y->tell(s, CK_CONTROL_FREE);
}

static void choose_held(struct cks_fair_share *y, struct cks_share **list, size_t count)
{
	uint64_t bits = find_contested(list, count);

	y->held = 0;
	for (size_t i = 0; i < count; i++) {
		struct cks_share *s = list[i];
		bool held = s->active && (s->gpus & bits) != 0;

		if (held && !s->held)
			hold_share(y, s, passed_there(s, list, count));
		else if (!held && s->held)
			let_go(y, s);
		rank_share(s, list, count);
		y->held += held;
	}
}

/* --- turns */

void cks_fair_share_want(struct cks_fair_share *y, struct cks_share *s, int64_t now)
{
	int64_t lag = s->running ? 0 : ck_min(now - s->ended, (int64_t)CK_SHARE_EAGER_MOST_US);

	if (!s->held) {
		y->tell(s, CK_CONTROL_FREE); /* its worker may not know */
		return;
	}
	if (s->wants)
		return; /* it asks again */
	s->wants = true;
	if (s->eager || s->running || now - s->ended < CK_SHARE_EAGER_MOST_US)
		s->lag_us += ((int32_t)lag - s->lag_us) / 4;
	s->came = !s->running;
}

/* A session without wishes saves little. */
static void bound_credit(struct cks_share **list, size_t count)
{
	const uint64_t credit = (uint64_t)CK_SHARE_CREDIT_US * CK_SCALE;

	for (size_t i = 0; i < count; i++) {
		uint64_t passed = list[i]->came ? passed_there(list[i], list, count) : 0;

		list[i]->came = false;
		list[i]->passed = ck_max(list[i]->passed, passed > credit ? passed - credit : 0);
	}
}

void cks_fair_share_ended(struct cks_share *s, uint32_t serial, bool full, int64_t now)
{
	int64_t used = ck_max(now - s->since, (int64_t)1), window;

	if (!s->running || s->serial != serial)
		return;
	s->running = false;
	s->eager = full;
	s->ended = now;
	s->passed += (uint64_t)used * CK_SCALE / s->weight;
	if (s->stopped)
		return; /* its length was not its own */
	window = (int64_t)s->window_us * CK_SHARE_TURN_US / used;
	window = ck_min(window, (int64_t)CK_SHARE_TURN_US);
	s->window_us = (uint32_t)ck_max(window, (int64_t)CK_SHARE_LEAST_US);
}

/* Turns that do not end: the work waits, perhaps for what the session submits next. */
static void end_stuck(struct cks_share **list, size_t count, int64_t now, int64_t *next)
{
	for (size_t i = 0; i < count; i++) {
		struct cks_share *s = list[i];
		int64_t by = s->since + s->window_us + CK_SHARE_STUCK_US;

		if (!s->running)
			continue;
		if (now >= by) {
			cks_fair_share_ended(s, s->serial, false, now);
			s->wants = true;
			continue;
		}
		lower_next(next, by);
	}
}

static int64_t eager_until(const struct cks_share *s)
{
	int64_t us = ck_max(2 * (int64_t)s->lag_us, (int64_t)CK_SHARE_EAGER_US);

	return s->eager ? s->ended + ck_min(us, (int64_t)CK_SHARE_EAGER_MOST_US) : 0;
}

/* Does it wait for its turn, or does the GPU for it? */
static bool has_place(const struct cks_share *s, int64_t now)
{
	return s->held && !s->running && (s->wants || now < eager_until(s));
}

/* The GPUs that the session at @at may not begin a turn on: those of turns of its priority or a
 * higher one, and those that sessions before it wait for, so that their turns come. Sessions of a
 * group exclude only others. */
static uint64_t taken_gpus(struct cks_share **list, size_t count, size_t at, int64_t now)
{
	const struct cks_share *s = list[at];
	uint64_t bits = 0;

	for (size_t i = 0; i < count; i++) {
		const struct cks_share *t = list[i];

		if (s->group && t->group == s->group)
			continue;
		if ((t->running && t->priority >= s->priority) || (i < at && has_place(t, now)))
			bits |= t->gpus;
	}
	return bits;
}

static int by_priority_and_passed(const void *a, const void *b)
{
	const struct cks_share *const *x = a, *const *y = b;

	if ((*x)->priority != (*y)->priority)
		return (*x)->priority > (*y)->priority ? -1 : 1;
	return ((*x)->passed > (*y)->passed) - ((*x)->passed < (*y)->passed);
}

/* End the turns of lower priority that are in the way of @s. */
static void stop_lower(struct cks_fair_share *y, const struct cks_share *s, struct cks_share **list,
		       size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct cks_share *t = list[i];

		if (!t->running || t->stopped || !goes_before(s, t) ||
		    (s->group && t->group == s->group))
			continue;
		t->stopped = true;
		y->tell(t, CK_CONTROL_HOLD);
	}
}

static void begin_turn(struct cks_fair_share *y, struct cks_share *s, int64_t now)
{
	s->wants = s->eager = s->stopped = false;
	s->running = true;
	s->quiet_us = 0;
	if (s->above) /* one that usually asks again soon keeps its turn meanwhile */
		s->quiet_us =
			(uint32_t)ck_min(ck_max(4 * (int64_t)s->lag_us, (int64_t)CK_SHARE_QUIET_US),
					 (int64_t)CK_SHARE_QUIET_MOST_US);
	s->since = now;
	s->serial = ++y->serial;
	s->begun = s->passed;
	y->tell(s, CK_CONTROL_TURN);
}

static void give_turns(struct cks_fair_share *y, struct cks_share **list, size_t count, int64_t now,
		       int64_t *next)
{
	end_stuck(list, count, now, next);
	bound_credit(list, count);
	qsort(list, count, sizeof(struct cks_share *), by_priority_and_passed);
	for (size_t i = 0; i < count; i++) {
		struct cks_share *s = list[i];

		if (!has_place(s, now))
			continue;
		if (s->wants && !(s->gpus & taken_gpus(list, count, i, now))) {
			stop_lower(y, s, list, count);
			begin_turn(y, s, now);
			lower_next(next, now + s->window_us + CK_SHARE_STUCK_US);
		} else if (!s->wants) {
			lower_next(next, eager_until(s));
		}
	}
}

void cks_fair_share_run(struct cks_fair_share *y, struct cks_share **list, size_t count,
			int64_t now, int64_t *next)
{
	choose_held(y, list, count);
	if (y->held > 0)
		give_turns(y, list, count, now, next);
}
