/*
 * launcher/driver/driver_log.c - see driver_log.h.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launcher/driver/driver_log.h"
#include "util/env.h"
#include "util/process/fd.h"

#define VARIABLE "CRICKET_LOG_FD"
#define ERROR "ERROR: "

/* A line of the log is one write, so it is one read, or the beginning of one. */
static void keep_error(struct ckl_driver_log *h, const char *text)
{
	for (const char *at = text; (at = strstr(at, ERROR)) != NULL;) {
		at += strlen(ERROR);
		snprintf(h->line, sizeof(h->line), "%.*s", (int)strcspn(at, "\n"), at);
	}
}

/* Until the byte 0, which no line contains: a child of the driver may still have the pipe. */
static void *listen_to(void *own)
{
	struct ckl_driver_log *h = own;
	char text[4096 + 1];
	ssize_t n;

	while ((n = read(h->pipe[0], text, sizeof(text) - 1)) > 0) {
		size_t size = strnlen(text, (size_t)n);

		text[size] = '\0';
		keep_error(h, text);
		ck_fd_write_full(h->log, text, size);
		if (size < (size_t)n)
			break;
	}
	return NULL;
}

void ckl_driver_log_begin(struct ckl_driver_log *h)
{
	char text[16];

	*h = (struct ckl_driver_log){.pipe = {-1, -1}, .log = (int)ck_env_long(VARIABLE)};
	snprintf(h->was, sizeof(h->was), "%d", h->log);
	if (pipe2(h->pipe, O_CLOEXEC) < 0)
		return;
	snprintf(text, sizeof(text), "%d", h->pipe[1]);
	if (pthread_create(&h->thread, NULL, listen_to, h) == 0) {
		setenv(VARIABLE, text, 1);
		return;
	}
	close(h->pipe[0]);
	close(h->pipe[1]);
	h->pipe[0] = h->pipe[1] = -1;
}

/* The variable keeps a value: threads of the driver may read the environment meanwhile. */
void ckl_driver_log_end(struct ckl_driver_log *h)
{
	if (h->pipe[0] < 0)
		return;
	setenv(VARIABLE, h->was, 1);
	ck_fd_write_full(h->pipe[1], "", 1);
	pthread_join(h->thread, NULL);
	close(h->pipe[0]);
	close(h->pipe[1]);
}
