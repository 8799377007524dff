/*
 * server/door/broker.c - the memory broker (m3/) of the server: its socket, and starting its
 * process.
 *
 * The supervisor listens, and starts the broker when the first client connects, also after a broker
 * has ended. Without clients for shared memory there is no broker.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "m3/message.h"
#include "server/door/broker.h"
#include "server/door/listeners.h"
#include "server/options/options.h"
#include "server/processes/child.h"
#include "server/processes/process.h"
#include "server/processes/sockets.h"
#include "server/processes/state.h"
#include "server/worker/orphan_reconnect.h"
#include "util/log.h"
#include "util/until.h"

CK_LOG_DEFINE("server");

#define CK_RESTART_MS 200 /* pause between two starts */
#define CK_RETURN_MS 1000 /* between two tries to get the socket of a broker that lives */

struct cks_broker {
	const struct cks_options *options;
	struct cks_socket socket; /* its fd is negative: awaiting a broker that has it */
	const char *driver;
	pid_t pid;	    /* 0: not running */
	int process, leash; /* of one that has outlived its supervisor: pidfd, connection; else 0 */
	int64_t not_before;
};

static int open_socket(const struct cks_broker *b, struct cks_socket *socket)
{
	int ret;

	socket->fd = ck_m3_listen(socket->path);
	ret = socket->fd < 0 ? 0 : cks_users_admit(&b->options->worker_users, socket->path);
	if (ret < 0)
		ck_warn("workers cannot use %s: %s", socket->path, strerror(-ret));
	if (socket->fd >= 0 && socket->path[0] == '/' && stat(socket->path, &socket->file) < 0)
		socket->file = (struct stat){0};
	return socket->fd;
}

/* Without a state folder, a broker of a crashed server is about to end; with one, it keeps its
 * socket and returns. */
static void open_first_socket(struct cks_broker *b)
{
	int64_t by = 0;
	int fd;

	do
		fd = open_socket(b, &b->socket);
	while (fd == -EADDRINUSE && !b->options->state_dir && cks_wait_in_use(b->socket.path, &by));
}

static void choose_path(char out[108], const struct cks_options *o, const char *unix_path)
{
	int n = 0;

	if (o->m3_path)
		n = snprintf(out, 108, "%s", o->m3_path);
	else if (unix_path)
		n = snprintf(out, 108, "%s.m3", unix_path);
	else if (o->state_dir)
		n = snprintf(out, 108, "%s/m3", o->state_dir);
	if (n >= 108)
		out[0] = '\0';
}

struct cks_broker *cks_broker_create(const struct cks_options *o, const char *unix_path)
{
	struct cks_broker *b = calloc(1, sizeof(*b));

	if (!b)
		return NULL;
	b->options = o;
	b->socket.fd = -EINVAL;
	choose_path(b->socket.path, o, unix_path);
	if (b->socket.path[0])
		open_first_socket(b);
	if (b->socket.fd == -EADDRINUSE && o->state_dir)
		return b; /* the broker of a supervisor that has crashed will return */
	if (b->socket.path[0] && b->socket.fd < 0)
		ck_warn("no socket %s for shared memory: %s", b->socket.path,
			strerror(-b->socket.fd));
	if (b->socket.fd < 0) { /* for the workers at least */
		snprintf(b->socket.path, sizeof(b->socket.path), "@cricket-m3-%d", (int)getpid());
		open_socket(b, &b->socket);
	}
	if (b->socket.fd >= 0)
		return b;
	ck_warn("no socket for shared memory: %s", strerror(-b->socket.fd));
	free(b);
	return NULL;
}

void cks_broker_destroy(struct cks_broker *b)
{
	if (!b)
		return;
	if (b->process)
		cks_process_kill(b->process);
	else if (b->pid > 0)
		kill(b->pid, SIGKILL);
	if (b->socket.fd >= 0)
		close(b->socket.fd);
	if (b->socket.path[0] == '/')
		cks_unlink_own(b->socket.path, &b->socket.file);
	free(b);
}

void cks_broker_save(const struct cks_broker *b, struct cks_state *state)
{
	if (!b)
		return;
	state->broker = b->socket;
	state->broker_pid = b->pid;
	state->broker_process = b->process;
	state->broker_leash = b->leash;
}

