/*
 * server/control/ctl_move.c - `--ctl move` and `--ctl receive`; see ctl.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "server/checkpoint/criu.h"
#include "server/checkpoint/move.h"
#include "server/checkpoint/stream.h"
#include "server/control/control.h"
#include "server/control/ctl.h"
#include "server/options/options.h"
#include "util/address/address.h"
#include "util/process/fd.h"
#include "util/util.h"

#define CK_RELAY_BLOCK ((size_t)1 << 20)
#define CK_LEAVE_MS 5000 /* for the other end to end after a move */

/* --- move: the sender's side */

/* In a child: the command that leads to the other server, with socket @stream as its input and
 * output. */
static _Noreturn void become_via(const char *via, const char *address, int stream)
{
	char why[CK_ADDRESS_WHY];
	struct ck_address a;

	if (dup2(stream, 0) < 0 || dup2(stream, 1) < 0)
		_exit(126);
	if (via)
		execl("/bin/sh", "sh", "-c", via, (char *)NULL);
	else if (ck_address_parse(address, &a, why) == 0 && a.host[0])
		/* its end is noticed where the other machine, or the network, is gone */
		execlp("ssh", "ssh", "-o", "ServerAliveInterval=10", "--", a.host,
		       "cricket-rpc-server --ctl receive", (char *)NULL);
	_exit(127);
}

