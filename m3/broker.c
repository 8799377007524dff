/*
 * m3/broker.c - the broker's loop: connections, their ends and the ends of their processes.
 *
 * One packet of each client in a round, so that a flood of one delays the others by a packet each.
 * A client that waits for something is not read from meanwhile.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "m3/broker.h"
#include "util/log.h"
#include "util/until.h"
#include "util/util.h"

CK_LOG_DEFINE("m3");

#define CONNECTIONS 4096
/*
 * Connections that other users leave free for the broker's user and root, and that one user leaves
 * free for others.
 */
#define CONNECTIONS_KEPT 1024
#define CONNECTIONS_OF_USER 1536
#define FIXED 3	   /* descriptors of the loop's own: signals, copier, listener */
#define ACCEPTS 64 /* of a round */
#define PAUSE_MS 100

/* --- connections */

/* Those that have not said hello count as well. */
static bool has_room(const struct ck_m3_broker *b, const struct ck_m3_conn *c)
{
	if (c->trusted)
		return b->conn_count < CONNECTIONS;
	return b->conn_count < CONNECTIONS - CONNECTIONS_KEPT &&
	       c->user->sockets < CONNECTIONS_OF_USER;
}

static bool is_trusted(const struct ck_m3_broker_options *o, uid_t user)
{
	return user == geteuid() || user == 0 ||
	       (o->workers_first && user >= o->workers_first && user <= o->workers_last);
}

static void conn_add(struct ck_m3_broker *b, int fd)
{
	struct ck_m3_conn *c = calloc(1, sizeof(*c));
	struct ucred peer;
	socklen_t size = sizeof(peer);
	char name[32];

	if (!c || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0)
		goto drop;
	snprintf(name, sizeof(name), "uid:%u", (unsigned int)peer.uid);
	c->trusted = is_trusted(b->options, peer.uid);
	c->user = c->principal = ck_m3_principal_get(b, name);
	if (!c->user)
		goto drop;
	if (!has_room(b, c)) {
		ck_m3_principal_check(b, c->user);
		goto drop;
	}
	c->user->sockets++;
	c->user->uses++;
	c->fd = fd;
	c->pid = peer.pid;
	c->pidfd = peer.pid > 0 ? (int)syscall(SYS_pidfd_open, peer.pid, 0) : -1;
	c->device = -1;
	c->next = b->conns;
	b->conns = c;
	b->conn_count++;
	return;
drop:
	ck_warn("a connection is refused");
	close(fd);
	free(c);
}

static void conn_free(struct ck_m3_broker *b, struct ck_m3_conn *c)
{
	c->user->sockets--;
	c->principal->uses--;
	if (c->user != c->principal)
		ck_m3_principal_check(b, c->user);
	ck_m3_principal_check(b, c->principal);
	if (c->payer) {
		c->payer->uses--;
		ck_m3_principal_check(b, c->payer);
	}
	if (c->pidfd >= 0)
		close(c->pidfd);
	free(c);
}

/* An older ended connection of the same process, which lives, takes over the objects of this
 * one. */
static void hand_over(struct ck_m3_broker *b, struct ck_m3_conn *c)
{
	struct ck_m3_conn *other = b->conns;

	while (other && (other == c || other->fd >= 0 || !other->holds || other->pid != c->pid))
		other = other->next;
	if (other)
		ck_m3_holds_merge(other, c);
}

/* Its connection is closed; memory that its process may still map stays charged. */
static void conn_end(struct ck_m3_broker *b, struct ck_m3_conn *c)
{
	ck_m3_copier_forget(b->copier, c);
	c->job = NULL;
	c->parked = false;
	c->events = 0;
	ck_m3_deposits_end(c);
	close(c->fd);
	c->fd = -1;
	if (c->greeted)
		c->principal->connections--;
	if (!ck_m3_holds_end(b, c))
		return;
	ck_debug("%s pid %d has disconnected; its memory stays charged", c->principal->name,
		 (int)c->pid);
	hand_over(b, c);
}

