/*
 * server/front/front.c - see front.h.
 *
 * Children are forked, not executed: they have the key from this process's memory, which a file may no longer hold. All of
 * them report here, so that lines about clients that are refused are counted when there are many.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "rpc/tls.h"
#include "server/front/front.h"
#include "server/front/relay.h"
#include "util/fd.h"
#include "util/log.h"

CK_LOG_DEFINE("server");

#define REPORT_MAX 512

struct front {
	struct ck_tls_files files;
	struct ck_tls *tls;
	int report[2]; /* read here; written by children */
};

/* Receive a message: its kind; 0: the supervisor has gone. Descriptors that are missing are -1. */
static char receive(int fds[2])
{
	union {
		struct cmsghdr align;
		char space[CMSG_SPACE(2 * sizeof(int))];
	} control;
	char kind = 0;
	struct iovec iov = {&kind, 1};
	struct msghdr message = {.msg_iov = &iov,
				 .msg_iovlen = 1,
				 .msg_control = control.space,
				 .msg_controllen = sizeof(control.space)};
	struct cmsghdr *header;
	ssize_t n;

	fds[0] = fds[1] = -1;
	do {
		n = recvmsg(CK_FRONT_CONTROL, &message, MSG_CMSG_CLOEXEC);
	} while (n < 0 && errno == EINTR);
	header = n > 0 ? CMSG_FIRSTHDR(&message) : NULL;
	if (header && header->cmsg_type == SCM_RIGHTS)
		memcpy(fds, CMSG_DATA(header), header->cmsg_len - CMSG_LEN(0));
	return n > 0 ? kind : 0;
}

static void close_both(const int fds[2])
{
	for (int i = 0; i < 2; i++) {
		if (fds[i] >= 0)
			close(fds[i]);
	}
}

static void serve(struct front *f, const int fds[2])
{
	pid_t child = fds[1] < 0 ? 0 : fork();

	if (child < 0)
		ck_err("TLS: no process for a connection: %m");
	if (child == 0 && fds[1] >= 0) {
		close(CK_FRONT_CONTROL);
		close(f->report[0]);
		cks_relay_run(f->tls, fds[0], fds[1], f->report[1]);
	}
	close_both(fds);
}

static void answer(char kind, const char *why)
{
	char text[CK_TLS_WHY + 1];

	snprintf(text, sizeof(text), "%c%s", kind, why);
	if (send(CK_FRONT_CONTROL, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		ck_debug("TLS: no answer to the supervisor: %m");
}

static void reload(struct front *f)
{
	char why[CK_TLS_WHY], pin[CK_TLS_PIN];
	struct ck_tls *tls;

	if (ck_tls_create_server(&f->files, &tls, why) < 0) {
		ck_err("TLS: the files cannot be used, and the earlier ones stay in use: %s", why);
		answer(CK_FRONT_STAYS, why);
		return;
	}
	ck_tls_destroy(f->tls);
	f->tls = tls;
	if (ck_tls_own_pin(tls, pin))
		ck_info("TLS: certificate and key are read again; the key's pin is %s", pin);
	answer(CK_FRONT_RELOAD, "");
}

static void log_report(const struct front *f)
{
	char line[REPORT_MAX];
	ssize_t n = recv(f->report[0], line, sizeof(line) - 1, MSG_DONTWAIT);

	if (n <= 0)
		return;
	line[n] = '\0';
	ck_info("TLS: refused: %s", line);
}

/* Read the files, and tell the supervisor. */
static int begin(struct front *f)
{
	char why[CK_TLS_WHY], pin[CK_TLS_PIN] = "?", text[CK_TLS_WHY + 64];
	int ret = ck_tls_create_server(&f->files, &f->tls, why);

	if (ret == 0 && ck_tls_own_pin(f->tls, pin))
		snprintf(text, sizeof(text), "%cthe key's pin is %s", CK_FRONT_READY, pin);
	else
		snprintf(text, sizeof(text), " %s", why);
	if (send(CK_FRONT_CONTROL, text, strlen(text), MSG_NOSIGNAL) < 0)
		return -errno;
	return ret;
}

static void run(struct front *f)
{
	for (;;) {
		struct pollfd p[2] = {{.fd = CK_FRONT_CONTROL, .events = POLLIN},
				      {.fd = f->report[0], .events = POLLIN}};
		int fds[2], timeout = ck_log_tend(false);
		char kind;

		if (poll(p, 2, timeout) < 0 && errno != EINTR)
			return;
		if (p[1].revents)
			log_report(f);
		if (!p[0].revents)
			continue;
		kind = receive(fds);
		if (kind == 0)
			return;
		if (kind == CK_FRONT_CONNECTION)
			serve(f, fds);
		else
			close_both(fds);
		if (kind == CK_FRONT_RELOAD)
			reload(f);
	}
}

int cks_front_main(char **files)
{
	struct front f = {.files = {.cert = files[0], .key = files[1], .ca = files[2]}};

	prctl(PR_SET_NAME, "cricket-tls");
	prctl(PR_SET_DUMPABLE, 0);
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGINT, SIG_IGN);  /* from a terminal: the supervisor decides */
	signal(SIGCHLD, SIG_IGN); /* nothing is left of children that end */
	ck_fd_set_cloexec(CK_FRONT_CONTROL, true);
	if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, f.report) < 0 || begin(&f) < 0)
		return 1;
	run(&f);
	ck_log_tend(true);
	_exit(0);
}
