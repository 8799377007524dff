/*
 * server/supervisor/upgrade_state.c - from a supervisor to the next, in one process: the state for
 * the new program, and how that continues.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/children/front_process.h"
#include "server/children/workers.h"
#include "server/door/broker.h"
#include "server/door/listeners.h"
#include "server/door/new_connection.h"
#include "server/life/migration.h"
#include "server/life/suspend.h"
#include "server/processes/state.h"
#include "server/session/version.h"
#include "server/supervisor/supervisor_part.h"
#include "util/log.h"

CK_LOG_DEFINE("server");

/* Fill in the state for a successor; descriptors stay this process's. -errno. */
static int save_state(const struct supervisor *s, struct cks_state *state)
{
	int ret;

	cks_state_init(state);
	memcpy(state->driver, s->driver, sizeof(state->driver));
	memcpy(state->gpus, s->gpus, sizeof(state->gpus));
	state->pid_file = s->pid_file;
	state->drain_by = s->drain.by;
	state->listeners = s->listeners;
	cks_broker_save(s->broker, state);
	state->rendezvous = s->rendezvous.socket;
	ret = cks_control_save(s->control, s->upgrade.asked ? &s->upgrade.asker : NULL, state);
	if (ret == 0)
		ret = cks_workers_save(s->workers, state);
	return ret < 0 ? ret : cks_new_connection_save(s->fresh, state);
}

/* Tell the command that asked for the upgrade of its end, unless the program is to be checked
 * again: another request came during the check, and the program may have been replaced before
 * that. */
static void end_upgrade(struct supervisor *s, json_t *reply)
{
	struct cks_upgrade *u = &s->upgrade;

	u->refusal[0] = '\0';
	if (u->wanted || !u->asked) {
		json_decref(reply);
		return;
	}
	cks_control_answer(s->control, u->asker, reply);
	u->asked = false;
}

/* First the new program is checked; it is executed when no other command is being carried out. */
void cks_supervisor_upgrade(struct supervisor *s)
{
	struct cks_upgrade *u = &s->upgrade;
	bool ready = u->due && !cks_suspender_busy(s->suspender) && !cks_travels_any(s->travels) &&
		     !cks_control_busy(s->control, u->asked ? &u->asker : NULL);
	struct cks_state state;

	if (ready || (u->wanted && !u->check && !u->due)) {
		u->wanted = false;
		if (save_state(s, &state) < 0)
			cks_upgrade_refuse(u, "cannot be told the state: out of memory");
		else if (ready)
			cks_upgrade_exec(u, &state);
		else
			cks_upgrade_check(u, &state);
		cks_state_free(&state);
	}
	if (u->refusal[0])
		end_upgrade(s, cks_control_error("%s", u->refusal));
}

static int adopt_state(struct supervisor *s, const struct cks_state *state)
{
	int ret;

	memcpy(s->gpus, state->gpus, sizeof(s->gpus));
	s->pid_file = state->pid_file;
	s->listeners = state->listeners;
	cks_listeners_resume(&s->listeners);
	s->broker = cks_broker_resume(state, s->options);
	s->rendezvous.socket = state->rendezvous;
	s->rendezvous.users = &s->options->worker_users;
	cks_socket_path(&s->rendezvous.socket);
	s->control = cks_control_resume(state);
	s->upgrade.asked = state->asker >= 0;
	ret = cks_front_process_resume(s->options, &s->fronts);
	if (ret < 0)
		return ret;
	/* without an audit log, running sessions go on; the policy has been checked for the
	 * upgrade */
	ret = cks_supervisor_open_files(s);
	if (ret == 0 || (s->accounts || !s->options->policy))
		ret = cks_supervisor_set_up(s, cks_state_driver(state, s->options->driver));
	if (ret == 0)
		cks_workers_number(s->workers, state->numbered);
	for (size_t i = 0; ret == 0 && i < state->mps_count; i++)
		ret = cks_workers_mps_adopt(s->workers, &state->mps[i]);
	for (size_t i = 0; ret == 0 && i < state->worker_count; i++)
		ret = cks_workers_adopt(s->workers, &state->workers[i]);
	for (size_t i = 0; ret == 0 && i < state->fresh_count; i++)
		cks_new_connection_adopt(s->fresh, &state->fresh[i]);
	if (ret == 0)
		cks_drain_resume(&s->drain, s->workers, state->drain_by);
	if (ret == 0 && s->drain.by)
		cks_supervisor_drain(s);
	return ret;
}

int cks_supervisor_resume(struct supervisor *s, int fd)
{
	struct cks_state state;
	int ret = cks_state_read(fd, &state);

	if (ret == 0)
		ret = cks_state_inherit(&state, false);
	if (ret == 0)
		ret = adopt_state(s, &state);
	if (ret < 0)
		ck_err("upgrade: the state of the previous server: %s", strerror(-ret));
	else
		ck_info("continuing with %zu running programs", cks_workers_serving(s->workers));
	if (ret == 0)
		end_upgrade(s, json_pack("{s:b, s:s}", "ok", 1, "release", CK_RELEASE));
	cks_state_free(&state);
	close(fd);
	return ret;
}
