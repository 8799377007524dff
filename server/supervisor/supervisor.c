/*
 * server/supervisor/supervisor.c - signals and the poll loop; see supervisor.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "server/children/deadlines.h"
#include "server/children/front_process.h"
#include "server/children/gpu_turns.h"
#include "server/children/helpers.h"
#include "server/children/spare_workers.h"
#include "server/children/workers.h"
#include "server/door/broker.h"
#include "server/door/disconnected_sessions.h"
#include "server/door/new_connection.h"
#include "server/life/drain.h"
#include "server/life/migration.h"
#include "server/life/suspend.h"
#include "server/options/options.h"
#include "server/processes/child.h"
#include "server/processes/sockets.h"
#include "server/session/version.h"
#include "server/supervisor/control_commands.h"
#include "server/supervisor/host.h"
#include "server/supervisor/reload.h"
#include "server/supervisor/supervisor.h"
#include "server/supervisor/supervisor_part.h"
#include "util/env.h"
#include "util/log.h"
#include "util/until.h"

CK_LOG_DEFINE("server");

#define CK_ACCEPTS 64	/* connections accepted per round, so that others get their turn */
#define CK_PAUSE_MS 100 /* pause in accepting when descriptors run out */

static int block_signals(struct supervisor *s)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGUSR2);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
	cks_signals_ignore();
	s->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return s->signals < 0 ? -errno : 0;
}

/* Handle children that have ended. */
static void reap_children(struct supervisor *s)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		cks_migration_policy_ended(s->travels, s->options, s->workers, pid, status);
		if (!cks_suspender_ended(s->suspender, pid) &&
		    !cks_workers_mps_ended(s->workers, pid, status) &&
		    !cks_workers_ended(s->workers, pid, status) &&
		    !cks_broker_ended(s->broker, pid, status) &&
		    !cks_upgrade_ended(&s->upgrade, pid, status) &&
		    !cks_front_process_ended(s->fronts, pid, status) &&
		    !cks_gpu_time_ended(&s->gauge, pid) && !cks_helpers_ended(s->helpers, pid) &&
		    !cks_new_connection_ended(s->fresh, pid))
			ck_debug("rpcbind %s", status == 0 ? "knows program 99"
							   : "has not taken the registration");
	}
}

/* The same for workers that are no children: their exit status is unknown. */
static void forget_gone(struct supervisor *s)
{
	pid_t pid;

	while ((pid = cks_workers_gone(s->workers)) > 0) {
		cks_migration_policy_ended(s->travels, s->options, s->workers, pid, -1);
		cks_suspender_ended(s->suspender, pid);
		cks_workers_forget(s->workers, pid);
	}
}

void cks_supervisor_drain(struct supervisor *s)
{
	s->spares.warm = s->spares.standby = 0; /* they have no purpose any more */
	cks_new_connection_drain(s->fresh);
}

/* SIGTERM begins to drain, if that is wanted; any other signal, and the next one, stops. */
static bool must_stop(struct supervisor *s, uint32_t signal)
{
	uint64_t seconds = s->options->limits.value[CK_LIMIT_DRAIN];

	ck_info("signal %u (%s)%s", signal, strsignal((int)signal),
		signal == SIGTERM && seconds && !s->drain.by ? "" : ": stopping");
	if (signal != SIGTERM || !seconds || s->drain.by)
		return true;
	cks_supervisor_drain(s);
	cks_drain_begin(&s->drain, s->workers, seconds);
	return false;
}

static struct cks_reload files_of(const struct supervisor *s)
{
	return (struct cks_reload){.options = s->options,
				   .workers = s->workers,
				   .fresh = s->fresh,
				   .fronts = s->fronts,
				   .accounts = s->accounts,
				   .audit = s->audit};
}

/* True: stop. */
static bool take_signal(struct supervisor *s, uint32_t signal)
{
	struct cks_reload files;
	char why[CK_RELOAD_WHY];

	switch (signal) {
	case SIGCHLD:
		return false;
	case SIGHUP:
		files = files_of(s);
		cks_reload_run(&files, "SIGHUP", why);
		return false;
	case SIGUSR2:
		s->upgrade.wanted = true;
		return false;
	default:
		return must_stop(s, signal);
	}
}

/* True: stop. The kernel looks at each child to find one that has ended, so it is asked only when
 * one has. */
static bool read_signals(struct supervisor *s)
{
	struct signalfd_siginfo info;

	while (read(s->signals, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
		s->childless &= info.ssi_signo != SIGCHLD;
		if (take_signal(s, info.ssi_signo))
			return true;
	}
	if (!s->childless)
		reap_children(s);
	s->childless = true;
	return false;
}

/*
 * No descriptors are left: accept the next connection with the reserve and close it, so that its
 * client gets an error at once instead of waiting in the queue.
 */
static void refuse_connection(struct supervisor *s, int listener)
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
	for (int i = 0; i < CK_ACCEPTS && cks_new_connection_has_room(s->fresh); i++) {
		int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

		if (fd >= 0) {
			cks_new_connection_add(s->fresh, fd);
			continue;
		}
		if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
			refuse_connection(s, listener);
		if (errno != ECONNABORTED && errno != EINTR)
			return;
	}
}

