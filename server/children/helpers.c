/*
 * server/children/helpers.c - starts helper processes, and takes their replies; see helper.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/children/helpers.h"
#include "server/processes/child.h"
#include "server/processes/json_line.h"
#include "util/process/fd.h"
#include "util/log.h"

CK_LOG_DEFINE("server");

#define CK_REPLY_MAX 32768 /* a path may have escape sequences */

struct running {
	int fd; /* -1: free */
	pid_t pid;
	struct cks_helper helper;
	char in[CK_REPLY_MAX];
	size_t in_size;
};

struct cks_helpers {
	struct running list[CK_HELPERS_MAX];
};

struct cks_helpers *cks_helpers_create(void)
{
	struct cks_helpers *h = calloc(1, sizeof(*h));

	for (size_t i = 0; h && i < CK_HELPERS_MAX; i++)
		h->list[i].fd = -1;
	return h;
}

void cks_helpers_destroy(struct cks_helpers *h)
{
	for (size_t i = 0; h && i < CK_HELPERS_MAX; i++) {
		if (h->list[i].fd >= 0)
			close(h->list[i].fd);
	}
	free(h);
}

static struct running *find_free(struct cks_helpers *h)
{
	for (size_t i = 0; i < CK_HELPERS_MAX; i++) {
		if (h->list[i].fd < 0)
			return &h->list[i];
	}
	return NULL;
}

static int launch_helper(struct running *r, const struct cks_helper *helper)
{
	char *arguments[] = {(char *)"cricket-rpc-server", (char *)(uintptr_t)helper->argument,
			     NULL};
	int pair[2], ret;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	/* the request goes into the socket's buffer before the process exists */
	ret = cks_json_line_write(pair[0], helper->request);
	if (ret == 0) {
		r->pid = fork();
		if (r->pid == 0)
			cks_child_execute(arguments, pair[1], helper->control);
		if (r->pid < 0)
			ret = -errno;
	}
	close(pair[1]);
	if (ret < 0)
		close(pair[0]);
	else
		r->fd = pair[0];
	return ret;
}

pid_t cks_helpers_start(struct cks_helpers *h, const struct cks_helper *helper)
{
	struct running *r = h ? find_free(h) : NULL;
	int ret = r ? launch_helper(r, helper) : -EBUSY;

	json_decref(helper->request);
	if (ret < 0)
		return ret;
	r->helper = *helper;
	r->in_size = 0;
	ck_debug("%s: process %d started", helper->argument, (int)r->pid);
	return r->pid;
}

static struct running *find_by_data(struct cks_helpers *h, const void *data)
{
	for (size_t i = 0; h && i < CK_HELPERS_MAX; i++) {
		if (h->list[i].fd >= 0 && h->list[i].helper.data == data)
			return &h->list[i];
	}
	return NULL;
}

bool cks_helpers_send(struct cks_helpers *h, const void *data, json_t *line)
{
	const struct running *r = find_by_data(h, data);
	bool sent = r && cks_json_line_write(r->fd, line) == 0;

	json_decref(line);
	return sent;
}

void cks_helpers_forget(struct cks_helpers *h, const void *data)
{
	struct running *r = find_by_data(h, data);

	if (!r)
		return;
	close(r->fd);
	r->fd = -1;
}

size_t cks_helpers_poll(const struct cks_helpers *h, struct pollfd *fds)
{
	for (size_t i = 0; i < CK_HELPERS_MAX; i++)
		fds[i] = (struct pollfd){.fd = h ? h->list[i].fd : -1, .events = POLLIN};
	return CK_HELPERS_MAX;
}

/* Take the first line of the received bytes. NULL: it is not complete, or not JSON. */
static json_t *take_line(struct running *r)
{
	char *end = memchr(r->in, '\n', r->in_size);
	size_t size = end ? (size_t)(end - r->in) + 1 : 0;
	json_t *line = end ? json_loadb(r->in, size, 0, NULL) : NULL;

	r->in_size -= size;
	memmove(r->in, r->in + size, r->in_size);
	return line;
}

/* Read the received bytes, and pass on the news. NULL: the reply is not complete. */
static json_t *receive_reply(struct running *r, struct cks_server *server)
{
	ssize_t n = recv(r->fd, r->in + r->in_size, sizeof(r->in) - r->in_size, MSG_DONTWAIT);
	json_t *reply;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return NULL;
	if (n > 0)
		r->in_size += (size_t)n;
	reply = take_line(r);
	while (reply && !json_object_get(reply, "ok")) {
		if (r->helper.news)
			r->helper.news(server, reply, r->helper.data);
		json_decref(reply);
		reply = take_line(r);
	}
	if (!reply && n > 0 && r->in_size < sizeof(r->in))
		return NULL;
	if (!reply)
		ck_err("%s has ended without a reply", r->helper.argument);
	return reply ? reply
		     : json_pack("{s:b, s:s}", "ok", 0, "error",
				 "the process for it has ended without a reply");
}

void cks_helpers_run(struct cks_helpers *h, const struct pollfd *fds, struct cks_server *server)
{
	for (size_t i = 0; h && i < CK_HELPERS_MAX; i++) {
		struct running *r = &h->list[i];
		struct cks_helper helper = r->helper;
		json_t *reply;

		if (r->fd < 0 || r->fd != fds[i].fd || !fds[i].revents)
			continue;
		reply = receive_reply(r, server);
		if (!reply)
			continue;
		close(r->fd);
		r->fd = -1; /* free: done() may start another one */
		helper.done(server, reply, helper.data);
	}
}

bool cks_helpers_ended(struct cks_helpers *h, pid_t pid)
{
	for (size_t i = 0; h && i < CK_HELPERS_MAX; i++) {
		if (h->list[i].pid != pid)
			continue;
		h->list[i].pid = 0; /* its last words are still to be read */
		return true;
	}
	return false;
}
