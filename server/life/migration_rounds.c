/*
 * server/life/migration_rounds.c - the step ROUNDS: before a session moves, a checkpointer sends
 * its device memory, and changes of it, while the program runs; see migration.h.
 *
 * The checkpointer asks for each round. The worker copies changed memory into its pool, from which
 * the checkpointer sends it. When little is left, or the rounds do not shrink, the session leaves
 * as for a move without rounds, and the same checkpointer sends the rest.
 */
#include <stdint.h>

#include "server/children/helpers.h"
#include "server/children/workers.h"
#include "server/helpers/helper.h"
#include "server/life/migration.h"
#include "server/life/migration_part.h"
#include "server/life/suspend.h"
#include "server/options/options.h"
#include "server/processes/session_info.h"
#include "util/log.h"
#include "util/until.h"

CK_LOG_DEFINE("server");

#define CK_LATE_MS 10000 /* for a round of a worker, */
#define CK_SLOW_SHIFT 18 /* which copies at least 256 KiB in a millisecond */

bool travel_begin_rounds(struct cks_server *server, struct travel *travel,
			 struct cks_session_info *s, json_t *lanes)
{
	struct cks_helper helper = {
		.argument = CK_CHECKPOINTER_ARGUMENT,
		.request =
			json_pack("{s:i, s:s, s:s, s:I, s:s, s:O*}", "rounds", (int)s->pid, "criu",
				  server->options->criu, "driver", server->driver, "format",
				  travel->format, "address", travel->address, "lanes", lanes),
		.control = travel->stream,
		.done = travel_written,
		.news = travel_news,
		.data = travel};

	if (cks_helpers_start(server->helpers, &helper) < 0)
		return false;
	travel->step = ROUNDS;
	travel->live = true;
	travel->again = INT64_MAX;
	return true;
}

/* Tell the checkpointer about a round; without @s, that there is none. */
static void answer_round(struct cks_server *server, struct travel *travel,
			 const struct cks_session_info *s)
{
	travel->again = INT64_MAX;
	cks_helpers_send(server->helpers, travel,
			 json_pack("{s:I, s:i}", "known", s ? (json_int_t)s->known : 0, "pool",
				   s ? s->pool_fd : 0));
}

void travel_ask_round(struct cks_server *server, struct travel *travel)
{
	struct cks_session_info *s = cks_workers_at(server->workers, travel->number);

	if (!s || travel->step != ROUNDS)
		return;
	travel->round = s->rounds;
	if (!cks_workers_round(s, cks_suspend_room(server->suspender, s)))
		answer_round(server, travel, NULL);
	else
		travel->again = ck_now_ms() + CK_LATE_MS + (int64_t)(s->memory >> CK_SLOW_SHIFT);
}

/* Little is left, or no round helps any more. It may be on its way off the GPU for another reason,
 * or back. */
static void end_rounds(struct cks_server *server, struct travel *travel, struct cks_session_info *s)
{
	json_t *error;

	if (s->suspension.state != CK_RUNNING && s->suspension.state != CK_SUSPENDED)
		return;
	travel->step = SUSPENDING;
	error = travel_suspend(server, travel, s);
	if (error)
		travel_finish(server, travel, error);
}

void travel_check_round(struct cks_server *server, struct travel *travel)
{
	struct cks_session_info *s = cks_workers_at(server->workers, travel->number);

	if (!s) {
		travel_finish(server, travel, cks_control_error("the session has ended"));
	} else if (travel->rounds_over) {
		end_rounds(server, travel, s);
	} else if (travel->again < INT64_MAX && travel->round != s->rounds) {
		answer_round(server, travel, s);
	} else if (ck_now_ms() >= travel->again) {
		/* a worker of an older release knows no rounds */
		ck_info("session s%u: its worker has copied nothing", travel->number);
		answer_round(server, travel, NULL);
	}
}
