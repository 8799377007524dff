/*
 * client/wire/server_pings.c - find out, when a call waits for long, whether the kernel is slow or
 * the server does not respond.
 *
 * A thread of the client pings the server on its own lane. Any thread of the worker can answer,
 * even while the GPU is busy; a stopped worker cannot. The first wait that lasts a second starts
 * the thread. It pings only while some call waits.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "client/link/client.h"
#include "client/wire/command.h"
#include "client/link/hooks.h"
#include "client/link/join.h"
#include "client/link/lane.h"
#include "client/link/reconnect.h"
#include "client/link/session_list.h"
#include "rpc/record.h"
#include "util/cancel.h"
#include "util/log.h"
#include "util/spin.h"
#include "util/until.h"

CK_LOG_DEFINE("client");

#define PATIENCE_NS 4000000000 /* plus the second that passes before the first ping: 5 s */

static void report_overdue(struct ckc_client *c)
{
	struct ckc_suspicion *s = &c->suspicion;

	if (s->told || ckc_reconnect_misses(c) || ck_now_ns() - s->since < PATIENCE_NS ||
	    c->state != CK_STATE_READY)
		return;
	s->told = true;
	ck_warn("server %s has not responded for 5 s, still waiting", ckc_session_server(c));
}

static void report_answered(struct ckc_client *c)
{
	if (c->suspicion.told && c->state == CK_STATE_READY)
		ck_warn("server %s responds again", ckc_session_server(c));
	c->suspicion.told = false;
}

static void wait_for_suspicion(struct ckc_suspicion *s)
{
	ck_lock(&s->lock);
	while (!s->wanted)
		ck_cond_wait(&s->asked, &s->lock);
	ck_unlock(&s->lock);
}

static void clear_suspicion(struct ckc_suspicion *s)
{
	ck_lock(&s->lock);
	s->wanted = false;
	ck_unlock(&s->lock);
}

/* Ping while calls wait. A lane that fails says nothing about the session: its calls will
 * notice. */
static void *run_pings(void *client)
{
	struct ckc_exchange ping = {
		.proc = CK_PING, .xdr_args = ck_code_nothing, .xdr_res = ck_code_nothing};
	struct ckc_client *c = client;
	struct ckc_lane *lane = NULL;

	ckc_route_serve(c);
	atomic_store(&c->suspicion.asker, (uintptr_t)pthread_self());
	while (c->state == CK_STATE_READY) {
		int ret = 0;

		wait_for_suspicion(&c->suspicion);
		/* a wait would not end: its commands do not arrive */
		if (c->command.chan && ckc_command_over(c))
			ckc_session_lost(c, "it has closed the command stream");
		c->suspicion.since = ck_now_ns();
		if (!lane)
			ret = ckc_join_lane(c, &lane);
		if (ret == 0)
			ret = ckc_lane_exchange(lane, &ping);
		if (ret == 0)
			report_answered(c);
		else if (lane)
			ckc_lane_destroy(lane);
		if (ret < 0)
			lane = NULL;
		clear_suspicion(&c->suspicion);
	}
	if (lane)
		ckc_lane_destroy(lane);
	return NULL;
}

static void suspect_server(struct ckc_client *c)
{
	struct ckc_suspicion *s = &c->suspicion;
	int cancel;

	if (atomic_load(&s->asker) == (uintptr_t)pthread_self()) {
		report_overdue(c);
		return;
	}
	if (c->state != CK_STATE_READY)
		return;
	cancel = ck_lock_uncancelled(&s->lock);
	if (!s->running)
		s->running = ckc_thread_start(run_pings, c) == 0;
	if (!s->wanted)
		ck_cond_signal(&s->asked);
	s->wanted = true;
	ck_unlock_uncancelled(&s->lock, cancel);
}
CK_ON_QUIET(suspect_server);
