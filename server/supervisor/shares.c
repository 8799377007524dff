/*
 * server/supervisor/shares.c - see shares.h.
 */
#include <stdlib.h>

#include "server/supervisor/shares.h"
#include "util/util.h"

#define CK_SCALE 1024u /* of passed, for a weight of 1 */

uint64_t cks_shares_bits(struct cks_shares *y, const uint32_t marks[CK_NOTE_GPUS])
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

static void lower(int64_t *next, int64_t time)
{
	*next = ck_min(*next, time);
}

/* How far the GPUs of the session are. */
static uint64_t passed_there(const struct cks_shares *y, const struct cks_share *s)
{
	uint64_t most = 0;

	for (size_t i = 0; i < CK_SHARE_GPUS; i++) {
		if (s->gpus >> i & 1)
			most = ck_max(most, y->passed[i]);
	}
	return most;
}

/* --- which sessions are held */

/* The GPUs that active sessions of different weights use. */
static uint64_t contested(struct cks_share **list, size_t count)
{
	uint32_t first[CK_SHARE_GPUS] = {0};
	uint64_t bits = 0;

	for (size_t i = 0; i < count; i++) {
		for (size_t g = 0; list[i]->active && g < CK_SHARE_GPUS; g++) {
			if (!(list[i]->gpus >> g & 1))
				continue;
			if (first[g] && first[g] != list[i]->weight)
				bits |= 1ull << g;
			first[g] = list[i]->weight;
		}
	}
	return bits;
}

static void hold(struct cks_shares *y, struct cks_share *s)
{
	s->held = true;
	s->wants = s->eager = false;
	s->window_us = CK_SHARE_TURN_US / 4; /* what it will submit is not known */
	s->passed = passed_there(y, s);
	y->tell(s, CK_CONTROL_HOLD);
}

static void let_go(struct cks_shares *y, struct cks_share *s)
{
	s->held = s->wants = s->running = s->eager = false;
	y->tell(s, CK_CONTROL_FREE);
}

static void choose_held(struct cks_shares *y, struct cks_share **list, size_t count)
{
	uint64_t bits = contested(list, count);

	y->held = 0;
	for (size_t i = 0; i < count; i++) {
		struct cks_share *s = list[i];
		bool held = s->active && (s->gpus & bits) != 0;

		if (held && !s->held)
			hold(y, s);
		else if (!held && s->held)
			let_go(y, s);
		y->held += held;
	}
}

/* --- turns */

void cks_shares_want(const struct cks_shares *y, struct cks_share *s, int64_t now)
{
	uint64_t passed = passed_there(y, s), credit = (uint64_t)CK_SHARE_CREDIT_US * CK_SCALE;
	int64_t lag = s->running ? 0 : ck_min(now - s->ended, (int64_t)CK_SHARE_EAGER_MOST_US);

	if (!s->held)
		return; /* it has been freed meanwhile */
	s->wants = true;
	if (s->eager || s->running)
		s->lag_us += ((int32_t)lag - s->lag_us) / 4;
	if (!s->running)
		s->passed = ck_max(s->passed, passed > credit ? passed - credit : 0);
}

void cks_shares_ended(struct cks_share *s, uint32_t serial, bool full, int64_t now)
{
	int64_t used = ck_max(now - s->since, (int64_t)1), window;

	if (!s->running || s->serial != serial)
		return;
	s->running = false;
	s->eager = full;
	s->ended = now;
	s->passed += (uint64_t)used * CK_SCALE / s->weight;
	window = (int64_t)s->window_us * CK_SHARE_TURN_US / used;
	window = ck_min(window, (int64_t)CK_SHARE_TURN_US);
	s->window_us = (uint32_t)ck_max(window, (int64_t)CK_SHARE_LEAST_US);
}

/* Turns that do not end: the work waits, perhaps for what the session submits next. */
static uint64_t running_gpus(struct cks_share **list, size_t count, int64_t now, int64_t *next)
{
	uint64_t bits = 0;

	for (size_t i = 0; i < count; i++) {
		struct cks_share *s = list[i];
		int64_t by = s->since + s->window_us + CK_SHARE_STUCK_US;

		if (!s->running)
			continue;
		if (now >= by) {
			cks_shares_ended(s, s->serial, false, now);
			s->wants = true;
			continue;
		}
		lower(next, by);
		bits |= s->gpus;
	}
	return bits;
}

static int64_t eager_until(const struct cks_share *s)
{
	int64_t us = ck_max(2 * (int64_t)s->lag_us, (int64_t)CK_SHARE_EAGER_US);

	return s->eager ? s->ended + ck_min(us, (int64_t)CK_SHARE_EAGER_MOST_US) : 0;
}

static int by_passed(const void *a, const void *b)
{
	const struct cks_share *const *x = a, *const *y = b;

	return ((*x)->passed > (*y)->passed) - ((*x)->passed < (*y)->passed);
}

static void begin(struct cks_shares *y, struct cks_share *s, int64_t now)
{
	s->wants = s->eager = false;
	s->running = true;
	s->since = now;
	s->serial = ++y->serial;
	for (size_t i = 0; i < CK_SHARE_GPUS; i++) {
		if (s->gpus >> i & 1)
			y->passed[i] = ck_max(y->passed[i], s->passed);
	}
	y->tell(s, CK_CONTROL_TURN);
}

/* A session that waits for one of its GPUs keeps the others from those behind it, so that its turn comes. */
static void give_turns(struct cks_shares *y, struct cks_share **list, size_t count, int64_t now,
		       int64_t *next)
{
	uint64_t taken = running_gpus(list, count, now, next);

	qsort(list, count, sizeof(struct cks_share *), by_passed);
	for (size_t i = 0; i < count; i++) {
		struct cks_share *s = list[i];

		if (!s->held || s->running || (!s->wants && now >= eager_until(s)))
			continue;
		if (s->wants && !(s->gpus & taken)) {
			begin(y, s, now);
			lower(next, now + s->window_us + CK_SHARE_STUCK_US);
		} else if (!s->wants) {
			lower(next, eager_until(s));
		}
		taken |= s->gpus;
	}
}

void cks_shares_run(struct cks_shares *y, struct cks_share **list, size_t count, int64_t now,
		    int64_t *next)
{
	choose_held(y, list, count);
	if (y->held > 0)
		give_turns(y, list, count, now, next);
}
