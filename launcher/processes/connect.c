/*
 * launcher/processes/connect.c - stdin to a daemon's socket, its replies to stdout; see connect.h.
 *
 * Replies are read whole before any of one is written, so that a daemon that dies leaves no half of
 * a document on stdout.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "launcher/processes/daemon.h"
#include "launcher/processes/input.h"
#include "launcher/processes/pump.h"
#include "launcher/request/reply.h"
#include "launcher/request/request.h"
#include "launcher/text/frame.h"
#include "util/process/fd.h"
#include "util/address/unixsock.h"

#define REPLY_MAX UINT64_MAX / 4

/* Any user can listen under a name in /tmp: send data only to this user's daemon, or root's. */
static bool is_trusted(int sock)
{
	struct ucred peer;
	socklen_t size = sizeof(peer);

	return getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
	       (peer.uid == geteuid() || peer.uid == 0);
}

static int dial_daemon(const char *path)
{
	int sock = ck_unix_dial(path, SOCK_STREAM);

	if (sock < 0 || is_trusted(sock))
		return sock;
	close(sock);
	return -EACCES;
}

/* The command line's defaults, with the folder to which paths in requests are relative. */
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

static int report_failure(bool frame, struct ckl_fail *fail)
{
	struct ckl_out out = {0};
	int exit = fail->exit;

	ckl_reply_fail(&out, frame, 0, fail);
	if (out.base)
		ck_fd_write_full(STDOUT_FILENO, out.base, out.size);
	free(out.base);
	ckl_fail_clear(fail);
	return exit;
}

/* A reply as far as this program reads it. */
struct reply {
	int exit; /* code that it stands for */
	enum ckl_pump_status status;
	bool last; /* the daemon says that it reads no more */
};

/* Errors after which a session reads nothing. The pump itself sees input that is no message. */
static bool is_last(json_t *error)
{
	static const char *const codes[] = {"TOO_MANY_LAUNCHES", "OUT_OF_DESCRIPTORS",
					    "MESSAGE_TOO_LARGE"};
	const char *stage = json_string_value(json_object_get(error, "stage"));
	const char *code = json_string_value(json_object_get(error, "code"));

	if (stage && strcmp(stage, "service") == 0)
		return true;
	for (size_t i = 0; code && i < CK_ARRAY_SIZE(codes); i++) {
		if (strcmp(code, codes[i]) == 0)
			return true;
	}
	return false;
}

static struct reply reply_read(struct ckl_input *input, const char *text)
{
	size_t head = ck_min(input->have, (size_t)256);
	struct reply reply = {.exit = CK_EXIT_OK};
	struct ckl_fail fail = {0};
	struct ckl_request request;
	const char *status;
	json_t *error;

	/* Only these begin so: an error object, and replies about an asynchronous launch. */
	if (!memmem(text, head, "\"error\"", 7) && !memmem(text, head, "\"status\"", 8))
		return reply;
	if (ckl_request_peek(&request, text, input->have, input->frame ? NULL : &input->scan, NULL,
			     &fail) < 0)
		return reply;
	error = json_object_get(request.root, "error");
	status = json_string_value(json_object_get(request.root, "status"));
	if (error) {
		reply.exit = (int)json_integer_value(json_object_get(error, "exit"));
		reply.last = is_last(error);
	}
	if (status && strcmp(status, "queued") == 0)
		reply.status = CK_PUMP_QUEUED;
	else if (status && (strcmp(status, "done") == 0 || strcmp(status, "cancelled") == 0))
		reply.status = CK_PUMP_DONE;
	ckl_request_free(&request);
	return reply;
}

/* One reply to stdout. 1: done, with *reply set; 0: the daemon has closed. */
static int reply_pass(struct ckl_input *input, struct ckl_block *block, struct reply *reply)
{
	struct ckl_fail fail = {0};
	int ret = 0;

	ckl_input_begin(input, 0);
	while (ret == 0 && !input->ended)
		ret = ckl_input_read(input, block, &fail);
	ckl_fail_clear(&fail);
	if (ret != 1)
		return ret;
	*reply = reply_read(input, block->map);
	ret = ck_fd_write_full(STDOUT_FILENO, block->map, input->have);
	if (ret == 0 && !input->frame)
		ret = ck_fd_write_full(STDOUT_FILENO, "\n", 1);
	ckl_block_trim(block);
	return ret < 0 ? ret : 1;
}