/* The descriptors of one poll. */
struct round {
	struct pollfd *fds; /* with entries that are not open (-1) */
	size_t count;
	struct pollfd *open; /* those that are */
	size_t control, rendezvous, helpers, fresh,
		listeners; /* index of the first entry of each */
	int timeout;
};

/* Add the descriptors of fresh connections, and of listeners unless paused or full. */
static void collect_connections(struct supervisor *s, struct round *r)
{
	int64_t pause = s->paused - ck_now_ms();
	size_t n = r->count;

	r->fresh = n;
	n += cks_new_connection_poll(s->fresh, r->fds + n, &r->timeout);
	r->listeners = n;
	if (pause > 0)
		ck_poll_sooner(&r->timeout, pause);
	for (size_t i = 0;
	     pause <= 0 && i < s->listeners.count && cks_new_connection_has_room(s->fresh); i++)
		r->fds[n++] = (struct pollfd){.fd = s->listeners.list[i].fd, .events = POLLIN};
	r->count = n;
}

/* Collect the descriptors of one round: signals, the broker's socket (or an empty entry), workers,
 * and connections. */
static void collect_descriptors(struct supervisor *s, struct round *r)
{
	size_t n = 0;

	r->timeout = cks_spare_workers_run(&s->spares, s->workers);
	cks_suspender_run(s->suspender, &r->timeout);
	cks_gpu_turns_run(s->workers, &r->timeout);
	cks_workers_mps_run(s->workers, &r->timeout);
	ck_poll_sooner(&r->timeout, cks_deadlines_run(s->workers, s->accounts, &s->deadlines));
	ck_poll_sooner(&r->timeout, cks_drain_run(&s->drain, s->workers));
	ck_poll_sooner(&r->timeout, cks_watchdog_run(&s->watchdog));
	ck_poll_sooner(&r->timeout, ck_log_report_dropped(false));
	ck_poll_sooner(&r->timeout, cks_upgrade_tend(&s->upgrade));
	ck_poll_sooner(&r->timeout, cks_travels_due(s->travels, s->workers));
	r->fds[n++] = (struct pollfd){.fd = s->signals, .events = POLLIN};
	r->fds[n] = (struct pollfd){.fd = -1};
	cks_broker_poll(s->broker, &r->fds[n++], &r->timeout);
	cks_gpu_time_poll(&s->gauge, &r->fds[n++]);
	r->fds[n++] = (struct pollfd){.fd = cks_workers_fd(s->workers), .events = POLLIN};
	r->control = n;
	n += cks_control_poll(s->control, r->fds + n);
	r->rendezvous = n;
	n += cks_rendezvous_poll(&s->rendezvous, r->fds + n);
	r->helpers = n;
	n += cks_helpers_poll(s->helpers, r->fds + n);
	r->count = n;
	collect_connections(s, r);
}

/* Read existing connections before accepting new ones, which may evict silent ones. */
static void serve_connections(struct supervisor *s, const struct round *r)
{
	cks_new_connection_polled(s->fresh, r->fds + r->fresh);
	cks_new_connection_run(s->fresh);
	for (size_t i = r->listeners; i < r->count; i++) {
		if (r->fds[i].revents)
			accept_some(s, r->fds[i].fd);
	}
	cks_new_connection_run(s->fresh);
}

/* Carry out commands, and later steps of earlier ones. */
static void run_commands(struct supervisor *s, const struct round *r)
{
	uint64_t drain = 0;
	struct cks_reload files = files_of(s);
	struct cks_server server = {.commands = cks_commands,
				    .options = s->options,
				    .control = s->control,
				    .workers = s->workers,
				    .upgrade = &s->upgrade,
				    .suspender = s->suspender,
				    .helpers = s->helpers,
				    .travels = s->travels,
				    .away = s->away,
				    .audit = s->audit,
				    .queue = cks_new_connection_queue(s->fresh),
				    .listeners = &s->listeners,
				    .drain = &drain,
				    .files = &files,
				    .gpus = s->gpus,
				    .driver = s->driver[0] ? s->driver : s->options->driver};

	cks_control_run(s->control, r->fds + r->control, &server);
	cks_helpers_run(s->helpers, r->fds + r->helpers, &server);
	cks_travels_run(s->travels, &server);
	if (drain > 0 && !s->drain.by) {
		cks_supervisor_drain(s);
		cks_drain_begin(&s->drain, s->workers, drain);
	}
}

/* poll(2) takes no more entries than the process may have descriptors, so only the open ones are
 * passed. -errno. */
