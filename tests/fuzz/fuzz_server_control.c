/*
 * tests/fuzz/fuzz_server_control.c - what users write to the control socket: each line gets one
 * answer, a JSON object, or the connection is closed. The commands here do nothing, so that no
 * process is started.
 */
#define _GNU_SOURCE
#include <jansson.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/control/control.h"
#include "tests/fuzz/standalone.h"
#include "util/address/unixsock.h"

#define ROUNDS 8

static int carried_out;

static json_t *repeat(struct cks_server *server, const json_t *request, struct cks_asker asker)
{
	(void)asker;
	CK_FUZZ_CHECK(json_is_object(request) && server->control);
	carried_out++;
	return json_pack("{s:b, s:O}", "ok", 1, "request", request);
}

static const struct cks_command commands[] = {{.name = "repeat", .run = repeat},
					      {.name = "status", .run = repeat, .for_users = true},
					      {.name = NULL}};

/* Each line of the answers is an object with "ok". */
static size_t check_answers(int fd)
{
	static char text[1 << 20];
	size_t size = 0, lines = 0;
	ssize_t n;

	while (size < sizeof(text) &&
	       (n = recv(fd, text + size, sizeof(text) - size, MSG_DONTWAIT)) > 0)
		size += (size_t)n;
	for (char *at = text, *end; (end = memchr(at, '\n', size - (size_t)(at - text)));
	     at = end + 1) {
		json_t *answer = json_loadb(at, (size_t)(end - at), 0, NULL);

		CK_FUZZ_CHECK(json_is_boolean(json_object_get(answer, "ok")));
		json_decref(answer);
		lines++;
	}
	return lines;
}

static void turn(struct cks_server *server)
{
	struct pollfd fds[CK_CONTROL_POLL];

	cks_control_poll(server->control, fds);
	poll(fds, CK_CONTROL_POLL, 0);
	cks_control_run(server->control, fds, server);
}

/* Made once; the last input's connection has been closed. */
static struct cks_server *server_here(char path[64])
{
	static struct cks_server server = {.commands = commands};

	snprintf(path, 64, "/tmp/cricket-fuzz-%d.ctl", (int)getpid());
	if (!server.control)
		server.control = cks_control_create(path, NULL);
	CK_FUZZ_CHECK(server.control);
	return &server;
}

/* The first byte says by which socket the rest comes, and how it is cut. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char path[64];
	struct cks_server *server = server_here(path);
	size_t step, answers = 0, lines = 0;
	int fd;

	if (size < 2)
		return 0;
	step = (size_t)(data[0] >> 1) * 16 + 1;
	if (data[0] & 1)
		memcpy(strrchr(path, '.'), ".status", sizeof(".status"));
	fd = ck_unix_dial(path, SOCK_STREAM);
	CK_FUZZ_CHECK(fd >= 0);
	carried_out = 0;
	turn(server); /* it accepts */
	for (size_t at = 1; at < size; at += step) {
		size_t n = step < size - at ? step : size - at;

		for (size_t i = 0; i < n; i++)
			lines += data[at + i] == '\n';
		if (send(fd, data + at, n, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
			break; /* closed: a line was too long */
		turn(server);
		answers += check_answers(fd);
	}
	shutdown(fd, SHUT_WR);
	for (int i = 0; i < ROUNDS; i++) {
		turn(server);
		answers += check_answers(fd);
	}
	CK_FUZZ_CHECK(answers <= lines && (size_t)carried_out <= lines);
	close(fd);
	turn(server);
	return 0;
}