/* Forget those that are gone for good. */
static void reap_connections(struct ck_m3_broker *b)
{
	struct ck_m3_conn **at = &b->conns, *c;

	while ((c = *at) != NULL) {
		if (c->fd >= 0 && c->closing)
			conn_end(b, c);
		if (c->fd >= 0 || c->holds) {
			at = &c->next;
			continue;
		}
		*at = c->next;
		b->conn_count--;
		conn_free(b, c);
	}
}

static void conn_read(struct ck_m3_broker *b, struct ck_m3_conn *c)
{
	static struct ck_m3_question question;
	int fd;
	long n = ck_m3_receive(c->fd, &question, sizeof(question), &fd, MSG_DONTWAIT);

	if (n > 0) {
		ck_m3_serve(b, c, &question, (size_t)n, fd);
		return;
	}
	if (fd >= 0)
		close(fd);
	if (n != -EAGAIN)
		c->closing = true;
}

static int accept_connection(const struct ck_m3_broker *b)
{
	return accept4(b->options->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
}

/*
 * No descriptors left: those who wait are sent away, so that they hear at once, and the loop does
 * not go round for the next ones.
 */
static void refuse_connections(struct ck_m3_broker *b)
{
	int fd;

	ck_warn("no descriptors left: connections are refused");
	if (b->reserve >= 0)
		close(b->reserve);
	for (int i = 0; i < ACCEPTS && (fd = accept_connection(b)) >= 0; i++)
		close(fd);
	b->reserve = open("/dev/null", O_RDONLY | O_CLOEXEC);
	b->paused = ck_now_ms() + PAUSE_MS;
}

static void accept_some(struct ck_m3_broker *b)
{
	for (int i = 0; i < ACCEPTS; i++) {
		int fd = accept_connection(b);

		if (fd >= 0) {
			conn_add(b, fd);
			continue;
		}
		if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
			refuse_connections(b);
		return;
	}
}

/* --- the loop */

/* At @when there is something to do. */
static void wake_at(int64_t when, int *timeout)
{
	ck_poll_sooner(timeout, ck_max(when - ck_now_ms(), (int64_t)0));
}

/* Without clients, processes of clients, and regions that stay without either. */
static bool is_idle(const struct ck_m3_broker *b)
{
	return b->options->idle_s && !b->conns && !b->pieces;
}

/*
 * The events to poll for: of each connection its packets, or only its end, or the end of its
 * process.
 */
static nfds_t fill_pollfds(struct ck_m3_broker *b, struct pollfd *fds, int *timeout)
{
	bool pauses = ck_now_ms() < b->paused;
	nfds_t n = FIXED;

	*timeout = is_idle(b) ? ck_poll_ms((int64_t)b->options->idle_s * 1000) : -1;
	if (pauses)
		wake_at(b->paused, timeout);
	fds[0] = (struct pollfd){.fd = b->signals, .events = POLLIN};
	fds[1] = (struct pollfd){.fd = ck_m3_copier_fd(b->copier), .events = POLLIN};
	fds[2] = (struct pollfd){.fd = pauses ? -1 : b->options->listener, .events = POLLIN};
	for (struct ck_m3_conn *c = b->conns; c; c = c->next) {
		bool waits = c->job || c->parked;

		fds[n++] = (struct pollfd){.fd = c->fd >= 0 ? c->fd : c->pidfd,
					   .events = waits ? POLLRDHUP : POLLIN};
		if (c->parked && c->question.op == CK_M3_LEASE)
			wake_at(c->deadline, timeout);
	}
	return n;
}

static void serve_conns(struct ck_m3_broker *b, const struct pollfd *fds)
{
	struct ck_m3_conn *c = b->conns;

	for (nfds_t i = FIXED; c; c = c->next, i++) {
		if (!fds[i].revents)
			continue;
		if (c->fd < 0)
			ck_m3_holds_drained(b, c);
		else if (c->job || c->parked)
			c->closing = fds[i].revents & (POLLHUP | POLLERR | POLLRDHUP);
		else
			conn_read(b, c);
	}
}

/*
 * Questions whose time has come, or whose answer may have changed; ends of connections change some,
 * too.
 */
static void retry_parked_requests(struct ck_m3_broker *b)
{
	do {
		b->changed = false;
		for (struct ck_m3_conn *c = b->conns; c; c = c->next) {
			if (c->parked && !c->closing)
				ck_m3_serve_again(b, c);
		}
		reap_connections(b);
	} while (b->changed);
}

static void read_signals(struct ck_m3_broker *b)
{
	struct signalfd_siginfo info;

	while (read(b->signals, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
		if (info.ssi_signo != SIGCHLD)
			b->stop = true;
	}
	while (waitpid(-1, NULL, WNOHANG) > 0)
		;
}

static int run_event_loop(struct ck_m3_broker *b)
{
	struct pollfd *fds = calloc(FIXED + CONNECTIONS, sizeof(*fds));
	int timeout, events;
	nfds_t n;

	if (!fds)
		return -ENOMEM;
	while (!b->stop) {
		n = fill_pollfds(b, fds, &timeout);
		events = poll(fds, n, timeout);
		if (events < 0 && errno != EINTR)
			break;
		if (events == 0 && is_idle(b) && ck_now_ms() >= b->paused)
			break;
		read_signals(b);
		serve_conns(b, fds); /* before the list changes */
		if (fds[1].revents)
			ck_m3_copier_read(b);
		retry_parked_requests(b);
		if (fds[2].revents)
			accept_some(b);
	}
	free(fds);
	return 0;
}

/* --- start and end */

static void prepare_process(struct ck_m3_broker *b)
{
	struct rlimit files;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGCHLD);
	sigprocmask(SIG_BLOCK, &set, NULL);
	b->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	b->reserve = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
		files.rlim_cur = files.rlim_max;
		setrlimit(RLIMIT_NOFILE, &files);
	}
}

