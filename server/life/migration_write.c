/*
 * server/life/migration_write.c - the step WRITING: a checkpointer writes or sends the worker; see
 * migration.h.
 *
 * A checkpointer may be killed at any point. When it and its CRIU have ended without a reply,
 * another one undoes its work, and the session goes on.
 */
#include <errno.h>
#include <stdlib.h>
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
#include "server/processes/messages.h"
#include "server/processes/session_info.h"
#include "util/log.h"
#include "util/until.h"

CK_LOG_DEFINE("server");

#define CK_RECOVERIES 3 /* of one session, if they are killed too */
#define RUNS_MS 5000	/* until a session that stays runs again, unless the GPU is full */

void travel_stay(struct cks_server *server, const struct travel *travel)
{
	struct cks_session_info *s = cks_workers_at(server->workers, travel->number);

	cks_absent_sessions_remove(server->away, travel->session);
	if (!s)
		return;
	s->written = false;
	cks_gpu_turns_forget(s);
	cks_workers_readmit(s, travel->pool);
	if (travel->resumes)
		json_decref(cks_resume(server->suspender, s, NULL, NULL));
	else
		s->suspension.held = travel->held;
}

/* --- news of the checkpointer */

/* The session's memory has been copied; the rest of the work on the copy does not concern it. */
static void note_copied(struct cks_server *server, struct travel *travel)
{
	travel->stays = true;
	ck_info("session s%u goes on; its checkpoint is being compressed", travel->number);
	travel_stay(server, travel);
}

/* The memory that the worker has moved off the GPU is in a file. */
static void note_filed(struct cks_server *server, struct travel *travel)
{
	struct cks_session_info *s = cks_workers_at(server->workers, travel->number);

	travel->filed = s && cks_workers_send(s, CK_CONTROL_DROP);
}

void travel_news(struct cks_server *server, const json_t *line, void *data)
{
	const char *folder = json_string_value(json_object_get(line, "folder"));
	struct travel *travel = data;

	if (folder && !travel->folder)
		travel->folder = strdup(folder);
	if (json_is_true(json_object_get(line, "filed")))
		note_filed(server, travel);
	if (json_is_true(json_object_get(line, "goes_on")))
		note_copied(server, travel);
	if (json_is_true(json_object_get(line, "round")))
		travel_ask_round(server, travel);
	travel->rounds_over |= json_is_false(json_object_get(line, "round"));
}

/* --- its reply */

/* Its reply comes to travel_written() too. 0 or -errno. */
static int begin_recovery(struct cks_server *server, struct travel *travel)
{
	struct cks_session_info *s = cks_workers_at(server->workers, travel->number);
	struct cks_helper helper = {.argument = CK_CHECKPOINTER_ARGUMENT,
				    .control = -1,
				    .done = travel_written,
				    .data = travel};
	pid_t pid;

	if (travel->recoveries++ == CK_RECOVERIES)
		return -ECHILD;
	helper.request = json_pack("{s:s, s:s, s:i, s:b, s:I, s:b, s:b}", "recover", travel->folder,
				   "directory", travel->directory, "pid", s ? (int)s->pid : 0,
				   "keep", travel->keeps, "table", s ? (json_int_t)s->table : 0,
				   "filed", travel->filed, "pooled", travel->pool >= 0);
	pid = cks_helpers_start(server->helpers, &helper);
	return pid < 0 ? (int)pid : 0;
}

/* The worker may be stopped, and may have dropped memory: it cannot go on. */
static void end_worker(struct cks_server *server, const struct travel *travel)
{
	struct cks_session_info *s = cks_workers_at(server->workers, travel->number);

	ck_err("session s%u is lost: the processes that were to write it were killed",
	       travel->number);
	if (!s)
		return;
	s->written = false;
	cks_workers_kill(s);
}

static void handle_failed(struct cks_server *server, struct travel *travel, json_t *reply)
{
	/* one that was killed says nothing of this */
	const json_t *said = json_object_get(reply, "gone");
	bool gone = json_is_true(said);

	if (!said && travel->folder) {
		if (begin_recovery(server, travel) == 0) {
			json_decref(reply);
			return;
		}
		end_worker(server, travel);
		gone = true;
	}
	if (gone)
		cks_absent_sessions_remove(server->away, travel->session);
	else if (!travel->stays)
		travel_stay(server, travel);
	travel_finish(server, travel, reply);
}

void travel_written(struct cks_server *server, json_t *reply, void *data)
{
	struct travel *travel = data;

	if (travel->step == ROUNDS) {
		travel_finish(server, travel, reply);
		return;
	}
	if (travel->step == SUSPENDING || travel->step == LEAVING) {
		travel->reply = reply; /* the session goes on as soon as it can */
		return;
	}
	if (!json_is_true(json_object_get(reply, "ok"))) {
		handle_failed(server, travel, reply);
		return;
	}
	if (travel->keeps) {
		travel->reply = reply;
		travel->step = STAYING;
		travel->again = ck_now_ms() + RUNS_MS;
		return;
	}
	if (travel->stream >= 0) {
		if (travel->began > 0)
			json_object_set_new(reply, "pause_ms",
					    json_integer(ck_now_ms() - travel->began));
		ck_info("session s%u has moved to %s", travel->number, travel->address);
	} else {
		ck_info("a session is written into %s", travel->directory);
	}
	cks_absent_sessions_put(server->away, travel->session, travel->address,
				travel_seconds(server));
	travel->reply = reply;
	travel->step = ENDING;
}

void travel_write(struct cks_server *server, struct travel *travel, struct cks_session_info *s)
{
	char name[CK_SESSION_NAME], id[CK_TRAVEL_DIGITS];
	struct cks_helper helper = {.argument = CK_CHECKPOINTER_ARGUMENT,
				    .control = travel->stream,
				    .done = travel_written,
				    .news = travel_news,
				    .data = travel};
	pid_t pid;

	travel_digits(travel->session, id);
	helper.request = json_pack(
		"{s:s, s:s, s:s, s:i, s:s, s:s, s:s, s:I, s:b, s:b, s:b, s:I, s:I, s:i, s:I}",
		"criu", server->options->criu, "directory", travel->directory, "driver",
		server->driver, "pid", (int)s->pid, "session", cks_session_name(s, name), "id", id,
		"program", s->program, "memory", (json_int_t)s->suspension.bytes, "keep",
		travel->keeps, "replace", travel->by_time, "move", travel->stream >= 0, "table",
		(json_int_t)s->table, "saved", travel->pool >= 0 ? (json_int_t)s->known : 0, "pool",
		s->pool_fd, "format", travel->format);
	s->written = !travel->keeps; /* its end is no accident */
	travel->step = WRITING;
	if (travel->live)
		pid = cks_helpers_send(server->helpers, travel, helper.request) ? 0 : -EPIPE;
	else
		pid = cks_helpers_start(server->helpers, &helper);
	if (pid >= 0)
		return;
	travel_stay(server, travel);
	travel_finish(server, travel,
		      cks_control_error("no process for the session: %s", strerror(-pid)));
}
