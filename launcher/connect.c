/*
 * launcher/connect.c - stdin to a daemon's socket, its replies to stdout; see connect.h.
 *
 * Replies are read whole before any of one is written, so that a daemon that dies leaves no half of
 * a document on stdout.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "launcher/connect.h"
#include "launcher/frame.h"
#include "launcher/input.h"
#include "launcher/reply.h"
#include "launcher/request.h"
#include "util/fd.h"
#include "util/unixsock.h"

#define REPLY_MAX UINT64_MAX / 4

/* Anybody can listen under a name in /tmp: data goes to this user's daemon, or root's. */
static bool is_trusted(int sock)
{
	struct ucred peer;
	socklen_t size = sizeof(peer);

	return getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
	       (peer.uid == geteuid() || peer.uid == 0);
}

static int dial(const char *path)
{
	struct sockaddr_un address;
	int size = ck_unix_address(path, &address), sock;

	if (size < 0)
		return size;
	sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (sock < 0)
		return -errno;
	if (connect(sock, (struct sockaddr *)&address, (socklen_t)size) == 0 && is_trusted(sock))
		return sock;
	close(sock);
	return -ECONNREFUSED;
}

/* What the command line says, with the folder that paths in requests are from. */
static int send_defaults(int sock, const json_t *defaults)
{
	char *folder = getcwd(NULL, 0), *text;
	json_t *message = json_deep_copy(defaults);
	int ret = -ENOMEM;

	json_object_set_new(message, "cmd", json_string("defaults"));
	if (folder)
		json_object_set_new(message, "cwd", json_string(folder));
	text = message ? json_dumps(message, JSON_COMPACT) : NULL;
	if (text)
		ret = ck_fd_write_full(sock, text, strlen(text));
	free(text);
	free(folder);
	json_decref(message);
	return ret;
}

static int tell(bool frame, struct ck_fail *fail)
{
	struct ck_out out = {0};
	int exit = fail->exit;

	ck_reply_fail(&out, frame, 0, fail);
	if (out.base)
		ck_fd_write_full(STDOUT_FILENO, out.base, out.size);
	free(out.base);
	ck_fail_clear(fail);
	return exit;
}

/* The exit code that a reply stands for. */
static int exit_of(const char *reply, size_t size)
{
	struct ck_fail fail = {0};
	struct ck_request request;
	json_t *error;
	int code = CK_EXIT_OK;

	/* Only an error object begins so, or the reply to an asynchronous launch. */
	if (!memmem(reply, ck_min(size, (size_t)256), "\"error\"", 7))
		return CK_EXIT_OK;
	if (ck_request_peek(&request, reply, size, NULL, NULL, &fail) < 0)
		return CK_EXIT_OK;
	error = json_object_get(request.root, "error");
	if (error)
		code = (int)json_integer_value(json_object_get(error, "exit"));
	ck_request_free(&request);
	return code;
}

/* One reply to stdout. 1: done, *exit is its code; 0: the daemon has closed. */
static int reply_pass(struct ck_input *input, struct ck_block *block, int *exit)
{
	struct ck_fail fail = {0};
	int ret = 0;

	ck_input_begin(input, 0);
	while (ret == 0 && !input->ended)
		ret = ck_input_read(input, block, &fail);
	ck_fail_clear(&fail);
	if (ret != 1)
		return ret;
	*exit = exit_of(block->map, input->have);
	ret = ck_fd_write_full(STDOUT_FILENO, block->map, input->have);
	if (ret == 0 && !input->frame)
		ret = ck_fd_write_full(STDOUT_FILENO, "\n", 1);
	ck_block_trim(block);
	return ret < 0 ? ret : 1;
}

/* stdin need not be one that reading waits for. */
static void await_input(void)
{
	struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};

	poll(&p, 1, -1);
}

/* One request: it is read whole, because where it ends is where reading stops. */
static int request_pass(const struct ck_options *options, int sock, struct ck_block *block,
			bool *frame, struct ck_fail *fail)
{
	struct ck_input input;
	int ret = ck_input_open(&input, STDIN_FILENO, options->input_max);

	if (ret < 0)
		return ck_fail_memory(fail);
	ck_input_begin(&input, 0);
	ret = 0;
	while (ret == 0 && !input.ended) {
		if (input.pending_size == 0)
			await_input();
		ret = ck_input_read(&input, block, fail);
	}
	*frame = input.frame;
	if (ret == 0)
		ret = ck_fail_input(fail, input.have ? "the message is cut off"
						     : "there is no request on stdin");
	if (ret == 1)
		ret = ck_fd_write_full(sock, block->map, input.have);
	ck_input_close(&input);
	return ret;
}

static int daemon_lost(bool frame)
{
	struct ck_fail fail = {0};

	ck_fail(&fail, CK_EXIT_SERVICE, "service", "DAEMON_LOST",
		"the daemon has closed the connection (a server's socket goes into REMOTE_GPU_ADDRESS, "
		"with --driver remote)");
	return tell(frame, &fail);
}

static int once(const struct ck_options *options, int sock, struct ck_input *replies,
		struct ck_block *block)
{
	struct ck_fail fail = {0};
	bool frame = options->frames;
	int exit;

	/* A daemon that closes while it is written to may have said why. */
	if (request_pass(options, sock, block, &frame, &fail) < 0 && fail.exit)
		return tell(frame, &fail);
	if (reply_pass(replies, block, &exit) != 1)
		return daemon_lost(frame);
	return exit;
}

/* The whole of stdin, by a thread, because replies come while it is still read. */
static void *pump(void *argument)
{
	int sock = *(int *)argument;
	char bytes[65536];
	ssize_t n;

	do {
		await_input();
		n = read(STDIN_FILENO, bytes, sizeof(bytes));
		if (n > 0 && ck_fd_write_full(sock, bytes, (size_t)n) < 0)
			break;
	} while (n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR)));
	shutdown(sock, SHUT_WR);
	return NULL;
}

static int batch(const struct ck_options *options, int sock, struct ck_input *replies,
		 struct ck_block *block)
{
	pthread_t thread;
	int first = 0, exit, ret;

	if (pthread_create(&thread, NULL, pump, &sock))
		return CK_EXIT_MEMORY;
	pthread_detach(thread);
	while ((ret = reply_pass(replies, block, &exit)) == 1)
		first = first ? first : exit;
	/* A daemon that goes in order closes at a reply's end, after all of stdin. */
	if (ret < 0 || replies->have > 0)
		return daemon_lost(options->frames);
	return first;
}

int ck_connect_run(const struct ck_options *options)
{
	struct ck_fail fail = {0};
	struct ck_input replies = {0};
	struct ck_block block;
	int sock = dial(options->daemon), ret;

	if (sock < 0 && options->connect_try)
		return -ECONNREFUSED;
	if (sock < 0) {
		ck_fail(&fail, CK_EXIT_SERVICE, "service", "NO_DAEMON",
			"%.200s: %s: is a gpu_launcher --daemon running there?", options->daemon,
			strerror(-sock));
		return tell(options->frames, &fail);
	}
	if (ck_block_make(&block, 0) < 0 || ck_input_open(&replies, sock, REPLY_MAX) < 0) {
		ck_fail_memory(&fail);
		return tell(options->frames, &fail);
	}
	if (send_defaults(sock, options->defaults) < 0)
		ret = daemon_lost(options->frames);
	else if (options->mode == CK_MODE_BATCH)
		ret = batch(options, sock, &replies, &block);
	else
		ret = once(options, sock, &replies, &block);
	ck_input_close(&replies);
	ck_block_free(&block);
	close(sock);
	return ret;
}
