/*
 * server/supervisor/control_commands.c - the commands of the control socket; see control.h.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/children/workers.h"
#include "server/control/control.h"
#include "server/control/ctl.h"
#include "server/door/disconnected_sessions.h"
#include "server/life/migration.h"
#include "server/life/suspend.h"
#include "server/life/upgrade.h"
#include "server/options/options.h"
#include "server/processes/session_info.h"
#include "server/supervisor/control_commands.h"
#include "server/supervisor/reload.h"

/* --- sessions */

/* A program may call itself anything, but JSON is UTF-8. */
static json_t *encode_text(const char *bytes)
{
	json_t *string = json_string(bytes);

	return string ? string : json_string("?");
}

static json_t *describe_session(const struct cks_session_info *s)
{
	const struct cks_suspension *u = &s->suspension;
	uint64_t away = cks_suspension_away(u);
	const char *state =
		cks_disconnected(s) && u->state == CK_RUNNING ? "kept" : cks_suspension_name(u);
	char name[CK_SESSION_NAME];

	return json_pack("{s:s, s:i, s:o, s:i, s:o, s:s, s:I, s:I}", "session",
			 cks_session_name(s, name), "pid", (int)s->pid, "program",
			 encode_text(s->program), "client_pid", (int)s->client_pid, "identity",
			 encode_text(s->owner.identity.name), "state", state, "memory",
			 (json_int_t)((away ? u->bytes : s->memory) - away), "host_memory",
			 (json_int_t)away);
}

static json_t *list_sessions(struct cks_server *server, const json_t *request,
			     struct cks_asker asker)
{
	json_t *list = json_array();

	(void)request;
	(void)asker;
	for (struct cks_session_info *s = NULL; (s = cks_workers_next(server->workers, s)) != NULL;)
		json_array_append_new(list, describe_session(s));
	return json_pack("{s:b, s:o}", "ok", 1, "sessions", list);
}

static const char *text_of(const json_t *object, const char *name)
{
	const char *text = json_string_value(json_object_get(object, name));

	return text ? text : "-";
}

static void print_sessions(const json_t *reply)
{
	const json_t *s;
	size_t i;

	printf("%-8s %7s  %-10s %10s  %-24s %s\n", "SESSION", "PID", "STATE", "MEMORY", "IDENTITY",
	       "PROGRAM");
	json_array_foreach(json_object_get(reply, "sessions"), i, s)
	{
		json_int_t bytes = json_integer_value(json_object_get(s, "memory"));

		printf("%-8s %7d  %-10s %6lld MiB  %-24s %s\n", text_of(s, "session"),
		       (int)json_integer_value(json_object_get(s, "pid")), text_of(s, "state"),
		       (long long)(bytes >> 20), text_of(s, "identity"), text_of(s, "program"));
	}
}

/* --- upgrade: the answer is the new program's, or that it is refused */

static json_t *upgrade_server(struct cks_server *server, const json_t *request,
			      struct cks_asker asker)
{
	(void)request;
	if (server->upgrade->asked)
		return cks_control_error("an upgrade is under way");
	server->upgrade->wanted = true;
	server->upgrade->asked = true;
	server->upgrade->asker = asker;
	return NULL;
}

static void print_upgrade(const json_t *reply)
{
	printf("upgraded to %s\n", text_of(reply, "release"));
}

/* --- suspend, resume */

/* The session that the request names; NULL: *@error says that there is none. */
static struct cks_session_info *session_of(struct cks_server *server, const json_t *request,
					   struct cks_asker asker, json_t **error)
{
	const char *name = json_string_value(json_object_get(request, "session"));
	struct cks_session_info *s = name ? cks_workers_find(server->workers, name) : NULL;

	/* a user does not learn of others' sessions */
	if (s && !cks_control_is_admin(server->control, asker) &&
	    !cks_control_owns(server->control, asker, s))
		s = NULL;
	if (!s)
		*error = name ? cks_control_error("there is no session %s", name)
			      : cks_control_error("it needs a \"session\"");
	if (s && cks_travels_has(server->travels, s->number)) {
		*error = cks_control_error("session %s is being written into files", name);
		return NULL;
	}
	return s;
}

static json_t *suspend_session(struct cks_server *server, const json_t *request,
			       struct cks_asker asker)
{
	const char *command = json_string_value(json_object_get(request, "command"));
	const char *until = json_string_value(json_object_get(request, "until"));
	json_t *error = NULL;
	struct cks_session_info *s = session_of(server, request, asker, &error);

	if (!s)
		return error;
	if (until && strcmp(until, "use") != 0 && strcmp(until, "resume") != 0)
		return cks_control_error("\"until\" is \"use\" or \"resume\"");
	return cks_suspend(server->suspender, s,
			   (struct cks_suspend_wish){.held = !until || strcmp(until, "resume") == 0,
						     .park = strcmp(command, "park") == 0},
			   &asker);
}

static const char *device_of(const json_t *request)
{
	return json_string_value(json_object_get(request, "device"));
}

static json_t *resume_session(struct cks_server *server, const json_t *request,
			      struct cks_asker asker)
{
	json_t *error = NULL;
	struct cks_session_info *s = session_of(server, request, asker, &error);

	return s ? cks_resume(server->suspender, s, device_of(request), &asker) : error;
}

static json_t *end_session(struct cks_server *server, const json_t *request, struct cks_asker asker)
{
	json_t *error = NULL;
	struct cks_session_info *s = session_of(server, request, asker, &error);

	if (!s)
		return error;
	return cks_workers_end(s, cks_control_is_admin(server->control, asker)
					  ? "an administrator has ended the session"
					  : "its owner has ended the session")
		       ? json_pack("{s:b}", "ok", 1)
		       : cks_control_error("its worker does not respond");
}

