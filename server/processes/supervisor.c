/*
 * server/processes/supervisor.c - listeners, signals and the poll loop; see supervisor.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "rpc/chan.h"
#include "server/processes/options.h"
#include "server/processes/supervisor.h"
#include "server/session/version.h"
#include "util/log.h"
#include "util/until.h"

CK_LOG_DEFINE("server");

#define CK_LISTENERS (CK_LISTEN_MAX + 1)
#define CK_ACCEPTS 64	/* connections accepted per round, so that others get their turn */
#define CK_PAUSE_MS 100 /* pause in accepting when descriptors run out */

struct listener {
	int fd;
	char path[108];	  /* of a unix socket, for removal; else empty */
	struct stat file; /* remove only this file */
};

struct supervisor {
	const struct cks_options *options;
	struct listener listeners[CK_LISTENERS];
	size_t listener_count;
	int signals;
	int reserve; /* a descriptor to close when none are left */
	int pid_file;
	int64_t paused; /* do not accept before this time */
	struct cks_drain drain;
	struct cks_workers *workers;
	struct cks_spares spares;
	struct cks_fresh_list *fresh;
	struct cks_broker *broker;
};

/* Log the client's address; the kernel chooses the port for port 0. */
static void log_listener(int fd, const char *address)
{
	struct sockaddr_storage bound;
	socklen_t size = sizeof(bound);
	char host[64], port[8];

	if (getsockname(fd, (struct sockaddr *)&bound, &size) == 0 && bound.ss_family != AF_UNIX &&
	    getnameinfo((struct sockaddr *)&bound, size, host, sizeof(host), port, sizeof(port),
			NI_NUMERICHOST | NI_NUMERICSERV) == 0)
		ck_info(strchr(host, ':') ? "listening on [%s]:%s" : "listening on %s:%s", host,
			port);
	else
		ck_info("listening on %s", address);
}

static void note_listener(struct supervisor *s, int fd, const char *address)
{
	struct listener *l = &s->listeners[s->listener_count++];

	*l = (struct listener){.fd = fd};
	if (strncmp(address, "unix:", 5) == 0) {
		snprintf(l->path, sizeof(l->path), "%s", address + 5);
		if (stat(l->path, &l->file) < 0)
			l->path[0] = '\0';
	}
	log_listener(fd, address);
}

static int add_listener(struct supervisor *s, const char *address)
{
	int fd = ck_chan_listen(address);

	if (fd < 0) {
		ck_err("listening on %s: %s", address, strerror(-fd));
		return fd;
	}
	note_listener(s, fd, address);
	return 0;
}

/* Make the unix socket, at the given path or the first usual place that works. */
static int add_unix(struct supervisor *s)
{
	const char *path = s->options->unix_path;
	char address[128];
	int fd = -ENOENT;

	if (s->options->no_unix)
		return 0;
	if (path) {
		snprintf(address, sizeof(address), "unix:%s", path);
		return add_listener(s, address);
	}
	for (unsigned int i = 0; fd < 0 && (path = ck_chan_default_unix(i)); i++) {
		snprintf(address, sizeof(address), "unix:%s", path);
		fd = ck_chan_listen(address);
		if (fd < 0)
			ck_info("no unix socket %s: %s", path, strerror(-fd));
	}
	if (fd < 0)
		return 0; /* not fatal: tcp works */
	note_listener(s, fd, address);
	return 0;
}

static int open_listeners(struct supervisor *s)
{
	int ret = 0;

	for (size_t i = 0; i < s->options->listen_count && ret == 0; i++)
		ret = add_listener(s, s->options->listen[i]);
	return ret < 0 ? ret : add_unix(s);
}

void cks_unlink_own(const char *path, const struct stat *own)
{
	struct stat now;

	if (stat(path, &now) == 0 && now.st_ino == own->st_ino && now.st_dev == own->st_dev)
		unlink(path);
}

static void close_listeners(struct supervisor *s)
{
	for (size_t i = 0; i < s->listener_count; i++) {
		struct listener *l = &s->listeners[i];

		close(l->fd);
		if (l->path[0])
			cks_unlink_own(l->path, &l->file);
	}
	s->listener_count = 0;
}

