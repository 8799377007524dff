/*
 * command/sessions/session.c - commands for one session of a server on this host: suspend, park,
 * resume, end, checkpoint, restore; and drain, for all of them.
 */
#include <getopt.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "command/config/command.h"
#include "command/sessions/control.h"
#include "command/sessions/wait_display.h"
#include "util/env.h"
#include "util/until.h"
#include "util/util.h"

#define CK_EVERY_MAX 1000000 /* seconds */

static const struct option options[] = {{"server", required_argument, NULL, 's'},
					{"every", required_argument, NULL, 'e'},
					{NULL, 0, NULL, 0}};

/* The arguments of a command: their names in a request. */
static const struct {
	const char *command, *arguments[3];
	int least; /* that must be given */
} forms[] = {
	{"suspend", {"session"}, 1},
	{"park", {"session"}, 1},
	{"resume", {"session", "device"}, 1},
	{"end", {"session"}, 1},
	{"checkpoint", {"session", "directory", "address"}, 2},
	{"restore", {"directory"}, 1},
	{"drain", {"time"}, 0},
};

/* The server has another current folder. */
static json_t *value_of(const char *name, const char *word)
{
	char folder[4096];

	if (strcmp(name, "directory") == 0 && word[0] != '/' && getcwd(folder, sizeof(folder)))
		return json_sprintf("%s/%s", folder, word);
	return json_string(word);
}

/* Is one of @words empty, as a variable that a script has not set? It would be this folder, or any
 * session. Printed. */
static bool has_empty(const char *command, char *const *words)
{
	for (int i = 0; words[i]; i++) {
		if (!*words[i]) {
			ckx_error("%s: argument %d is empty", command, i + 1);
			return true;
		}
	}
	return false;
}

/* The request for @words, ended by NULL; or NULL: too few, or too many. */
static json_t *make_request(const char *command, char **words)
{
	json_t *request = json_pack("{s:s}", "command", command);
	size_t form = 0;
	int i = 0;

	while (strcmp(forms[form].command, command) != 0)
		form++;
	for (; i < 3 && forms[form].arguments[i] && words[i]; i++)
		json_object_set_new(request, forms[form].arguments[i],
				    value_of(forms[form].arguments[i], words[i]));
	if (i >= forms[form].least && !words[i])
		return request;
	json_decref(request);
	return NULL;
}

static void print_moved(const char *session, const json_t *reply)
{
	const json_t *device = json_object_get(reply, "device");

	printf("%s: %lld MiB in %d ms", session,
	       (long long)json_integer_value(json_object_get(reply, "memory")) >> 20,
	       (int)json_integer_value(json_object_get(reply, "ms")));
	if (device)
		printf(", on GPU %d", (int)json_integer_value(device));
	printf("\n");
}

static void print_reply(const json_t *reply)
{
	const char *session = json_string_value(json_object_get(reply, "session"));
	const json_t *ms = json_object_get(reply, "ms"), *size = json_object_get(reply, "size");
	const json_t *count = json_object_get(reply, "session_count");
	const json_t *pause = json_object_get(reply, "pause_ms");

	if (count && json_integer_value(count) == 0)
		printf("the server stops now: it has no sessions\n");
	else if (count)
		printf("the server stops when its last session has ended (%d now)\n",
		       (int)json_integer_value(count));
	else if (ms)
		print_moved(session ? session : "session", reply);
	else if (pause)
		printf("%lld MiB, of which %lld MiB were written; a pause of %d ms\n",
		       (long long)json_integer_value(size) >> 20,
		       (long long)json_integer_value(json_object_get(reply, "written")) >> 20,
		       (int)json_integer_value(pause));
	else if (size)
		printf("%lld MiB, compressed to %lld MiB\n",
		       (long long)json_integer_value(size) >> 20,
		       (long long)json_integer_value(json_object_get(reply, "stored")) >> 20);
	else if (session)
		printf("session %s\n", session);
}

/* The line for a terminal while @command carries out @request: the memory of the session is asked
 * for. */
static void describe_command(int fd, const char *command, const json_t *request,
			     char what[CKX_WAIT_TEXT])
{
	const char *session = json_string_value(json_object_get(request, "session"));
	json_t *status = NULL;

	if (session && ckx_wait_seen())
		status = ckx_control_try(fd, json_pack("{s:s}", "command", "status"));
	ckx_wait_text(command, session, status, what);
	json_decref(status);
}

/* Send @request, which it takes, to @server, and print the reply. */
static int ask_server(const char *server, const char *command, json_t *request)
{
	char what[CKX_WAIT_TEXT], where[4096 + 256];
	const char *folder = json_string_value(json_object_get(request, "directory"));
	json_t *reply;
	int fd = ckx_control_open(server);

	if (fd < 0) {
		json_decref(request);
		return CKX_FAILED;
	}
	snprintf(where, sizeof(where), "%s", folder ? folder : "");
	describe_command(fd, command, request, what);
	reply = ckx_control_ask_long(fd, request, what, where[0] ? where : NULL);
	close(fd);
	if (!reply)
		return CKX_FAILED;
	print_reply(reply);
	fflush(stdout);
	json_decref(reply);
	return CKX_OK;
}

/* The same again and again, @seconds from begin to begin, as long as it succeeds. */
static int ask_every(const char *server, const char *command, json_t *request, uint64_t seconds)
{
	int64_t next = ck_now_ms();
	int status;

	json_object_set_new(request, "every", json_integer((json_int_t)seconds));
	while ((status = ask_server(server, command, json_incref(request))) == CKX_OK) {
		next += (int64_t)seconds * 1000;
		while (ck_now_ms() < next)
			poll(NULL, 0, (int)ck_min(next - ck_now_ms(), (int64_t)60000));
		next = ck_now_ms();
	}
	json_decref(request);
	return status;
}

int ckx_session(const struct ckx_command *self, int argc, char **argv)
{
	const char *server = NULL;
	uint64_t every = 0;
	json_t *request;
	int option;

	while ((option = getopt_long(argc, argv, "s:e:", options, NULL)) != -1) {
		if (option == 's')
			server = optarg;
		else if (option != 'e' || strcmp(self->name, "checkpoint") != 0 ||
			 ck_env_time(optarg, &every) < 0 || every == 0 || every > CK_EVERY_MAX)
			return ckx_usage(self);
	}
	if (has_empty(self->name, argv + optind))
		return CKX_USAGE;
	request = make_request(self->name, argv + optind);
	if (!request)
		return ckx_usage(self);
	return every ? ask_every(server, self->name, request, every)
		     : ask_server(server, self->name, request);
}