static int wait_for_any(struct round *r)
{
	size_t n = 0, next = 0;
	int ret;

	for (size_t i = 0; i < r->count; i++) {
		if (r->fds[i].fd >= 0)
			r->open[n++] = r->fds[i];
	}
	ret = poll(r->open, n, r->timeout) < 0 ? -errno : 0;
	for (size_t i = 0; i < r->count; i++)
		r->fds[i].revents = r->fds[i].fd >= 0 ? r->open[next++].revents : 0;
	return ret;
}

/* Until the server ends. -errno, logged. */
static int run_rounds(struct supervisor *s, struct round *r)
{
	int ret;

	for (;;) {
		forget_gone(s);
		if (cks_drain_over(&s->drain, s->workers))
			return 0;
		cks_supervisor_upgrade(s);
		collect_descriptors(s, r);
		ret = wait_for_any(r);
		if (ret == -EINTR)
			continue;
		if (ret < 0) {
			ck_err("poll: %s", strerror(-ret));
			return ret;
		}
		if (read_signals(s))
			return 0;
		if (r->fds[1].revents)
			cks_broker_run(s->broker);
		if (r->fds[2].revents)
			cks_gpu_time_run(&s->gauge, s->workers);
		if (r->fds[3].revents)
			cks_workers_read(s->workers);
		cks_disconnected_run(s->workers, s->options->limits.value[CK_LIMIT_KEPT]);
		forget_gone(s);
		cks_rendezvous_run(&s->rendezvous, r->fds + r->rendezvous, s->workers, s->broker);
		run_commands(s, r);
		serve_connections(s, r);
	}
}

/*
 * The server stops: serve the sessions until they have told their programs' users why they end. A
 * client that does not listen for that yet needs a connection.
 */
static void let_sessions_end(struct supervisor *s, struct round *r)
{
	int64_t left;

	cks_supervisor_drain(s);
	cks_workers_begin_stop(s->workers, cks_drain_line(&s->drain));
	while ((left = cks_workers_stop_left(s->workers)) > 0) {
		r->timeout = (int)left;
		r->count = 0;
		r->fds[r->count++] = (struct pollfd){.fd = s->signals, .events = POLLIN};
		r->fds[r->count++] =
			(struct pollfd){.fd = cks_workers_fd(s->workers), .events = POLLIN};
		collect_connections(s, r);
		if (wait_for_any(r) < 0 || read_signals(s))
			return;
		if (r->fds[1].revents)
			cks_workers_read(s->workers);
		forget_gone(s);
		serve_connections(s, r);
	}
}

static int run_supervisor(struct supervisor *s)
{
	size_t room = 4 + CK_CONTROL_POLL + CK_RENDEZVOUS_POLL + CK_HELPERS_MAX +
		      CK_NEW_CONNECTION_MAX + CK_LISTENERS;
	struct round r = {.fds = calloc(room, sizeof(*r.fds)),
			  .open = calloc(room, sizeof(*r.open))};
	int ret = r.fds && r.open ? run_rounds(s, &r) : -ENOMEM;

	cks_notify("STOPPING=1");
	if (ret == 0)
		let_sessions_end(s, &r);
	free(r.fds);
	free(r.open);
	return ret;
}

static void log_warning(const char *line)
{
	ck_warn("%s", line);
}

/* 2: options or files are wrong, and the next start would fail too; 1: other reasons. */
static int exit_status(int ret)
{
	static const int wrong[] = {EINVAL, EACCES, EPERM, ENOENT, ENOTDIR,
				    EISDIR, EROFS,  ELOOP, ENXIO,  ENOTSOCK};

	for (size_t i = 0; i < CK_ARRAY_SIZE(wrong); i++) {
		if (ret == -wrong[i])
			return 2;
	}
	return ret == 0 ? 0 : 1;
}

int cks_supervisor_main(const struct cks_options *options, char **argv, int state)
{
	static struct supervisor s;
	int ret;

	s = (struct supervisor){.options = options,
				.signals = -1,
				.reserve = -1,
				.pid_file = -1,
				.gauge.control = -1};
	cks_upgrade_init(&s.upgrade, argv);
	cks_rendezvous_init(&s.rendezvous);
	cks_watchdog_init(&s.watchdog);
	ck_info("cricket-rpc-server %s", CK_RELEASE);
	ck_env_check(CK_ENV_SERVER | CK_ENV_EMU, log_warning);
	ck_env_replace_old();
	ret = cks_supervisor_raise_limit();
	if (ret == 0)
		ret = block_signals(
			&s); /* before anything exists that a signal would leave behind */
	if (ret == 0)
		ret = state < 0 ? cks_supervisor_start(&s) : cks_supervisor_resume(&s, state);
	if (ret == 0) {
		for (size_t i = 0; i < s.listeners.count; i++)
			cks_rpcbind_set(s.listeners.list[i].fd);
		cks_audit_event(s.audit, state < 0 ? "server-start" : "server-upgraded",
				json_pack("{s:s}", "release", CK_RELEASE));
		cks_notify("READY=1");
		ret = run_supervisor(&s);
	}
	cks_supervisor_stop(&s);
	ck_log_report_dropped(true);
	return exit_status(ret);
}
