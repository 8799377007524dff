/*
 * server/front/front.c - see front.h.
 *
 * Children are forked, not executed: they have the session's keys from this process's memory, and
 * the private key, which a file may no longer hold.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "rpc/tls.h"
#include "server/front/front.h"
#include "server/front/handshakes.h"
#include "util/process/fd.h"
#include "util/log.h"

CK_LOG_DEFINE("server");

#define MESSAGES 64 /* taken at a time */

struct front {
	struct ck_tls_files files;
	struct cks_handshakes *shakes;
};

/* Receive a message: its kind; 0: the supervisor has gone; -1: there is none. Descriptors that are
 * missing are -1. */
static int receive_message(int fds[2])
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
		n = recvmsg(CK_FRONT_CONTROL, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	} while (n < 0 && errno == EINTR);
	header = n > 0 ? CMSG_FIRSTHDR(&message) : NULL;
	if (header && header->cmsg_type == SCM_RIGHTS)
		memcpy(fds, CMSG_DATA(header), header->cmsg_len - CMSG_LEN(0));
	if (n < 0 && errno == EAGAIN)
		return -1;
	return n > 0 ? kind : 0;
}

static void close_both(const int fds[2])
{
	for (int i = 0; i < 2; i++) {
		if (fds[i] >= 0)
			close(fds[i]);
	}
}

static void send_answer(char kind, const char *why)
{
	char text[CK_TLS_WHY + 1];

	snprintf(text, sizeof(text), "%c%s", kind, why);
	if (send(CK_FRONT_CONTROL, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		ck_debug("TLS: no answer to the supervisor: %m");
}

/* Use the files as they are now. -errno, and @why not. @pin: of the key; empty: it has none. */
static int use_files(struct front *f, char pin[CK_TLS_PIN], char why[CK_TLS_WHY])
{
	struct ck_tls *tls;
	int ret = ck_tls_create_server(&f->files, &tls, why);

	if (ret < 0)
		return ret;
	if (!ck_tls_own_pin(tls, pin))
		pin[0] = '\0';
	ret = cks_handshakes_use(f->shakes, tls);
	snprintf(why, CK_TLS_WHY, "%s", strerror(-ret));
	return ret;
}

static void reload_files(struct front *f)
{
	char why[CK_TLS_WHY], pin[CK_TLS_PIN];

	if (use_files(f, pin, why) < 0) {
		ck_err("TLS: the files cannot be used, and the earlier ones stay in use: %s", why);
		send_answer(CK_FRONT_STAYS, why);
		return;
	}
	if (pin[0])
		ck_info("TLS: certificate and key are read again; the key's pin is %s", pin);
	send_answer(CK_FRONT_RELOAD, "");
}

/* Read the files, and tell the supervisor. */
static int load_files(struct front *f)
{
	char why[CK_TLS_WHY], pin[CK_TLS_PIN], text[CK_TLS_WHY + 64];
	int ret = use_files(f, pin, why);

	if (ret == 0 && pin[0])
		snprintf(text, sizeof(text), "%cthe key's pin is %s", CK_FRONT_READY, pin);
	else
		snprintf(text, sizeof(text), " %s", why);
	if (send(CK_FRONT_CONTROL, text, strlen(text), MSG_NOSIGNAL) < 0)
		return -errno;
	return ret;
}

/* False: the supervisor has gone. */
static bool take_messages(struct front *f)
{
	int fds[2], kind = 0;

	for (int i = 0; i < MESSAGES && (kind = receive_message(fds)) > 0; i++) {
		if (kind == CK_FRONT_CONNECTION && fds[0] >= 0 && fds[1] >= 0)
			cks_handshakes_add(f->shakes, fds[0], fds[1]);
		else
			close_both(fds);
		if (kind == CK_FRONT_RELOAD)
			reload_files(f);
	}
	return kind != 0;
}

static void run_front(struct front *f)
{
	static struct pollfd fds[1 + CK_HANDSHAKES_POLL] = {
		{.fd = CK_FRONT_CONTROL, .events = POLLIN}};

	for (;;) {
		size_t count = cks_handshakes_poll(f->shakes, fds + 1);

		if (poll(fds, 1 + count, ck_log_report_dropped(false)) < 0) {
			if (errno != EINTR)
				return;
			continue;
		}
		cks_handshakes_run(f->shakes, fds + 1);
		if (fds[0].revents && !take_messages(f))
			return;
	}
}

/* Its memory has the key. */
static void protect_memory(void)
{
	const struct rlimit none = {0, 0};

	setrlimit(RLIMIT_CORE, &none);
	prctl(PR_SET_DUMPABLE, 0);
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

int cks_front_main(char **files)
{
	struct front f = {.files = {.cert = files[0], .key = files[1], .ca = files[2]},
			  .shakes = cks_handshakes_create()};

	prctl(PR_SET_NAME, "cricket-tls");
	protect_memory();
	signal(SIGPIPE, SIG_IGN);
	signal(SIGINT, SIG_IGN);  /* from a terminal: the supervisor decides */
	signal(SIGCHLD, SIG_IGN); /* nothing is left of children that end */
	ck_fd_set_cloexec(CK_FRONT_CONTROL, true);
	if (!f.shakes || load_files(&f) < 0) {
		cks_handshakes_destroy(f.shakes);
		return 1;
	}
	run_front(&f);
	ck_log_report_dropped(true);
	_exit(0);
}
