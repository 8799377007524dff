/*
 * command/control.c - see control.h.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "command/command.h"
#include "command/control.h"
#include "command/server.h"
#include "command/wait.h"
#include "rpc/chan.h"
#include "util/fd.h"
#include "util/unixsock.h"
#include "util/util.h"

#define SUFFIX ".status"

static bool names_this_host(const char *address)
{
	static const char *const names[] = {"local", "localhost", "127.0.0.1", "[::1]"};

	if (strncmp(address, "tcp://", 6) == 0)
		address += 6;
	for (size_t i = 0; i < CK_ARRAY_SIZE(names); i++) {
		size_t n = strlen(names[i]);

		if (strncmp(address, names[i], n) == 0 && (!address[n] || address[n] == ':'))
			return true;
	}
	return !address[0];
}

static int dial(const char *socket)
{
	char path[CK_UNIX_PATH_MAX];
	int n = snprintf(path, sizeof(path), "%s" SUFFIX, socket);

	return n < (int)sizeof(path) ? ck_unix_dial(path, SOCK_STREAM) : -ENAMETOOLONG;
}

/* At the first of the usual places where a server answers. */
static int dial_usual(void)
{
	const char *path;
	int fd = -ENOENT, ret;

	for (unsigned int i = 0; fd < 0 && (path = ck_chan_default_unix(i)) != NULL; i++) {
		ret = dial(path);
		if (ret >= 0 || fd == -ENOENT)
			fd = ret;
	}
	return fd;
}

static int open_named(const char *named, bool says)
{
	struct ckx_server server;
	char file[CKX_TEXT], text[2 * CKX_TEXT + 8];
	int fd = ckx_server_name(named, &server, file);

	if (fd < 0)
		return fd;
	ckx_server_text(&server, text);
	if (strncmp(server.address, "unix:", 5) == 0) {
		fd = dial(server.address + 5);
	} else if (strncmp(server.address, "shm:", 4) == 0) {
		fd = dial(server.address + 4);
	} else if (names_this_host(server.address)) {
		fd = dial_usual();
	} else if (!says) {
		return -EREMOTE;
	} else {
		ckx_error("%s: the state of a server is available on its own machine only: run "
			  "this there, as in ssh HOST cricket status",
			  text);
		return -EREMOTE;
	}
	if (fd < 0 && says)
		ckx_error("no server on this host answers at %s: %s", text, strerror(-fd));
	return fd;
}

int ckx_control_open(const char *named)
{
	return open_named(named, true);
}

int ckx_control_reopen(const char *named)
{
	return open_named(named, false);
}

/* Take the end of a reply's line: else the next reply seems to begin with it. */
static void end_line(int fd)
{
	char c;

	if (recv(fd, &c, 1, MSG_PEEK | MSG_DONTWAIT) == 1 && c == '\n')
		recv(fd, &c, 1, MSG_DONTWAIT);
}

static json_t *try(int fd, json_t *request, const char *what, const char *folder)
{
	char *line = json_dumps(request, JSON_COMPACT);
	json_t *reply = NULL;

	json_decref(request);
	if (line && ck_fd_write_full(fd, line, strlen(line)) == 0 &&
	    ck_fd_write_full(fd, "\n", 1) == 0) {
		if (what)
			ckx_wait_show(fd, what, folder);
		reply = json_loadfd(fd, JSON_DISABLE_EOF_CHECK, NULL);
		end_line(fd);
	}
	free(line);
	return reply;
}

json_t *ckx_control_try(int fd, json_t *request)
{
	return try(fd, request, NULL, NULL);
}

json_t *ckx_control_ask_long(int fd, json_t *request, const char *what, const char *folder)
{
	json_t *reply = try(fd, request, what, folder);
	const char *error;

	if (json_is_true(json_object_get(reply, "ok")))
		return reply;
	error = json_string_value(json_object_get(reply, "error"));
	ckx_error("%s", error ? error : "the server has ended without an answer");
	json_decref(reply);
	return NULL;
}

json_t *ckx_control_ask(int fd, json_t *request)
{
	return ckx_control_ask_long(fd, request, NULL, NULL);
}
