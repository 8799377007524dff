/*
 * server/life/migration_restore.c - sessions on their way out of files; see migration.h.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "server/children/gpu_turns.h"
#include "server/children/helpers.h"
#include "server/children/workers.h"
#include "server/door/absent_sessions.h"
#include "server/door/listeners.h"
#include "server/helpers/helper.h"
#include "server/life/migration.h"
#include "server/life/migration_part.h"
#include "server/life/suspend.h"
#include "server/options/options.h"
#include "server/processes/session_info.h"
#include "util/address/address.h"
#include "util/hash.h"

#define CK_COPY_QUIET_MS 5000 /* the return of one that finds room takes less */

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
	}
	travel->step = LOADING;
	travel->reply = reply;
}

static void take_news(struct cks_server *server, const json_t *line, void *data)
{
	const char *hash = json_string_value(json_object_get(line, "memory"));
	struct travel *travel = data;

	if (hash && !travel->memory)
		travel_share_memory(server, travel, hash);
}

/* Its worker waits for what it has dropped, if that does not come from the restorer. */
void travel_check_memory(struct cks_server *server, struct travel *travel)
{
	struct cks_session_info *s = cks_workers_at(server->workers, travel->number);
	json_t *error = travel_memory_error(travel);
	int file = travel->pool;

	if (error) {
		if (s)
			cks_workers_kill(s);
		travel_finish(server, travel, error);
		return;
	}
	if (s && !travel_memory_read(travel, &file))
		return;
	if (s && travel->copy)
		cks_workers_rename(s, &travel->names);
	if (s)
		cks_workers_readmit(s, file);
	travel->step = RETURNING;
}

/* --- before a session comes from another server */

static void handle_described(struct cks_server *server, json_t *reply, void *data)
{
	json_t *gpu = json_object_get(reply, "gpu");
	char address[CK_LISTENER_TEXT];

	if (gpu) {
		json_decref(server->travels->gpu);
		server->travels->gpu = json_incref(gpu);
	}
	for (size_t i = 0; gpu && i < server->listeners->count; i++) {
		cks_listeners_address(&server->listeners->list[i], address, sizeof(address));
		if (ck_address_kind_of(address) == CK_ADDRESS_TCP)
			json_object_set_new_nocheck(reply, "listens", json_string(address));
	}
	travel_finish(server, data, reply);
}

static json_t *refuse_more(const struct cks_server *server)
{
	unsigned int most = server->options->max_sessions;

	return cks_workers_serving(server->workers) < most
		       ? NULL
		       : cks_control_error("the server has no free session (--max-sessions %u)",
					   most);
}

json_t *cks_migration_receive(struct cks_server *server, const json_t *request,
			      struct cks_asker asker)
{
	struct cks_helper helper = {
		.argument = CK_CHECKPOINTER_ARGUMENT, .control = -1, .done = handle_described};
	json_t *error = refuse_more(server);
	struct travel *travel;

	(void)request;
	if (error)
		return error;
	travel = travel_begin(server->travels, DESCRIBING, "", asker);
	if (!travel)
		return cks_control_error("%s", strerror(ENOMEM));
	helper.data = travel;
	helper.request =
		json_pack("{s:s, s:s}", "describe", server->driver, "criu", server->options->criu);
	if (cks_helpers_start(server->helpers, &helper) >= 0)
		return NULL;
	travel->step = OVER;
	return cks_control_error("no process for the session");
}

/* --- out of files */

json_t *cks_migration_restore(struct cks_server *server, const json_t *request,
			      struct cks_asker asker)
{
	json_t *error = NULL;
	const char *directory = travel_directory(request, &error);
	const char *until = json_string_value(json_object_get(request, "until"));
	struct cks_helper helper = {
		.argument = CK_RESTORER_ARGUMENT, .done = handle_restored, .news = take_news};
	bool received = json_is_true(json_object_get(request, "received"));
	struct cks_session_names names;
	struct travel *travel;
	int ret;

	if (!directory)
		return error;
	if (until && strcmp(until, "use") != 0 && strcmp(until, "resume") != 0)
		return cks_control_error("\"until\" is \"use\" or \"resume\"");
	if (getrandom(&names, sizeof(names), 0) != sizeof(names))
		return cks_control_error("no random bytes: %s", strerror(errno));
	error = refuse_more(server);
	if (error)
		return error;
	travel = travel_begin(server->travels, READING, directory, asker);
	if (!travel)
		return cks_control_error("%s", strerror(ENOMEM));
	travel->names = names;
	travel->rests = until != NULL;
	travel->held = until && strcmp(until, "resume") == 0;
	travel->pool = cks_control_take(server->control, asker);
	travel->copy = json_is_true(json_object_get(request, "copy"));
	helper.data = travel;
	helper.request = json_pack("{s:s, s:s, s:s, s:b, s:O*}", "criu", server->options->criu,
				   "directory", directory, "driver", server->driver, "copy",
				   travel->copy, "gpu", received ? server->travels->gpu : NULL);
	ret = cks_workers_restore(server->workers, server->helpers, &helper, &travel->number);
	if (ret == 0)
		return NULL;
	travel->step = OVER;
	return cks_control_error("no process for the session: %s", strerror(-ret));
}

/* The data by which its program finds the copy. */
static json_t *describe_copy(const struct travel *travel, const char *name)
{
	const json_t *of = json_object_get(travel->reply, "id");
	char names[CK_HASH_TEXT], secret[CK_HASH_TEXT];
	struct ck_hash bytes;
	json_t *reply;

	_Static_assert(sizeof(travel->names) == 2 * sizeof(bytes), "the names are two hashes");
	memcpy(bytes.bytes, &travel->names, sizeof(bytes));
	ck_hash_print(&bytes, names);
	memcpy(bytes.bytes, travel->names.secret, sizeof(bytes));
	ck_hash_print(&bytes, secret);
	reply = json_pack("{s:b, s:s, s:O, s:s, s:s}", "ok", 1, "session", name, "of", of, "names",
			  names, "secret", secret);
	return reply ? reply : cks_control_error("%s", strerror(ENOMEM));
}

/* Sessions that are not on the GPU: they return one after the other. */
static int64_t count_waiting(const struct cks_server *server)
{
	struct cks_session_info *s = NULL;
	int64_t count = 0;

	while ((s = cks_workers_next(server->workers, s)) != NULL)
		count += s->suspension.state != CK_RUNNING;
	return count;
}

/* The memory of a copy returns to the GPU beside its program, whose calls wait for that. */
static void finish_copy(struct cks_server *server, struct travel *travel,
			struct cks_session_info *s)
{
	char name[CK_SESSION_NAME];

	if (!cks_control_waits(server->control, travel->asker)) { /* no program comes */
		cks_workers_kill(s);
		travel_finish(server, travel, cks_control_error("the command has ended"));
		return;
	}
	if (memcmp(cks_workers_id(s), travel->names.id, sizeof(travel->names.id)) != 0) {
		cks_workers_kill(s);
		travel_finish(server, travel,
			      cks_control_error("a session of its release has no copies"));
		return;
	}
	travel_finish(server, travel, describe_copy(travel, cks_session_name(s, name)));
	json_decref(cks_resume(server->suspender, s, NULL, NULL));
	cks_suspend_quiet(s, CK_COPY_QUIET_MS * count_waiting(server));
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
	if (travel->copy) {
		finish_copy(server, travel, s);
		return;
	}
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
