/*
 * server/life/migration_restore.c - sessions on their way out of files; see migration.h.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "server/children/gpu_turns.h"
#include "server/children/helpers.h"
#include "server/children/workers.h"
#include "server/door/absent_sessions.h"
#include "server/helpers/helper.h"
#include "server/life/migration.h"
#include "server/life/migration_part.h"
#include "server/life/suspend.h"
#include "server/options/options.h"
#include "server/processes/session_info.h"

static void handle_restored(struct cks_server *server, json_t *reply, void *data)
{
	struct travel *travel = data;
	struct cks_session_info *s = cks_workers_at(server->workers, travel->number);
	const char *there = json_string_value(json_object_get(reply, "gpus"));

	if (!json_is_true(json_object_get(reply, "ok"))) {
		travel_finish(server, travel, reply);
		return;
	}
	if (s) {
		s->follower = s->pid;
		s->pid = (pid_t)json_integer_value(json_object_get(reply, "pid"));
		s->suspension.state = CK_SUSPENDED;
		cks_workers_mark_changed(server->workers);
		s->suspension.bytes =
			(uint64_t)json_integer_value(json_object_get(reply, "memory"));
		snprintf(s->suspension.there, sizeof(s->suspension.there), "%s",
			 there ? there : "");
		cks_gpu_turns_forget(s);
		cks_workers_readmit(s, travel->pool);
	}
	travel->step = RETURNING;
	json_decref(reply);
}

json_t *cks_migration_restore(struct cks_server *server, const json_t *request,
			      struct cks_asker asker)
{
	json_t *error = NULL;
	const char *directory = travel_directory(request, &error);
	const char *until = json_string_value(json_object_get(request, "until"));
	struct cks_helper helper = {.argument = CK_RESTORER_ARGUMENT, .done = handle_restored};
	struct travel *travel;
	int ret;

	if (!directory)
		return error;
	if (until && strcmp(until, "use") != 0 && strcmp(until, "resume") != 0)
		return cks_control_error("\"until\" is \"use\" or \"resume\"");
	if (cks_workers_serving(server->workers) >= server->options->max_sessions)
		return cks_control_error("the server has no free session (--max-sessions %u)",
					 server->options->max_sessions);
	travel = travel_begin(server->travels, READING, directory, asker);
	if (!travel)
		return cks_control_error("%s", strerror(ENOMEM));
	travel->rests = until != NULL;
	travel->held = until && strcmp(until, "resume") == 0;
	travel->pool = cks_control_take(server->control, asker);
	helper.data = travel;
	helper.request = json_pack("{s:s, s:s, s:s}", "criu", server->options->criu, "directory",
				   directory, "driver", server->driver);
	ret = cks_workers_restore(server->workers, server->helpers, &helper, &travel->number);
	if (ret == 0)
		return NULL;
	travel->step = OVER;
	return cks_control_error("no process for the session: %s", strerror(-ret));
}

void travel_check_named(struct cks_server *server, struct travel *travel)
{
	struct cks_session_info *s = cks_workers_at(server->workers, travel->number);
	char name[CK_SESSION_NAME];
	json_t *error;

	if (!s) {
		travel_finish(server, travel, cks_control_error("the restored worker has ended"));
		return;
	}
	if (!cks_workers_id(s))
		return;
	cks_absent_sessions_remove(server->away, cks_workers_id(s));
	if (travel->rests) {
		s->suspension.held = travel->held;
		travel_finish(
			server, travel,
			json_pack("{s:b, s:s}", "ok", 1, "session", cks_session_name(s, name)));
		return;
	}
	/* that answers the command, when the GPU state is back */
	error = cks_resume(server->suspender, s, NULL, &travel->asker);
	if (error)
		travel_finish(server, travel, error);
	travel->step = OVER;
}
