/*
 * server/children/gpu_turns.c - see gpu_turns.h.
 */
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>

#include "server/children/gpu_turns.h"
#include "server/children/workers.h"
#include "server/children/workers_part.h"
#include "server/processes/messages.h"
#include "server/processes/session_info.h"
#include "server/rules/accounts.h"
#include "util/until.h"
#include "util/util.h"

#define CK_ACTIVE_US 3000000 /* workers report their use with some delay */

/* A worker that does not read misses it: the turn times out, and one that waits asks again. */
static void send_turn(struct cks_share *share, char kind)
{
	const struct worker *worker = container_of(share, struct worker, info.share);
	struct cks_control_turn message = {.kind = kind,
					   .serial = share->serial,
					   .window_us = share->window_us,
					   .quiet_us = share->quiet_us};

	if (share->below)
		message.messages = CK_SHARE_MESSAGES;

	if (worker->control >= 0)
		send(worker->control, &message, sizeof(message), MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* The sessions that may share, in an array to be freed; NULL: there are none, or no memory. */
static struct cks_share **list_shares(struct cks_workers *w, int64_t now, size_t *count)
{
	struct cks_share **list = calloc(w->serving + 1, sizeof(struct cks_share *));

	*count = 0;
	for (struct worker *worker = w->first; list && worker; worker = worker->next) {
		struct cks_share *s = &worker->info.share;
		const struct cks_suspension *u = &worker->info.suspension;

		if (worker->state != SERVING || !worker->named || (!s->gpus && !s->held))
			continue;
		s->group = worker->info.mps;
		s->weight = cks_seat_terms(&worker->seat)->weight;
		s->priority = cks_seat_terms(&worker->seat)->priority;
		s->active = u->state == CK_RUNNING && cks_accounts_weighted(w->accounts) &&
			    (s->wants || s->running || now - u->used * 1000 < CK_ACTIVE_US);
		if (*count < w->serving)
			list[(*count)++] = s;
	}
	return list;
}

void cks_gpu_turns_run(struct cks_workers *w, int *timeout_ms)
{
	int64_t now, next = INT64_MAX;
	struct cks_share **list;
	size_t count;

	if (!cks_accounts_weighted(w->accounts) && w->shares.held == 0)
		return;
	now = ck_now_us();
	list = list_shares(w, now, &count);
	if (!list)
		return;
	w->shares.tell = send_turn;
	cks_fair_share_run(&w->shares, list, count, now, &next);
	free(list);
	if (next == INT64_MAX)
		return;
	ck_poll_sooner(timeout_ms, ck_max((next - now + 999) / 1000, (int64_t)0));
}

void cks_gpu_turns_forget(struct cks_session_info *session)
{
	session->share = (struct cks_share){.gpus = session->share.gpus};
}

void cks_gpu_turns_handle(struct cks_workers *w, struct worker *worker,
			  const struct cks_worker_note *note)
{
	struct cks_share *s = &worker->info.share;

	w->shares.tell = send_turn;
	if (note->kind == CK_NOTE_USE)
		s->gpus = cks_fair_share_bits(&w->shares, note->gpus);
	else if (note->kind == CK_NOTE_ASK)
		cks_fair_share_want(&w->shares, s, ck_now_us());
	else if (note->kind == CK_NOTE_TURN)
		cks_fair_share_ended(s, (uint32_t)note->number, note->uses != 0, ck_now_us());
}
