/*
 * server/processes/broker.c - the memory broker (m3/) of the server: its socket, and starting its
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
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "m3/broker.h"
#include "m3/message.h"
#include "server/processes/supervisor.h"
#include "util/fd.h"
#include "util/log.h"
#include "util/until.h"

CK_LOG_DEFINE("server");

#define CK_BROKER_FD 3
#define CK_BROKER_REGIONS 1024 /* per user, as in m3-server */
#define CK_RESTART_MS 200      /* pause between two starts */

struct cks_broker {
	int listener;
	char path[108];
	struct stat file; /* the socket's file, if any */
	const char *driver;
	pid_t pid; /* 0: not running */
	int64_t not_before;
};

struct cks_broker *cks_broker_create(const char *path, const char *unix_path)
{
	struct cks_broker *b = calloc(1, sizeof(*b));

	if (!b)
		return NULL;
	b->listener = -EINVAL;
	if (path && strlen(path) < sizeof(b->path))
		strcpy(b->path, path);
	else if (unix_path && strlen(unix_path) + 3 < sizeof(b->path))
		sprintf(b->path, "%s.m3", unix_path);
	if (b->path[0])
		b->listener = ck_m3_listen(b->path);
	if (b->path[0] && b->listener < 0)
		ck_warn("no socket %s for shared memory: %s", b->path, strerror(-b->listener));
	if (b->listener < 0) { /* for the workers at least */
		snprintf(b->path, sizeof(b->path), "@cricket-m3-%d", (int)getpid());
		b->listener = ck_m3_listen(b->path);
	}
	if (b->path[0] == '/' && b->listener >= 0 && stat(b->path, &b->file) < 0)
		b->file = (struct stat){0};
	if (b->listener >= 0)
		return b;
	ck_warn("no socket for shared memory: %s", strerror(-b->listener));
	free(b);
	return NULL;
}

void cks_broker_destroy(struct cks_broker *b)
{
	if (!b)
		return;
	if (b->pid > 0)
		kill(b->pid, SIGKILL);
	close(b->listener);
	if (b->path[0] == '/')
		cks_unlink_own(b->path, &b->file);
	free(b);
}

void cks_broker_driver(struct cks_broker *b, const char *driver)
{
	if (b)
		b->driver = driver;
}

const char *cks_broker_path(const struct cks_broker *b)
{
	return b ? b->path : NULL;
}

size_t cks_broker_poll(const struct cks_broker *b, struct pollfd *fds, int *timeout_ms)
{
	int64_t wait;

	if (!b || b->pid > 0)
		return 0;
	wait = b->not_before - ck_now_ms();
	if (wait > 0) {
		if (*timeout_ms < 0 || wait < *timeout_ms)
			*timeout_ms = (int)wait;
		return 0;
	}
	fds[0] = (struct pollfd){.fd = b->listener, .events = POLLIN};
	return 1;
}

static _Noreturn void become_broker(struct cks_broker *b)
{
	sigset_t none;
	int high = fcntl(b->listener, F_DUPFD_CLOEXEC, 10);

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (high >= 0 && dup2(high, CK_BROKER_FD) >= 0)
		execl("/proc/self/exe", "cricket-rpc-server", "--m3-broker", b->driver, NULL);
	_exit(127);
}

void cks_broker_start(struct cks_broker *b)
{
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

	while ((fd = accept4(b->listener, NULL, NULL, SOCK_CLOEXEC)) >= 0)
		close(fd);
}

bool cks_broker_ended(struct cks_broker *b, pid_t pid, int status)
{
	if (!b || pid != b->pid)
		return false;
	b->pid = 0;
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
		ck_info("the memory broker has ended");
	} else if (WIFEXITED(status)) {
		ck_err("the memory broker cannot start: exit status %d", WEXITSTATUS(status));
		send_away(b);
	} else {
		ck_warn("the memory broker was killed by signal %d; what was shared by name is "
			"lost",
			WTERMSIG(status));
	}
	return true;
}

int cks_broker_main(const char *driver)
{
	struct ck_m3_broker_options options = {
		.driver = driver, .listener = CK_BROKER_FD, .quota_regions = CK_BROKER_REGIONS};

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_NAME, "cricket-broker");
	signal(SIGPIPE, SIG_IGN);
	ck_fd_set_cloexec(CK_BROKER_FD, true);
	return ck_m3_broker_main(&options);
}
