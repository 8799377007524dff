/*
 * command/sessions/control.c - see control.h.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "command/config/command.h"
#include "command/config/server.h"
#include "command/sessions/control.h"
#include "command/sessions/local.h"
#include "command/sessions/wait_display.h"
#include "util/process/fd.h"
#include "util/address/server_addresses.h"
#include "util/util.h"

/* The address of the one server that @server stands for. -errno: @why says why not. */
static int one_address(const struct ckx_server *server, struct ck_address *address,
		       char why[CK_SERVER_ADDRESSES_WHY])
{
	struct ck_server_list *list = malloc(sizeof(*list));
	struct ck_server_addresses *places = malloc(sizeof(*places));
	int ret = list && places ? ck_servers_parse(server->address, list, why) : -ENOMEM;

	if (ret == 0)
		ret = ck_server_addresses_find(list->entries[0].address, places, why);
	if (ret == 0 && (list->count > 1 || places->count > 1)) {
		snprintf(why, CK_SERVER_ADDRESSES_WHY, "several servers: name one of them");
		ret = -E2BIG;
	}
	if (ret == 0)
		ret = ck_address_parse(places->list[0].address, address, why);
	free(places);
	free(list);
	return ret;
}

static int find_local(const struct ck_address *address, struct ckx_local *local)
{
	if (address->kind == CK_ADDRESS_USUAL || address->kind == CK_ADDRESS_LOCAL)
		return ckx_local_usual(local);
	if (address->kind == CK_ADDRESS_TCP)
		return ckx_local_listening(address, local);
	return address->kind == CK_ADDRESS_SSH ? -EREMOTE : ckx_local_dial(address->path, local);
}

/* Print why there is no connection, and the servers of this host if the one that is meant may be
 * among them. */
static void say_why(const struct ckx_server *server, const struct ck_address *address, int error)
{
	static const struct {
		int error;
		const char *text;
		bool elsewhere;
	} reasons[] = {
		{-EREMOTE,
		 "the state of a server is available on its own machine only: run this there, as "
		 "in ssh HOST cricket status",
		 true},
		{-EAGAIN, "no name server answers, which would know this name", true},
		{-EADDRNOTAVAIL, "nothing listens at this port of this host", false},
		{-ESRCH, "no server with a status socket says that it listens there", false},
		{-ENOTUNIQ, "more than one server says that it listens there", false},
	};
	char text[2 * CKX_TEXT + 8];
	size_t i = 0;

	if (error == -ENXIO) {
		ckx_server_unknown(server, address->host);
		return;
	}
	ckx_server_text(server, text);
	while (i < CK_ARRAY_SIZE(reasons) && reasons[i].error != error)
		i++;
	if (i < CK_ARRAY_SIZE(reasons))
		ckx_error("%s: %s", text, reasons[i].text);
	else
		ckx_error("no server answers at the status socket of %s: %s", text,
			  strerror(-error));
	if (i == CK_ARRAY_SIZE(reasons) || !reasons[i].elsewhere)
		ckx_local_print();
}

static int open_named(const char *named, bool says, struct ckx_local *local)
{
	struct ckx_server server;
	struct ck_address address;
	char file[CKX_TEXT], why[CK_SERVER_ADDRESSES_WHY] = "out of memory";
	int ret = ckx_server_name(named, &server, file);

	if (ret < 0)
		return ret;
	ret = one_address(&server, &address, why);
	if (ret < 0) {
		if (says)
			ckx_error("%s: %s", server.address, why);
		return ret;
	}
	ret = find_local(&address, local);
	if (ret < 0 && says)
		say_why(&server, &address, ret);
	return ret;
}

int ckx_control_find(const char *named, struct ckx_local *local)
{
	return open_named(named, true, local);
}

int ckx_control_open(const char *named)
{
	struct ckx_local local;
	int ret = open_named(named, true, &local);

	return ret < 0 ? ret : local.fd;
}

int ckx_control_reopen(const char *named)
{
	struct ckx_local local;
	int ret = open_named(named, false, &local);

	return ret < 0 ? ret : local.fd;
}

/* Take the end of a reply's line: else the next reply seems to begin with it. */
static void end_line(int fd)
{
	char c;

	if (recv(fd, &c, 1, MSG_PEEK | MSG_DONTWAIT) == 1 && c == '\n')
		recv(fd, &c, 1, MSG_DONTWAIT);
}

static json_t *send_request(int fd, json_t *request, const char *what, const char *folder)
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
	return send_request(fd, request, NULL, NULL);
}

json_t *ckx_control_ask_long(int fd, json_t *request, const char *what, const char *folder)
{
	json_t *reply = send_request(fd, request, what, folder);
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