/* As SIGHUP, but it answers: systemctl reload reports a wrong file to its caller. */
static json_t *reload_files(struct cks_server *server, const json_t *request,
			    struct cks_asker asker)
{
	char why[CK_RELOAD_WHY];

	(void)request;
	(void)asker;
	return cks_reload_run(server->files, "reload", why) == 0 ? json_pack("{s:b}", "ok", 1)
								 : cks_control_error("%s", why);
}

/* Its options, with their origins, and the content of its files. */
static json_t *show_config(struct cks_server *server, const json_t *request, struct cks_asker asker)
{
	char *shown = NULL;
	size_t size;
	FILE *out = open_memstream(&shown, &size);
	json_t *reply;

	(void)request;
	(void)asker;
	if (!out)
		return cks_control_error("out of memory");
	cks_options_show(server->options, out);
	fclose(out);
	reply = json_pack("{s:b, s:o}", "ok", 1, "text", encode_text(shown));
	free(shown);
	return reply;
}

static void print_config(const json_t *reply)
{
	fputs(text_of(reply, "text"), stdout);
}

/* As SIGTERM with --drain; a second time it changes nothing. */
static json_t *drain_server(struct cks_server *server, const json_t *request,
			    struct cks_asker asker)
{
	const char *time = json_string_value(json_object_get(request, "time"));
	struct cks_limits limits = server->options->limits;
	char why[CK_LIMIT_WHY];

	(void)asker;
	if (time && cks_limits_set(&limits, CK_LIMIT_DRAIN, time, why) < 0)
		return cks_control_error("drain: %s: %s", time, why);
	if (limits.value[CK_LIMIT_DRAIN] == 0)
		return cks_control_error("the server has no --drain: give a time, as in 10m");
	*server->drain = limits.value[CK_LIMIT_DRAIN];
	return json_pack("{s:b, s:i}", "ok", 1, "session_count",
			 (int)cks_workers_serving(server->workers));
}

static void print_drain(const json_t *reply)
{
	int count = (int)json_integer_value(json_object_get(reply, "session_count"));

	if (count == 0)
		printf("it stops now: it has no sessions\n");
	else
		printf("it stops when its last session has ended (%d now)\n", count);
}

static void print_moved(const json_t *reply)
{
	const json_t *device = json_object_get(reply, "device");

	printf("%s: %lld MiB in %d ms", text_of(reply, "session"),
	       (long long)json_integer_value(json_object_get(reply, "memory")) >> 20,
	       (int)json_integer_value(json_object_get(reply, "ms")));
	if (device)
		printf(", on GPU %d", (int)json_integer_value(device));
	printf("\n");
}

/* --- checkpoint, restore, move: migration.c */

static void print_checkpoint(const json_t *reply)
{
	printf("%lld MiB, compressed to %lld MiB\n",
	       (long long)json_integer_value(json_object_get(reply, "size")) >> 20,
	       (long long)json_integer_value(json_object_get(reply, "stored")) >> 20);
}

static void print_restore(const json_t *reply)
{
	printf("session %s\n", text_of(reply, "session"));
}

static void print_move(const json_t *reply)
{
	int rounds = (int)json_integer_value(json_object_get(reply, "rounds"));

	printf("%lld MiB of GPU memory have moved",
	       (long long)json_integer_value(json_object_get(reply, "memory")) >> 20);
	if (json_integer_value(json_object_get(reply, "sent")) > 0)
		printf(", %lld MiB were sent",
		       (long long)json_integer_value(json_object_get(reply, "sent")) >> 20);
	if (rounds > 0)
		printf(", %d round%s beside the program", rounds, rounds == 1 ? "" : "s");
	if (json_object_get(reply, "pause_ms"))
		printf("; a pause of %lld ms",
		       (long long)json_integer_value(json_object_get(reply, "pause_ms")));
	printf("\n");
}

const struct cks_command cks_commands[] = {
	{.name = "sessions",
	 .arguments = "",
	 .run = list_sessions,
	 .print = print_sessions,
	 .only_reads = true},
	{.name = "status",
	 .arguments = "",
	 .run = cks_report_status,
	 .print = print_sessions,
	 .for_users = true,
	 .only_reads = true},
	{.name = "config",
	 .arguments = "",
	 .run = show_config,
	 .print = print_config,
	 .only_reads = true},
	{.name = "reload", .arguments = "", .run = reload_files},
	{.name = "drain", .arguments = "[time]", .run = drain_server, .print = print_drain},
	{.name = "upgrade", .arguments = "", .run = upgrade_server, .print = print_upgrade},
	{.name = "suspend",
	 .arguments = "session [until]",
	 .run = suspend_session,
	 .print = print_moved,
	 .for_users = true},
	{.name = "park",
	 .arguments = "session [until]",
	 .run = suspend_session,
	 .print = print_moved,
	 .for_users = true},
	{.name = "resume",
	 .arguments = "session [device]",
	 .run = resume_session,
	 .print = print_moved,
	 .for_users = true},
	{.name = "end", .arguments = "session", .run = end_session, .for_users = true},
	{.name = "checkpoint",
	 .arguments = "session directory [address]",
	 .run = cks_migration_checkpoint,
	 .print = print_checkpoint},
	{.name = "restore",
	 .arguments = "directory [until]",
	 .run = cks_migration_restore,
	 .print = print_restore},
	{.name = "move",
	 .arguments = "session address [via]",
	 .run = cks_migration_move,
	 .act = cks_ctl_move,
	 .print = print_move},
	{.name = "receive",
	 .arguments = "[directory]",
	 .run = cks_migration_receive,
	 .act = cks_ctl_receive},
	{.name = NULL},
};
