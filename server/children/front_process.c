/*
 * server/children/front_process.c - see front_process.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/children/front_process.h"
#include "server/front/front.h"
#include "server/options/options.h"
#include "server/processes/child.h"
#include "util/log.h"
#include "util/until.h"

CK_LOG_DEFINE("server");

#define BEGIN_MS 30000 /* for a front process to read its files */
#define AGAIN_MS 1000  /* until another one is started, after one has ended */
#define RELOAD_MS 5000 /* for it to read them again */

struct cks_front_process {
	const struct cks_options *options;
	int control; /* -1: there is no process */
	pid_t pid;
	int64_t again; /* when the next one may be started */
};

static int launch_front(struct cks_front_process *f)
{
	const struct cks_options *o = f->options;
	char *arguments[] = {(char *)"cricket-rpc-server",   (char *)CK_FRONT_ARGUMENT,
			     (char *)(uintptr_t)o->tls_cert, (char *)(uintptr_t)o->tls_key,
			     (char *)(uintptr_t)o->tls_ca,   NULL};
	int pair[2], ret = 0;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	f->pid = fork();
	if (f->pid == 0)
		cks_child_execute(arguments, pair[1], -1);
	if (f->pid < 0)
		ret = -errno;
	close(pair[1]);
	if (ret < 0)
		close(pair[0]);
	else
		f->control = pair[0];
	return ret;
}

/* Its first message. -errno, logged. */
static int await_ready(struct cks_front_process *f, int ms)
{
	struct pollfd p = {.fd = f->control, .events = POLLIN};
	char words[CK_FRONT_WORDS];
	ssize_t n = poll(&p, 1, ms) == 1 ? recv(f->control, words, sizeof(words) - 1, 0) : -1;

	words[n > 0 ? n : 0] = '\0';
	if (n > 0 && words[0] == CK_FRONT_READY) {
		ck_info("TLS for clients over TCP is %s: %s",
			f->options->tls_required ? "required" : "offered", words + 1);
		return 0;
	}
	ck_err("--tls-cert, --tls-key: %s", n > 0 ? words + 1 : "their process has not started");
	return -EINVAL;
}

static int create_fronts(const struct cks_options *options, bool waits,
			 struct cks_front_process **out)
{
	struct cks_front_process *f;
	int ret;

	*out = NULL;
	if (!options->tls_cert)
		return 0;
	f = calloc(1, sizeof(*f));
	if (!f)
		return -ENOMEM;
	*f = (struct cks_front_process){.options = options, .control = -1};
	ret = launch_front(f);
	if (ret == 0 && waits)
		ret = await_ready(f, BEGIN_MS);
	if (ret < 0)
		cks_front_process_destroy(f);
	else
		*out = f;
	return ret;
}

int cks_front_process_create(const struct cks_options *options, struct cks_front_process **fronts)
{
	return create_fronts(options, true, fronts);
}

int cks_front_process_resume(const struct cks_options *options, struct cks_front_process **fronts)
{
	return create_fronts(options, false, fronts);
}

void cks_front_process_destroy(struct cks_front_process *f)
{
	if (!f)
		return;
	if (f->control >= 0)
		close(f->control); /* it ends */
	free(f);
}

/* Send a message with the two descriptors, or with none. It does not wait. */
static int send_now(int control, char kind, const int *fds)
{
	union {
		struct cmsghdr align;
		char space[CMSG_SPACE(2 * sizeof(int))];
	} ancillary = {.space = {0}};
	struct iovec iov = {&kind, 1};
	struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};
	struct cmsghdr *header;

	if (fds) {
		message.msg_control = ancillary.space;
		message.msg_controllen = sizeof(ancillary.space);
		header = CMSG_FIRSTHDR(&message);
		header->cmsg_level = SOL_SOCKET;
		header->cmsg_type = SCM_RIGHTS;
		header->cmsg_len = CMSG_LEN(2 * sizeof(int));
		memcpy(CMSG_DATA(header), fds, 2 * sizeof(int));
	}
	if (sendmsg(control, &message, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
		return 0;
	return errno == ETOOMANYREFS ? -EAGAIN : -errno;
}

int cks_front_process_pass(struct cks_front_process *f, int fd, int *plain)
{
	int pair[2], ret;

	if (f->control < 0) {
		if (ck_now_ms() < f->again || launch_front(f) < 0)
			return -EAGAIN;
	}
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	ret = send_now(f->control, CK_FRONT_CONNECTION, (int[]){fd, pair[1]});
	close(pair[1]);
	if (ret < 0)
		close(pair[0]);
	else
		*plain = pair[0];
	return ret == -EPIPE || ret == -ECONNRESET ? -EAGAIN
						   : ret; /* its end has not been seen yet */
}

/* Its answer to CK_FRONT_RELOAD; other messages are from before. */
static int read_reload_reply(struct cks_front_process *f, char why[CK_FRONT_WORDS])
{
	int64_t until = ck_now_ms() + RELOAD_MS, left;
	char words[CK_FRONT_WORDS];

	while ((left = until - ck_now_ms()) > 0) {
		struct pollfd p = {.fd = f->control, .events = POLLIN};
		ssize_t n = poll(&p, 1, ck_poll_ms(left)) == 1
				    ? recv(f->control, words, sizeof(words) - 1, MSG_DONTWAIT)
				    : -1;

		if (n == 0 || (n < 0 && p.revents & (POLLERR | POLLHUP)))
			break;
		words[n > 0 ? n : 0] = '\0';
		if (words[0] == CK_FRONT_RELOAD)
			return 0;
		if (words[0] == CK_FRONT_STAYS) {
			snprintf(why, CK_FRONT_WORDS, "%s", words + 1);
			return -EINVAL;
		}
	}
	snprintf(why, CK_FRONT_WORDS, "the TLS process has not answered");
	ck_err("TLS: certificate and key: %s", why);
	return -ETIMEDOUT;
}

int cks_front_process_reload(struct cks_front_process *f, char why[CK_FRONT_WORDS])
{
	if (!f || f->control < 0) /* the next process reads them */
		return 0;
	if (send_now(f->control, CK_FRONT_RELOAD, NULL) == 0)
		return read_reload_reply(f, why);
	snprintf(why, CK_FRONT_WORDS, "the TLS process cannot be asked: %s", strerror(errno));
	ck_err("TLS: certificate and key: %s", why);
	return -EIO;
}

/* Why it has not even begun. */
static void log_last_words(const struct cks_front_process *f)
{
	char words[CK_FRONT_WORDS];
	ssize_t n = recv(f->control, words, sizeof(words) - 1, MSG_DONTWAIT);

	if (n < 0 &&
	    errno ==
		    /* it has left a connection unread; the error comes once, before the words */
		    ECONNRESET)
		n = recv(f->control, words, sizeof(words) - 1, MSG_DONTWAIT);
	words[n > 0 ? n : 0] = '\0';
	if (n > 0 && words[0] != CK_FRONT_READY)
		ck_err("--tls-cert, --tls-key: %s", words + 1);
}

bool cks_front_process_ended(struct cks_front_process *f, pid_t pid, int status)
{
	if (!f || f->control < 0 || f->pid != pid)
		return false;
	ck_err("the TLS process has ended (status %d); connections that it relays go on, and "
	       "another one "
	       "is started for new ones",
	       status);
	log_last_words(f);
	close(f->control);
	f->control = -1;
	f->again = ck_now_ms() + AGAIN_MS;
	return true;
}
