/*
 * client/wire/exit.c - the end of sessions: before that of the process, or with it.
 *
 * The line that reports the loss of a session is written before any call fails because of it: a
 * program ends after such an error, and a line that another thread is about to write would not
 * appear.
 */
#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "client/link/client.h"
#include "client/wire/command.h"
#include "client/link/hooks.h"
#include "client/link/lane.h"
#include "client/wire/profile.h"
#include "client/link/reconnect.h"
#include "client/link/session_list.h"
#include "client/link/stats.h"
#include "rpc/chan.h"
#include "rpc/secure.h"
#include "util/log.h"
#include "util/until.h"

CK_LOG_DEFINE("client");

#define LEAVE_MS 2000 /* for the last calls */
/* For the line of another thread. It may wait longer for its reader, or for a function that the
 * program has registered for such lines and that waits for this thread. */
#define REPORT_MS 1000

/* --- before the end of the process */

const char *ckc_wire_error(int ret)
{
	switch (ret) {
	case -EPIPE:
		return "the server closed the connection";
	case -EBADF:
		return "the program has closed the client's connection";
	default:
		return strerror(-ret);
	}
}

/* The server ends a session of which it has lost a connection, so its answer may come first. */
static bool closed_by_program(struct ckc_client *c)
{
	return (c->command.chan && ck_chan_fd_gone(c->command.chan)) || ckc_lane_is_closed(c);
}

static void close_connections(struct ckc_client *c)
{
	ckc_command_abandon(c);
	ckc_lane_shut_all(c);
	ckc_lane_drop_all(c);
	ckc_reconnect_stop(c);
	ck_secure_forget(c->connection.secure, false);
}

static void report_loss(struct ckc_client *c, const char *why)
{
	if (closed_by_program(c))
		why = ckc_wire_error(-EBADF);
	ck_err("the GPU server at %s is lost (%s): every CUDA call %sfails from now on",
	       c->connection.address, why, ckc_many ? "for its devices " : "");
}

/* Another thread reports the loss. */
static void await_report(struct ckc_client *c)
{
	const struct timespec until = ck_until(REPORT_MS * CK_NS_PER_MS);
	struct ckc_loss *l = &c->loss;
	int cancel = ck_lock_uncancelled(&l->lock);

	while (c->state == CK_STATE_READY && ck_cond_timedwait(&l->reported, &l->lock, &until) == 0)
		;
	ck_unlock_uncancelled(&l->lock, cancel);
}

/* False: the session has ended before. */
static bool mark_lost(struct ckc_client *c)
{
	int ready = CK_STATE_READY, cancel = ck_lock_uncancelled(&c->loss.lock);
	bool marked = atomic_compare_exchange_strong(&c->state, &ready, CK_STATE_LOST);

	ck_cond_broadcast(&c->loss.reported);
	ck_unlock_uncancelled(&c->loss.lock, cancel);
	return marked;
}

void ckc_session_lost(struct ckc_client *c, const char *why)
{
	if (c->state != CK_STATE_READY)
		return;
	if (atomic_exchange(&c->loss.noticed, true))
		await_report(c);
	else
		report_loss(c, why);
	if (mark_lost(c))
		close_connections(c);
}

void ckc_session_leave(struct ckc_client *c)
{
	if (!mark_lost(c))
		return;
	ckc_reconnect_bye(c);
	close_connections(c);
}

/* --- with the process */

static bool may_have_printed(struct ckc_client *c)
{
	bool may = false;

	ckc_each_hook(exit, h) may |= h->run(c);
	return may;
}

/* Can the thread make a call? Not if a signal handler has called exit() in the middle of one. */
static bool has_lane(struct ckc_client *c, struct ckc_thread *t)
{
	if (t->lane && ckc_lane_client(t->lane) != c && !ckc_lane_busy(t->lane)) {
		ckc_lane_release(t->lane);
		t->lane = NULL;
	}
	if (!t->lane)
		t->lane = ckc_lane_pooled(c);
	return t->lane && ckc_lane_client(t->lane) == c && !ckc_lane_busy(t->lane);
}

/* Fetch the last output of kernels, if there may be some, and the last records of a profile. Then
 * the server sees the connections close. */
static void end_session(struct ckc_client *c, bool profiled)
{
	bool can_call = false;
	struct ckc_thread *t;

	if (c->state == CK_STATE_READY) {
		c->state = CK_STATE_EXITING; /* errors are not reported from now on */
		t = ckc_thread();
		ckc_route(c);
		can_call = ckc_command_stop(c) && t && (profiled || may_have_printed(c)) &&
			   has_lane(c, t);
		if (can_call) {
			ckc_lane_timeout(t->lane, LEAVE_MS);
			ckc_output_fetch();
		}
	}
	if (profiled)
		ckc_each_hook(leave, h) h->run(c, can_call);
	if (c->state == CK_STATE_EXITING)
		ckc_reconnect_bye(c);
}

/* Runs after the application's exit handlers and before the libraries that the client uses are
 * unloaded. Profiles are of the first server. */
__attribute__((destructor)) static void at_exit(void)
{
	if (ckc_client_root()->state == CK_STATE_FORKED)
		return;
	for (unsigned int i = 0; i < ckc_servers_count(); i++)
		end_session(ckc_server_session(i), ckc_profile_on && i == 0);
	if (ckc_stats_on)
		ckc_stats_end_of_process();
}