struct cks_broker *cks_broker_resume(const struct cks_state *state,
				     const struct cks_options *options)
{
	struct cks_broker *b = state->broker.fd >= 0 ? calloc(1, sizeof(*b)) : NULL;

	if (!b)
		return NULL;
	b->socket = state->broker;
	b->options = options;
	b->pid = state->broker_pid;
	b->process = state->broker_process;
	b->leash = state->broker_leash;
	cks_socket_path(&b->socket);
	return b;
}

void cks_broker_driver(struct cks_broker *b, const char *driver)
{
	if (b)
		b->driver = driver;
}

const char *cks_broker_path(const struct cks_broker *b)
{
	return b ? b->socket.path : NULL;
}

int cks_broker_return(struct cks_broker *b, int socket, pid_t pid, int process, int leash)
{
	if (!b || b->pid > 0)
		return -EBUSY;
	if (b->socket.fd >= 0)
		close(b->socket.fd);
	b->socket.fd = socket;
	cks_socket_path(&b->socket);
	if (stat(b->socket.path, &b->socket.file) < 0)
		b->socket.file = (struct stat){0};
	b->pid = pid;
	b->process = process;
	b->leash = leash;
	ck_info("the memory broker has its server again");
	return 0;
}

/* The descriptor to wait for, or -1. */
static int get_awaited_fd(struct cks_broker *b, int64_t now)
{
	if (b->pid > 0)
		return b->leash ? b->leash : -1;
	if (now < b->not_before)
		return -1;
	if (b->socket.fd < 0 && open_socket(b, &b->socket) < 0)
		b->not_before = now + CK_RETURN_MS;
	return b->socket.fd;
}

size_t cks_broker_poll(struct cks_broker *b, struct pollfd *fds, int *timeout_ms)
{
	int64_t now = ck_now_ms(), wait;
	int fd = b ? get_awaited_fd(b, now) : -1;

	if (fd >= 0) {
		fds[0] = (struct pollfd){.fd = fd, .events = POLLIN};
		return 1;
	}
	wait = b && b->pid == 0 ? b->not_before - now : -1;
	if (wait > 0)
		ck_poll_sooner(timeout_ms, wait);
	return 0;
}

static _Noreturn void become_broker(struct cks_broker *b)
{
	const struct cks_options *o = b->options;
	int high = fcntl(b->socket.fd, F_DUPFD_CLOEXEC, 10);
	char seconds[24];

	cks_child_signals();
	snprintf(seconds, sizeof(seconds), "%llu",
		 (unsigned long long)o->limits.value[CK_LIMIT_KEEP]);
	if (high >= 0 && dup2(high, CK_BROKER_FD) >= 0)
		execl("/proc/self/exe", "cricket-rpc-server", "--m3-broker", b->driver,
		      cks_orphans_allowed(o) ? o->state_dir : "", seconds,
		      o->worker_users_text ? o->worker_users_text : "", NULL);
	_exit(127);
}

/* A broker that is no child has ended, for any reason. */
static void forget_broker(struct cks_broker *b)
{
	ck_warn("the memory broker has ended; memory shared by name is lost");
	close(b->leash);
	close(b->process);
	b->leash = b->process = b->pid = 0;
}

void cks_broker_run(struct cks_broker *b)
{
	if (b->pid > 0) {
		forget_broker(b);
		return;
	}
	b->not_before = ck_now_ms() + CK_RESTART_MS;
	b->pid = fork();
	if (b->pid == 0)
		become_broker(b);
	if (b->pid < 0)
		ck_err("starting the memory broker: %m");
}

/* The broker cannot start: disconnect the waiting clients, since they would trigger starts without
 * end. */
static void send_away(struct cks_broker *b)
{
	int fd;

	while ((fd = accept4(b->socket.fd, NULL, NULL, SOCK_CLOEXEC)) >= 0)
		close(fd);
}

bool cks_broker_ended(struct cks_broker *b, pid_t pid, int status)
{
	if (!b || pid != b->pid || b->process)
		return false;
	b->pid = 0;
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
		ck_info("the memory broker has ended");
	} else if (WIFEXITED(status)) {
		ck_err("the memory broker cannot start: exit status %d", WEXITSTATUS(status));
		send_away(b);
	} else {
		ck_warn("the memory broker was killed by signal %d; memory shared by name is lost",
			WTERMSIG(status));
	}
	return true;
}