/* The driver frees the rest when the process ends; this is for leak checkers. */
static void forget_all(struct ck_m3_broker *b)
{
	while (b->conns) {
		struct ck_m3_conn *c = b->conns;

		if (c->fd >= 0)
			conn_end(b, c);
		ck_m3_holds_drained(b, c);
		b->conns = c->next;
		conn_free(b, c);
	}
	ck_m3_copier_destroy(b->copier);
	b->copier = NULL;
	for (struct ck_m3_piece *p = b->pieces, *next; p; p = next) {
		next = p->next;
		p->detached = false;
		p->jobs = 0;
		ck_m3_piece_check(b, p);
	}
	while (b->principals) {
		struct ck_m3_principal *p = b->principals;

		b->principals = p->next;
		free(p);
	}
}

int ck_m3_broker_main(const struct ck_m3_broker_options *options)
{
	static struct ck_m3_broker b;
	char why[256] = "";
	uint16_t epoch = 0;
	int ret;

	memset(&b, 0, sizeof(b));
	b.options = options;
	prepare_process(&b);
	ret = ck_m3_driver_open(&b.driver, options->driver, why, sizeof(why));
	if (ret < 0) {
		ck_err("M3: driver %s: %s", options->driver, why);
		return 1;
	}
	while (epoch == 0 && getrandom(&epoch, sizeof(epoch), 0) > 0)
		;
	b.epoch = epoch;
	b.copier = ck_m3_copier_create(options->driver);
	ck_info("M3: %d device%s", b.driver.device_count, b.driver.device_count == 1 ? "" : "s");
	if (b.copier && options->ready)
		options->ready(options);
	ret = b.copier ? run_event_loop(&b) : -ENOMEM;
	forget_all(&b);
	close(b.signals);
	if (b.reserve >= 0)
		close(b.reserve);
	return ret < 0;
}