static pid_t start_via(const char *via, const char *address, int *stream)
{
	int pair[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	pid = fork();
	if (pid == 0)
		become_via(via, address, pair[1]);
	close(pair[1]);
	if (pid < 0)
		close(pair[0]);
	*stream = pair[0];
	return pid;
}

/* Read the receiver's first object. NULL: it can take a session, and @request has how; else an
 * error reply. */
static json_t *check_ready(int stream, json_t *request)
{
	struct cks_why why;
	json_t *ready = cks_stream_read(stream, &why), *error = NULL;
	const char *text = json_string_value(json_object_get(ready, "error"));

	if (!ready)
		error = cks_control_error(
			"no receiver on the other machine, where this user must be able to run "
			"`cricket-rpc-server --ctl receive`: %s",
			why.text);
	else if (!json_is_true(json_object_get(ready, "ok")))
		error = cks_control_error("the other server: %s", text ? text : "it failed");
	else if (json_integer_value(json_object_get(ready, "format")) != CK_STREAM_FORMAT)
		error = cks_control_error(
			"the other server's release does not understand this one");
	json_object_set_new(
		request, "format",
		json_integer(ck_max(json_integer_value(json_object_get(ready, "newest")),
				    (json_int_t)CK_STREAM_FORMAT)));
	json_object_set(request, "lanes", json_object_get(ready, "lanes"));
	json_decref(ready);
	return error;
}

/* The other end may stand still. Whoever moves the session waits for it only so long. */
static void leave_via(pid_t pid, bool moved)
{
	struct pollfd ended = {.fd = (int)syscall(SYS_pidfd_open, pid, 0), .events = POLLIN};

	if (ended.fd >= 0 && poll(&ended, 1, CK_LEAVE_MS) == 0) {
		if (!moved)
			kill(pid, SIGTERM);
	} else {
		while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
			;
	}
	if (ended.fd >= 0)
		close(ended.fd);
}

json_t *cks_ctl_move(int server, json_t *request, const struct cks_options *options)
{
	const char *via = json_string_value(json_object_get(request, "via"));
	const char *address = json_string_value(json_object_get(request, "address"));
	json_t *reply;
	int stream = -1;
	pid_t pid = start_via(via, address, &stream);

	(void)options;
	if (pid < 0) {
		json_decref(request);
		return cks_control_error("no process for the connection: %s", strerror(-pid));
	}
	reply = check_ready(stream, request);
	if (reply)
		json_decref(request);
	else
		reply = cks_ctl_ask(server, request, stream);
	close(stream);
	leave_via(pid, json_is_true(json_object_get(reply, "ok")));
	return reply;
}

/* --- receive */

/* One direction of a relay; it ends with its input, and ends the output then. */
struct relay {
	int from, to;
};

static void *run_relay(void *data)
{
	const struct relay *relay = data;
	unsigned char *buffer = malloc(CK_RELAY_BLOCK);
	ssize_t n = 1;

	while (buffer && n > 0) {
		n = read(relay->from, buffer, CK_RELAY_BLOCK);
		if (n < 0 && errno == EINTR)
			n = 1;
		else if (n > 0 && ck_fd_write_full(relay->to, buffer, (size_t)n) < 0)
			n = -1;
	}
	shutdown(relay->to, SHUT_WR);
	free(buffer);
	return NULL;
}

/* Whether standard input and output are the two directions of one socket. sshd makes one. */
static bool has_one_socket(void)
{
	struct stat in, out;

	return fstat(STDIN_FILENO, &in) == 0 && fstat(STDOUT_FILENO, &out) == 0 &&
	       S_ISSOCK(in.st_mode) && in.st_dev == out.st_dev && in.st_ino == out.st_ino;
}

/* A child that connects standard input and output with a socket, because CRIU needs one socket for
 * both directions. It copies all bytes once more. */
static pid_t start_relay(int *stream)
{
	struct relay in = {.from = STDIN_FILENO}, out = {.to = STDOUT_FILENO};
	pthread_t thread;
	int pair[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	pid = fork();
	if (pid == 0) {
		close(pair[0]);
		in.to = out.from = pair[1];
		if (pthread_create(&thread, NULL, run_relay, &in) != 0)
			_exit(1);
		run_relay(&out);
		_exit(0);
	}
	close(pair[1]);
	if (pid < 0)
		close(pair[0]);
	*stream = pair[0];
	return pid;
}

/* One socket for both directions: 0 or -errno. *@relay: the child for it; 0: there is none. */
static int open_stream(int *stream, pid_t *relay)
{
	*relay = 0;
	if (!has_one_socket()) {
		*relay = start_relay(stream);
		return ck_min(*relay, 0);
	}
	*stream = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	return *stream < 0 ? -errno : 0;
}

/* Where a session comes. */
struct place {
	int server;
	const struct cks_options *options;
	struct cks_arrival arrival;
};

static bool takes_files(int dir)
{
	static const char name[] = "alive";
	int fd = openat(dir, name, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);

	if (fd >= 0)
		close(fd);
	return fd >= 0 && unlinkat(dir, name, 0) == 0;
}

static bool answers(const struct cks_options *options)
{
	int fd = cks_ctl_dial(options);
	json_t *reply;
	bool answered;

	if (fd < 0)
		return false;
	reply = cks_ctl_ask(fd, json_pack("{s:s}", "command", "sessions"), -1);
	answered = reply != NULL;
	json_decref(reply);
	close(fd);
	return answered;
}

/* While the session is restored, the program waits: it is worth that only as long as the server
 * answers and the disk takes files. If one hangs, this does too. */
static void say_alive(void *data)
{
	struct place *place = data;

	if (takes_files(place->arrival.store->dir) && answers(place->options))
		cks_stream_alive(&place->arrival.alive);
}

static json_t *ask_alive(struct place *place, json_t *request, int pass)
{
	return cks_ctl_await(place->server, request, pass, say_alive, place, CK_STREAM_ALIVE_MS);
}

/* Have the server restore it, with its device memory in a file, if there is any, and resume; the
 * reply. *@name: the session, the caller's to free; NULL: there is none. */
static json_t *restore_session(struct place *place, char **name)
{
	json_t *reply =
		ask_alive(place,
			  json_pack("{s:s, s:s, s:s, s:b}", "command", "restore", "directory",
				    place->arrival.store->part, "until", "resume", "received", 1),
			  place->arrival.chunks.file);
	const char *session = json_string_value(json_object_get(reply, "session"));

	*name = session ? strdup(session) : NULL;
	if (!reply)
		return cks_control_error("the server has ended");
	if (!*name)
		return reply;
	json_decref(reply);
	reply = ask_alive(place, json_pack("{s:s, s:s}", "command", "resume", "session", *name),
			  -1);
	return reply ? reply : cks_control_error("the server has ended");
}

/* From the pages to the end of the exchange; the reply of `receive`. */
static json_t *take_session(struct place *place)
{
	struct cks_arrival *arrival = &place->arrival;
	struct cks_why why = {.text = ""};
	char *name = NULL;
	json_t *reply;
	bool ends;
	int ret;

	if (cks_move_receive(arrival, &why) < 0)
		reply = cks_control_error("%s", why.text);
	else
		reply = restore_session(place, &name);
	cks_lanes_close(arrival->door);
	cks_chunks_free(&arrival->chunks); /* the session has it */
	ends = !json_is_true(json_object_get(reply, "ok"));
	ret = cks_move_confirm(arrival->stream, json_incref(reply));
	if (ret < 0 && !ends) {
		ends = ret == -ECANCELED;
		json_decref(reply);
		/* only the other server tells the program to come here */
		reply = cks_control_error(
			ends ? "the other server has not released the session"
			     : "the other server has not said whether it has released the "
			       "session, which ends unless its program comes (--keep)");
	}
	if (name && ends)
		json_decref(cks_ctl_ask(place->server,
					json_pack("{s:s, s:s}", "command", "end", "session", name),
					-1));
	free(name);
	return reply;
}

/* Let the server prepare for a session. 0: it has, with the GPUs @here, and listens @at; 1: it is
 * of a release that does that later; or -errno. */
static int prepare_server(int server, struct cks_manifest_gpu *here, char at[CK_ADDRESS_MAX],
			  struct cks_why *why)
{
	json_t *reply = cks_ctl_ask(server, json_pack("{s:s}", "command", "receive"), -1);
	const char *error = json_string_value(json_object_get(reply, "error"));
	const char *listens = json_string_value(json_object_get(reply, "listens"));
	int ret = 0;

	snprintf(at, CK_ADDRESS_MAX, "%s", listens ? listens : "");
	if (!cks_manifest_gpu_take(json_object_get(reply, "gpu"), here))
		ret = error && strstr(error, "there is no command")
			      ? 1
			      : cks_why_set(why, EIO, "%s", error ? error : "the server has ended");
	json_decref(reply);
	return ret;
}

/* A folder for it: @parent, or where there is room for large files. Other users can make files
 * there, but not of this name. */
static int begin_folder(const char *parent, struct cks_store *store, struct cks_why *why)
{
	char path[CK_STORE_PATH];
	uint64_t number;

	if (getrandom(&number, sizeof(number), 0) != (ssize_t)sizeof(number))
		return cks_why_set(why, EIO, "random numbers: %m");
	snprintf(path, sizeof(path), "%s/cricket-receive-%016llx", parent ? parent : "/var/tmp",
		 (unsigned long long)number);
	return cks_store_begin(path, false, store, why);
}

json_t *cks_ctl_receive(int server, json_t *request, const struct cks_options *options)
{
	const char *parent = json_string_value(json_object_get(request, "directory"));
	struct cks_why why = {.text = ""};
	struct cks_store store = {.dir = -1};
	struct cks_manifest_gpu here = {.count = 0};
	struct cks_lanes_door door = {.fd = -1};
	struct place place = {.server = server,
			      .options = options,
			      .arrival = {.criu = options->criu,
					  .store = &store,
					  .chunks = CK_CHUNKS_NONE,
					  .door = &door}};
	char at[CK_ADDRESS_MAX] = "";
	json_t *reply;
	int *stream = &place.arrival.stream, ret;
	pid_t relay;

	/* the end of the connection ends it, and then it cleans up */
	signal(SIGHUP, SIG_IGN);
	signal(SIGINT, SIG_IGN);
	signal(SIGTERM, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	ret = open_stream(stream, &relay);
	if (ret < 0) {
		json_decref(request);
		return cks_control_error("no process for the connection: %s", strerror(-ret));
	}
	ret = cks_criu_check(options->criu, &why);
	if (ret == 0)
		ret = prepare_server(server, &here, at, &why);
	if (ret == 0)
		place.arrival.here = &here;
	if (ret >= 0)
		ret = begin_folder(parent, &store, &why);
	json_decref(request);
	reply = ret < 0 ? cks_control_error("%s", why.text)
			: json_pack("{s:b, s:i, s:i, s:o*}", "ok", 1, "format", CK_STREAM_FORMAT,
				    "newest", CK_STREAM_ALIVE, "lanes",
				    cks_lanes_listen(&door, at[0] ? at : NULL));
	if (cks_stream_write(*stream, json_incref(reply)) == 0 && ret == 0) {
		json_decref(reply);
		reply = take_session(&place);
	}
	cks_lanes_close(&door);
	cks_store_abandon(&store);
	close(*stream);
	if (relay > 0)
		waitpid(relay, NULL, 0);
	return reply;
}
