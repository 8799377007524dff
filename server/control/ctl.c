/*
 * server/control/ctl.c - `cricket-rpc-server --ctl COMMAND [ARGUMENT]...`; see ctl.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "rpc/chan.h"
#include "server/control/control.h"
#include "server/control/ctl.h"
#include "server/options/options.h"
#include "server/processes/json_line.h"
#include "util/process/fd.h"
#include "util/address/unixsock.h"

#define SUFFIX ".ctl" /* of the control socket, beside the server's own */

/* --- the request */

static int print_usage(const struct cks_command *command)
{
	fprintf(stderr, "cricket-rpc-server: usage: --ctl %s%s%s\n", command->name,
		*command->arguments ? " " : "", command->arguments);
	return 2;
}

static int print_commands(const struct cks_command *commands, const char *name)
{
	fprintf(stderr,
		name ? "cricket-rpc-server: --ctl: there is no command %s. Commands:\n"
		     : "cricket-rpc-server: --ctl takes a command:\n",
		name);
	for (const struct cks_command *c = commands; c->name; c++)
		fprintf(stderr, "  --ctl %s%s%s\n", c->name, *c->arguments ? " " : "",
			c->arguments);
	return 2;
}

/* Take the next name from the list at *@at; an optional one is without its brackets. 0: the end. */
static size_t next_name(const char **at, char *out, size_t room, bool *optional)
{
	size_t size;

	*at += strspn(*at, " ");
	size = strcspn(*at, " ");
	*optional = **at == '[';
	snprintf(out, room, "%.*s", (int)(*optional ? size - 2 : size), *at + *optional);
	*at += size;
	return size;
}

/* A word as the server needs it: the server has another current folder. */
static json_t *make_word(const char *name, const char *word)
{
	char folder[4096];

	if (strcmp(name, "directory") == 0 && word[0] != '/' && getcwd(folder, sizeof(folder)))
		return json_sprintf("%s/%s", folder, word);
	return json_string(word);
}

/* The request for @words, or NULL. */
static json_t *make_request(const struct cks_command *command, char *const *words, size_t count)
{
	json_t *request = json_pack("{s:s}", "command", command->name);
	const char *at = command->arguments;
	char name[32];
	bool optional, missing = false;
	size_t i = 0;

	while (next_name(&at, name, sizeof(name), &optional)) {
		if (i < count)
			json_object_set_new(request, name, make_word(name, words[i++]));
		else
			missing |= !optional;
	}
	if (i == count && !missing)
		return request;
	json_decref(request);
	return NULL;
}

/* --- the connection */

/* @path has the suffix if it is the server's own socket. */
static int dial_control(const char *path, const char *suffix)
{
	char control[128];
	int n = snprintf(control, sizeof(control), "%s%s", path, suffix);

	return n < (int)sizeof(control) ? ck_unix_dial(control, SOCK_STREAM) : -ENAMETOOLONG;
}

static int try_usual(const char *path, void *own)
{
	(void)own;
	return dial_control(path, SUFFIX);
}

/* At the given path, beside the given unix socket, or at the first of the usual places. */
int cks_ctl_dial(const struct cks_options *o)
{
	const char *path = o->ctl_socket ? o->ctl_socket : o->unix_path;
	const char *suffix = o->ctl_socket ? "" : SUFFIX;
	int fd = path ? dial_control(path, suffix) : ck_chan_try_usual(try_usual, NULL, &path);

	if (fd < 0)
		fprintf(stderr, "cricket-rpc-server: no server at %s%s: %s\n", path, suffix,
			strerror(-fd));
	return fd;
}

json_t *cks_ctl_await(int server, json_t *request, int pass, void (*meanwhile)(void *data),
		      void *data, int ms)
{
	/* a descriptor travels with a byte, here a blank before the JSON */
	int ret = pass >= 0 ? ck_fd_send(server, pass, " ", 1) : 0;
	struct pollfd answered = {.fd = server, .events = POLLIN};
	json_t *reply = NULL;
	FILE *in;

	if (ret == 0)
		ret = cks_json_line_write(server, request);
	json_decref(request);
	if (ret == 0 && meanwhile) {
		do {
			meanwhile(data);
		} while (poll(&answered, 1, ms) == 0);
	}
	if (ret == 0 && (in = fdopen(dup(server), "r")) != NULL) {
		reply = json_loadf(in, JSON_DISABLE_EOF_CHECK, NULL);
		fclose(in);
	}
	return reply;
}

json_t *cks_ctl_ask(int server, json_t *request, int pass)
{
	return cks_ctl_await(server, request, pass, NULL, NULL, -1);
}

static int print_reply(const struct cks_command *command, const json_t *reply)
{
	const char *error = json_string_value(json_object_get(reply, "error"));

	if (!json_is_true(json_object_get(reply, "ok"))) {
		fprintf(stderr, "cricket-rpc-server: %s: %s\n", command->name,
			error ? error : "the server has ended without an answer");
		return 1;
	}
	if (command->print)
		command->print(reply);
	return 0;
}

int cks_ctl_main(const struct cks_command *commands, const struct cks_options *o)
{
	const struct cks_command *command = commands;
	json_t *request, *reply;
	int fd, ret;

	while (o->word_count > 0 && command->name && strcmp(command->name, o->words[0]) != 0)
		command++;
	if (o->word_count == 0 || !command->name)
		return print_commands(commands, o->word_count ? o->words[0] : NULL);
	request = make_request(command, o->words + 1, o->word_count - 1);
	if (!request)
		return print_usage(command);
	fd = cks_ctl_dial(o);
	if (fd < 0) {
		json_decref(request);
		return 1;
	}
	reply = command->act ? command->act(fd, request, o) : cks_ctl_ask(fd, request, -1);
	ret = print_reply(command, reply);
	json_decref(reply);
	close(fd);
	return ret;
}
