/*
 * command/snapshot/ready.c - see ready.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "command/config/command.h"
#include "command/snapshot/ready.h"
#include "util/process/fd.h"

#define HTTP "http://"

/* HOST[:PORT][/PATH]; an IPv6 address is in brackets. */
static bool parse_url(const char *url, struct ckx_ready *r)
{
	size_t size = strcspn(url, "/");
	int n, end = 0;

	r->path = url + size;
	strcpy(r->port, "80");
	if (*url == '[')
		n = sscanf(url, "[%255[0-9a-fA-F:.]]%n:%7[0-9]%n", r->host, &end, r->port, &end);
	else
		n = sscanf(url, "%255[^]/:[]%n:%7[0-9]%n", r->host, &end, r->port, &end);
	return n >= 1 && (size_t)end == size;
}

int ckx_ready_parse(const char *when, struct ckx_ready *r)
{
	*r = (struct ckx_ready){.kind = CKX_READY_SIGNAL, .path = ""};
	if (!when || strcmp(when, "signal") == 0)
		return 0;
	if (strncmp(when, "file:", 5) == 0 && when[5]) {
		r->kind = CKX_READY_FILE;
		r->path = when + 5;
		return 0;
	}
	r->kind = CKX_READY_HTTP;
	if (strncmp(when, HTTP, strlen(HTTP)) == 0 && parse_url(when + strlen(HTTP), r))
		return 0;
	ckx_error("--at is signal, file:PATH or http://HOST[:PORT][/PATH], not %s", when);
	return -EINVAL;
}

static int dial(const struct ckx_ready *r)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
	const struct timeval most = {.tv_sec = 1};
	struct addrinfo *found = NULL;
	int fd = -1;

	if (getaddrinfo(r->host, r->port, &hints, &found) != 0)
		return -1;
	for (const struct addrinfo *a = found; a && fd < 0; a = a->ai_next) {
		fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, 0);
		if (fd < 0)
			continue;
		setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &most, sizeof(most));
		setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof(most));
		if (connect(fd, a->ai_addr, a->ai_addrlen) < 0) {
			close(fd);
			fd = -1;
		}
	}
	freeaddrinfo(found);
	return fd;
}

/* Does the program answer with success? */
static bool answers(const struct ckx_ready *r)
{
	char text[1024];
	unsigned int status = 0;
	int fd = dial(r);
	ssize_t n = -1;
	int size = snprintf(text, sizeof(text), "GET %s HTTP/1.0\r\nHost: %s:%s\r\n\r\n",
			    *r->path ? r->path : "/", r->host, r->port);

	if (fd >= 0 && size < (int)sizeof(text) &&
	    send(fd, text, (size_t)size, MSG_NOSIGNAL) == size)
		n = recv(fd, text, sizeof(text) - 1, 0);
	if (n > 0) {
		text[n] = '\0';
		sscanf(text, "HTTP/%*u.%*u %u", &status);
	}
	if (fd >= 0)
		close(fd);
	return status >= 200 && status < 300;
}

bool ckx_ready_now(const struct ckx_ready *r, bool signalled)
{
	switch (r->kind) {
	case CKX_READY_FILE:
		return access(r->path, F_OK) == 0;
	case CKX_READY_HTTP:
		return answers(r);
	default:
		return signalled;
	}
}