/* The file is locked while the server lives, so a stale one does no harm. */
static int write_pid_file(struct supervisor *s)
{
	const char *path = s->options->pid_file;
	int fd;

	if (!path)
		return 0;
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	if (fd < 0) {
		ck_err("pid file %s: %m", path);
		return -errno;
	}
	if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		ck_err("pid file %s: another server holds it", path);
		close(fd);
		return -EEXIST;
	}
	s->pid_file = fd;
	if (ftruncate(fd, 0) < 0 || dprintf(fd, "%ld\n", (long)getpid()) < 0) {
		ck_err("pid file %s: %m", path);
		return -EIO;
	}
	return 0;
}

static int block_signals(struct supervisor *s)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGCHLD);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
	s->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return s->signals < 0 ? -errno : 0;
}

/* Handle children that have ended. */
static void reap(struct supervisor *s)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		if (!cks_workers_ended(s->workers, pid, status) &&
		    !cks_broker_ended(s->broker, pid, status))
			ck_debug("rpcbind %s", status == 0 ? "knows program 99"
							   : "has not taken the registration");
	}
}

/* SIGTERM begins to drain, if that is wanted; any other signal, and the next one, stops. */
static bool must_stop(struct supervisor *s, uint32_t signal)
{
	uint64_t seconds = s->options->limits.value[CK_LIMIT_DRAIN];

	ck_info("signal %u (%s)%s", signal, strsignal((int)signal),
		signal == SIGTERM && seconds && !s->drain.by ? "" : ": stopping");
	if (signal != SIGTERM || !seconds || s->drain.by)
		return true;
	s->spares.warm = s->spares.standby = 0; /* they have no purpose any more */
	cks_fresh_drain(s->fresh);
	cks_drain_begin(&s->drain, s->workers, seconds);
	return false;
}

/* True: stop. */
static bool read_signals(struct supervisor *s)
{
	struct signalfd_siginfo info;

	while (read(s->signals, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
		if (info.ssi_signo != SIGCHLD && must_stop(s, info.ssi_signo))
			return true;
	}
	reap(s);
	return cks_drain_over(&s->drain, s->workers);
}

/*
 * No descriptors are left: accept the next connection with the reserve and close it, so that its
 * client gets an error at once instead of waiting in the queue.
 */
static void shed(struct supervisor *s, int listener)
{
	int fd;

	ck_warn("no descriptors left: a connection is refused");
	if (s->reserve >= 0)
		close(s->reserve);
	fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	if (fd >= 0)
		close(fd);
	s->reserve = open("/dev/null", O_RDONLY | O_CLOEXEC);
	s->paused = ck_now_ms() + CK_PAUSE_MS;
}

static void accept_some(struct supervisor *s, int listener)
{
	for (int i = 0; i < CK_ACCEPTS && cks_fresh_has_room(s->fresh); i++) {
		int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

		if (fd >= 0) {
			cks_fresh_add(s->fresh, fd);
			continue;
		}
		if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
			shed(s, listener);
		if (errno != ECONNABORTED && errno != EINTR)
			return;
	}
}

/* The descriptors of one poll. */
struct round {
	struct pollfd *fds;
	size_t count;
	size_t fresh, listeners; /* index of the first fresh connection, of the first listener */
	int timeout;
};

static void lower(int *timeout, int64_t ms)
{
	if (ms >= 0 && (*timeout < 0 || ms < *timeout))
		*timeout = (int)ms;
}

/*
 * Collect the descriptors of one round: signals, the broker's socket (or an empty entry), workers,
 * fresh connections, and listeners unless paused or full.
 */
static void gather(struct supervisor *s, struct round *r)
{
	int64_t pause = s->paused - ck_now_ms();
	size_t n = 0;

	r->timeout = cks_spares_run(&s->spares, s->workers);
	lower(&r->timeout, ck_log_tend(false));
	r->fds[n++] = (struct pollfd){.fd = s->signals, .events = POLLIN};
	r->fds[n] = (struct pollfd){.fd = -1};
	cks_broker_poll(s->broker, &r->fds[n++], &r->timeout);
	n += cks_workers_poll(s->workers, r->fds + n);
	r->fresh = n;
	n += cks_fresh_poll(s->fresh, r->fds + n, &r->timeout);
	r->listeners = n;
	if (pause > 0)
		lower(&r->timeout, pause);
	if (s->drain.by)
		lower(&r->timeout, ck_max(s->drain.by - ck_now_ms(), (int64_t)0));
	for (size_t i = 0; pause <= 0 && i < s->listener_count && cks_fresh_has_room(s->fresh); i++)
		r->fds[n++] = (struct pollfd){.fd = s->listeners[i].fd, .events = POLLIN};
	r->count = n;
}

/* Read existing connections before accepting new ones, which may evict silent ones. */
static void hear(struct supervisor *s, const struct round *r)
{
	cks_fresh_polled(s->fresh, r->fds + r->fresh);
	cks_fresh_run(s->fresh);
	for (size_t i = r->listeners; i < r->count; i++) {
		if (r->fds[i].revents)
			accept_some(s, r->fds[i].fd);
	}
	cks_fresh_run(s->fresh);
}

static int run(struct supervisor *s)
{
	size_t room = 2 + s->options->max_sessions + 2 * CK_WARM_MAX + CK_FRESH_MAX + CK_LISTENERS;
	struct round r = {.fds = calloc(room, sizeof(*r.fds))};

	if (!r.fds)
		return -ENOMEM;
	for (;;) {
		gather(s, &r);
		if (poll(r.fds, r.count, r.timeout) < 0) {
			if (errno != EINTR) {
				ck_err("poll: %m");
				break;
			}
			continue;
		}
		if (read_signals(s))
			break;
		if (r.fds[1].revents)
			cks_broker_start(s->broker);
		cks_workers_read(s->workers);
		hear(s, &r);
	}
	free(r.fds);
	return 0;
}

static void raise_limit(void)
{
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files) < 0)
		return;
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
}