/* One request. It is read whole, because reading stops at its end. */
static int request_pass(const struct ckl_options *options, int sock, struct ckl_block *block,
			bool *frame, struct ckl_fail *fail)
{
	struct ckl_input input;
	int ret = ckl_input_open(&input, STDIN_FILENO, options->input_max);

	if (ret < 0)
		return ckl_fail_memory(fail);
	ckl_input_begin(&input, 0);
	ret = 0;
	while (ret == 0 && !input.ended) {
		if (input.pending_size == 0)
			ckl_pump_await();
		ret = ckl_input_read(&input, block, fail);
	}
	*frame = input.frame;
	if (ret == 0)
		ret = ckl_fail_input(fail, input.have ? "the message is cut off"
						      : "there is no request on stdin");
	if (ret == 1)
		ret = ck_fd_write_full(sock, block->map, input.have);
	ckl_input_close(&input);
	return ret;
}

static int daemon_lost(bool frame, size_t missing)
{
	struct ckl_fail fail = {0};

	ckl_fail(&fail, CK_EXIT_SERVICE, "service", "DAEMON_LOST",
		 "the daemon has closed the connection; replies that are missing: %zu "
		 "(a server's socket goes into REMOTE_GPU_ADDRESS, with --driver remote)",
		 missing);
	return report_failure(frame, &fail);
}

static int run_single(const struct ckl_options *options, int sock, struct ckl_input *replies,
		      struct ckl_block *block)
{
	struct ckl_fail fail = {0};
	bool frame = options->frames;
	struct reply reply;

	/* A daemon that closes while it is written to may have said why. */
	if (request_pass(options, sock, block, &frame, &fail) < 0 && fail.exit)
		return report_failure(frame, &fail);
	if (reply_pass(replies, block, &reply) != 1)
		return daemon_lost(frame, 1);
	return reply.exit;
}

static int run_batch(const struct ckl_options *options, int sock, struct ckl_input *replies,
		     struct ckl_block *block)
{
	struct ckl_pump *pump = ckl_pump_start(sock);
	struct ckl_fail fail = {0};
	bool last = false, all;
	struct reply reply;
	int first = 0, ret;
	size_t missing;

	if (!pump) {
		ckl_fail_memory(&fail);
		return report_failure(options->frames, &fail);
	}
	while ((ret = reply_pass(replies, block, &reply)) == 1) {
		ckl_pump_replied(pump, reply.status);
		first = first ? first : reply.exit;
		last = last || reply.last;
	}
	missing = ckl_pump_missing(pump, &all);
	/* A daemon that ends normally closes after the last reply, at its end. */
	if (ret == 0 && replies->have == 0 && (last || (all && missing == 0)))
		return first;
	ret = daemon_lost(options->frames, missing);
	return first ? first : ret;
}

int ckl_connect_run(const struct ckl_options *options)
{
	struct ckl_fail fail = {0};
	struct ckl_input replies = {0};
	struct ckl_block block;
	int sock = dial_daemon(options->daemon), ret;

	if (sock < 0 && options->connect_try)
		return -ECONNREFUSED;
	if (sock < 0) {
		ckl_fail(&fail, CK_EXIT_SERVICE, "service", "NO_DAEMON",
			 "%.200s: %s: is a gpu_launcher --daemon running there?", options->daemon,
			 strerror(-sock));
		return report_failure(options->frames, &fail);
	}
	if (ckl_block_make(&block, 0) < 0 || ckl_input_open(&replies, sock, REPLY_MAX) < 0) {
		ckl_fail_memory(&fail);
		return report_failure(options->frames, &fail);
	}
	if (send_defaults(sock, options->defaults) < 0)
		ret = daemon_lost(options->frames, 0);
	else if (options->mode == CK_MODE_BATCH)
		ret = run_batch(options, sock, &replies, &block);
	else
		ret = run_single(options, sock, &replies, &block);
	ckl_input_close(&replies);
	ckl_block_free(&block);
	close(sock);
	return ret;
}
