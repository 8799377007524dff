/*
 * client/wire/exit.c - the end of the process: its sessions end too.
 */
#include "client/wire/client.h"
#include "client/wire/command.h"
#include "client/wire/hooks.h"
#include "client/wire/lane.h"
#include "client/wire/profile.h"
#include "client/wire/reconnect.h"
#include "client/wire/servers.h"
#include "client/wire/stats.h"

#define LEAVE_MS 2000 /* for the last calls */

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