/* The path of the server's own socket; NULL: none. */
static const char *unix_path(const struct supervisor *s)
{
	for (size_t i = s->listener_count; i-- > 0;) {
		if (s->listeners[i].path[0])
			return s->listeners[i].path;
	}
	return NULL;
}

/* By default one, and none with the emulated driver, which loads in milliseconds. */
static unsigned int spares_wanted(int option, const char *driver)
{
	return option >= 0 ? (unsigned int)option : strcmp(driver, "emu") != 0;
}

static int start(struct supervisor *s)
{
	const char *driver;
	int ret = block_signals(s); /* before anything exists that a signal would leave behind */

	if (ret == 0)
		ret = write_pid_file(s);
	if (ret == 0)
		ret = open_listeners(s);
	if (ret < 0)
		return ret;
	s->broker = cks_broker_create(s->options->m3_path, unix_path(s));
	/* Clients that connect meanwhile wait in the sockets' queues. */
	driver = cks_probe_driver(s->options->driver);
	if (!driver)
		return -ENODEV;
	if (strcmp(driver, "emu") != 0)
		cks_mps_check();
	s->spares.warm = spares_wanted(s->options->warm, driver);
	s->spares.standby = spares_wanted(s->options->standby, driver);
	s->reserve = open("/dev/null", O_RDONLY | O_CLOEXEC);
	cks_broker_driver(s->broker, driver);
	s->workers = cks_workers_create(s->options, driver, cks_broker_path(s->broker));
	if (s->workers)
		s->fresh = cks_fresh_create(s->workers, s->options);
	return ret == 0 && !s->fresh ? -ENOMEM : ret;
}

static void stop(struct supervisor *s)
{
	struct stat own;

	close_listeners(s);
	cks_fresh_destroy(s->fresh);
	cks_broker_destroy(s->broker);
	cks_workers_destroy(s->workers);
	cks_rpcbind_unset();
	if (s->pid_file >= 0 && fstat(s->pid_file, &own) == 0)
		cks_unlink_own(s->options->pid_file, &own);
}

int cks_supervisor_main(const struct cks_options *options)
{
	static struct supervisor s;
	int ret;

	s = (struct supervisor){.options = options, .signals = -1, .reserve = -1, .pid_file = -1};
	raise_limit();
	ck_info("cricket-rpc-server %s", CK_RELEASE);
	ret = start(&s);
	if (ret == 0) {
		for (size_t i = 0; i < s.listener_count; i++)
			cks_rpcbind_set(s.listeners[i].fd);
		ret = run(&s);
	}
	stop(&s);
	ck_log_tend(true);
	return ret == 0 ? 0 : 1;
}
