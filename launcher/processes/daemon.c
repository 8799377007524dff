/*
 * launcher/processes/daemon.c - accept clients, keep a worker ready for the next; see daemon.h.
 *
 * Three kinds of processes: this one, which only accepts; a session for each client, forked from
 * it; and a worker for each session. A worker is started before its client comes, so that no client
 * waits for the driver. This process forks them and has no thread and no CUDA.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "launcher/launch/run.h"
#include "launcher/processes/daemon.h"
#include "launcher/processes/session.h"
#include "launcher/text/failure.h"
#include "util/log.h"
#include "util/address/unixsock.h"

CK_LOG_DEFINE("launcher");

#define CLIENTS_MAX 64
#define GRACE_MS 30000 /* that sessions have to finish */
#define REST_MS 20
#define RESPAWN_MS 1000 /* between spare workers that end before they are used */

/* A session, and the worker that it was given: it can outlive a session that is killed. */
struct client {
	int session; /* pidfd, -1: free */
	struct ckl_worker worker;
};

struct daemon {
	const struct ckl_options *options;
	int listen, signals;
	struct ckl_worker spare;
	double spare_since;
	struct client clients[CLIENTS_MAX];
	bool stopping;
	double stop_by;
};

static void spare_begin(struct daemon *d)
{
	if (d->spare.sock >= 0 || d->stopping || ckl_milliseconds() - d->spare_since < RESPAWN_MS)
		return;
	ckl_worker_start(&d->spare, d->options);
	d->spare_since = ckl_milliseconds();
}

/* The forked session. Its parent ends it with SIGTERM. */
static void session_run(struct daemon *d, int sock)
{
	struct ckl_worker worker = d->spare;
	sigset_t terms;
	int stop;

	prctl(PR_SET_NAME, "gpu_session");
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	close(d->listen);
	close(d->signals);
	for (size_t i = 0; i < CLIENTS_MAX; i++) {
		if (d->clients[i].session >= 0)
			close(d->clients[i].session);
	}
	sigemptyset(&terms);
	sigaddset(&terms, SIGTERM);
	sigaddset(&terms, SIGINT);
	sigprocmask(SIG_BLOCK, &terms, NULL);
	sigdelset(&terms, SIGINT);
	stop = signalfd(-1, &terms, SFD_CLOEXEC);
	exit(ckl_session_serve(d->options, sock, sock, &worker, stop));
}

static struct client *client_slot(struct daemon *d)
{
	for (size_t i = 0; i < CLIENTS_MAX; i++) {
		if (d->clients[i].session < 0)
			return &d->clients[i];
	}
	return NULL;
}

/* Accept only programs of this user: a program that launches kernels has our rights. */
static bool is_admitted(int sock)
{
	struct ucred peer;
	socklen_t size = sizeof(peer);

	return getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
	       (peer.uid == geteuid() || peer.uid == 0);
}

static void client_accept(struct daemon *d)
{
	int sock = accept4(d->listen, NULL, NULL, SOCK_CLOEXEC);
	struct client *client = client_slot(d);
	pid_t pid = -1;

	if (sock < 0) {
		/* out of descriptors: clients wait, and we wait for descriptors */
		poll(NULL, 0, REST_MS);
		return;
	}
	if (client && is_admitted(sock))
		pid = fork();
	else
		ck_warn("a client is refused: %s", client ? "another user's" : "too many");
	if (pid == 0)
		session_run(d, sock);
	if (pid > 0) {
		client->session = (int)syscall(SYS_pidfd_open, pid, 0);
		/* The session has the socket; we keep only the means to kill the worker. */
		client->worker = d->spare;
		if (d->spare.sock >= 0)
			close(d->spare.sock);
		client->worker.sock = -1;
		d->spare = (struct ckl_worker){.sock = -1, .pidfd = -1};
		d->spare_since = 0;
	}
	close(sock);
}

static void client_ended(struct client *client)
{
	close(client->session);
	client->session = -1;
	ckl_worker_end(&client->worker);
}

static void signal_all(struct daemon *d, int signal)
{
	for (size_t i = 0; i < CLIENTS_MAX; i++) {
		if (d->clients[i].session >= 0)
			syscall(SYS_pidfd_send_signal, d->clients[i].session, signal, NULL, 0);
	}
}

static void handle_signal(struct daemon *d)
{
	struct signalfd_siginfo info;

	if (read(d->signals, &info, sizeof(info)) != sizeof(info))
		return;
	if (d->stopping) {
		signal_all(d, SIGKILL);
		return;
	}
	d->stopping = true;
	d->stop_by = ckl_milliseconds() + GRACE_MS;
	close(d->listen);
	d->listen = -1;
	signal_all(d, SIGTERM); /* before a client can see that the daemon ends */
	unlink(d->options->daemon);
}

static bool has_clients(const struct daemon *d)
{
	for (size_t i = 0; i < CLIENTS_MAX; i++) {
		if (d->clients[i].session >= 0)
			return true;
	}
	return false;
}

static void wait_and_read(struct daemon *d)
{
	struct pollfd fds[CLIENTS_MAX + 3] = {
		{.fd = d->listen, .events = POLLIN},
		{.fd = d->signals, .events = POLLIN},
		{.fd = d->spare.pidfd, .events = POLLIN},
	};

	for (size_t i = 0; i < CLIENTS_MAX; i++)
		fds[i + 3] = (struct pollfd){.fd = d->clients[i].session, .events = POLLIN};
	if (poll(fds, CK_ARRAY_SIZE(fds), d->stopping || d->spare.sock < 0 ? 200 : -1) < 0)
		return;
	if (fds[2].revents) /* the spare worker has ended */
		ckl_worker_end(&d->spare);
	for (size_t i = 0; i < CLIENTS_MAX; i++) {
		if (fds[i + 3].revents)
			client_ended(&d->clients[i]);
	}
	if (fds[1].revents)
		handle_signal(d);
	if (fds[0].revents && d->listen >= 0)
		client_accept(d);
	if (d->stopping && ckl_milliseconds() >= d->stop_by)
		signal_all(d, SIGKILL);
}

int ckl_daemon_run(const struct ckl_options *options)
{
	struct daemon d = {.options = options, .spare = {.sock = -1, .pidfd = -1}};
	sigset_t signals;

	for (size_t i = 0; i < CLIENTS_MAX; i++)
		d.clients[i].session = -1;
	d.listen = ck_unix_listen(options->daemon, SOCK_STREAM);
	if (d.listen < 0) {
		fprintf(stderr, "gpu_launcher: %s: %s\n", options->daemon, strerror(-d.listen));
		return CK_EXIT_SERVICE;
	}
	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	d.signals = signalfd(-1, &signals, SFD_CLOEXEC);
	while (!d.stopping || has_clients(&d)) {
		spare_begin(&d);
		wait_and_read(&d);
	}
	ckl_worker_end(&d.spare);
	return CK_EXIT_OK;
}
