/*
 * server/children/worker_starts.c - a session gets its worker: a spare one, or a process started
 * for it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/children/workers.h"
#include "server/children/workers_part.h"
#include "server/policy/policy.h"
#include "server/processes/messages.h"
#include "server/processes/session_info.h"
#include "util/process/fd.h"
#include "util/log.h"
#include "util/until.h"

CK_LOG_DEFINE("server");

/* Session @number begins in @worker. */
static void init_session_info(struct worker *worker, const struct cks_owner *owner,
			      unsigned int number)
{
	worker->info = (struct cks_session_info){.number = number,
						 .pid = worker->pid,
						 .owner = *owner,
						 .use.begun = ck_now_ms(),
						 .use.begun_us = ck_now_us()};
}

/* The session of @start begins in @worker, with a seat in its account. -errno: the process is
 * killed. */
static int begin_session(struct cks_workers *w, struct worker *worker,
			 const struct cks_start *start, const struct cks_mps_daemon *mps)
{
	struct cks_ledger_row *row;
	int ret;

	init_session_info(worker, start->owner, start->number);
	worker->info.mps = mps ? mps->number : 0;
	ret = cks_worker_assign_user(w, worker);
	if (ret == 0)
		ret = cks_worker_seat(w, worker);
	if (ret == 0) {
		w->totals.sessions++;
		row = cks_ledger_row(&w->ledger, start->owner->identity.name);
		if (row)
			row->sessions++;
		return 0;
	}
	cks_uids_leave(w->uids, worker->info.user);
	worker->info.user = 0;
	worker->info.number = 0; /* it has not begun */
	kill(worker->pid, SIGKILL);
	return ret;
}

/* In a child: become a worker for connection @fd of @start; NULL: a spare one. */
static _Noreturn void run_worker(struct cks_workers *w, int fd, int control,
				 const struct cks_start *start, const char *gpus,
				 const struct cks_mps_daemon *mps)
{
	const struct cks_prefix *prefix = start ? start->prefix : NULL;
	char name[CK_SESSION_NAME];

	if (gpus[0])
		setenv("CUDA_VISIBLE_DEVICES", gpus, 1);
	if (mps)
		cks_worker_enter_mps(w, mps, start->sm);
	if (w->uids || w->confined)
		unsetenv("CRICKET_TOKEN"); /* the supervisor alone judges clients */
	if (prefix) {
		snprintf(name, sizeof(name), "s%u", start->number); /* as cks_session_name() */
		setenv("CRICKET_SESSION", name, 1);
	}
	cks_command_run(&w->command, fd, control, prefix ? prefix->command : NULL);
}

/* Start the process of a worker for connection @fd of @start; NULL: a spare one. Its id, or
 * -errno. The fork server forks no worker with a prefix, because the prefix executes it, none that
 * becomes another user, because it shares nothing, and none with an environment of its own. */
static pid_t begin_process(struct cks_workers *w, int fd, int control,
			   const struct cks_start *start, const struct cks_mps_daemon *mps)
{
	const char *gpus =
		start ? cks_workers_identity_terms(w, &start->owner->identity)->gpus : "";
	pid_t pid = -ENOENT;

	if (start && !start->prefix && !w->uids && !mps)
		pid = cks_fork_server_fork(&w->fork_server, &w->command, fd, control, gpus);
	if (pid != -ENOENT)
		return pid;
	pid = fork();
	if (pid == 0)
		run_worker(w, fd, control, start, gpus, mps);
	return pid < 0 ? -errno : pid;
}

/* The kernel says then which process a note is from: the worker need not be the child. */
static void ask_for_sender(int control)
{
	const int on = 1;

	setsockopt(control, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on));
}

/* Start a process for connection @fd of @start, which uses @mps; NULL: start a spare one, use
 * none. */
static int spawn_worker(struct cks_workers *w, int fd, const struct cks_start *start,
			const struct cks_mps_daemon *mps)
{
	struct worker *worker = calloc(1, sizeof(*worker));
	int pair[2], ret;

	if (!worker)
		return -ENOMEM;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
		ret = -errno;
		goto free_worker;
	}
	ck_fd_set_nonblock(pair[0], true);
	worker->control = pair[0];
	if (start && start->prefix)
		ask_for_sender(pair[0]);
	ret = cks_worker_listen(w, worker);
	if (ret < 0)
		goto close_pair;
	worker->pid = begin_process(w, fd, pair[1], start, mps);
	if (worker->pid < 0) {
		ret = worker->pid;
		goto close_pair;
	}
	close(pair[1]);
	cks_worker_add(w, worker, start ? SERVING : SPARE_STARTING);
	if (start) {
		ret = begin_session(w, worker, start, mps);
		if (ret < 0)
			return ret;
	}
	ck_debug("%s %d started", start ? "worker" : "spare worker", (int)worker->pid);
	return 0;
close_pair:
	cks_worker_hang_up(w, worker);
	close(pair[1]);
free_worker:
	free(worker);
	return ret;
}

/* Find a spare for a client: the one that has got furthest. */
static struct worker *find_spare(struct cks_workers *w)
{
	struct worker *found = NULL;

	for (struct worker *worker = w->first; worker; worker = worker->next) {
		if (worker->state >= SERVING || worker->control < 0)
			continue;
		if (!found || worker->state > found->state)
			found = worker;
	}
	return found;
}

int cks_workers_serve(struct cks_workers *w, int fd, const struct cks_start *start,
		      const char **why)
{
	struct cks_mps_daemon *mps = NULL;
	struct worker *spare = NULL;
	int ret = cks_worker_find_mps(w, start, &mps, why);

	if (ret < 0)
		return ret;
	cks_workers_read(w); /* update which spares are ready or gone */
	/* a spare has all GPUs and uses the driver already, and runs without a prefix */
	if (!start->prefix && !mps &&
	    !cks_workers_identity_terms(w, &start->owner->identity)->gpus[0])
		spare = find_spare(w);
	if (!spare || cks_worker_pass(spare, CK_CONTROL_CLIENT, fd) < 0)
		return spawn_worker(w, fd, start, mps);
	cks_worker_change(w, spare, SERVING);
	w->spares.taken++;
	ck_debug("spare worker %d has a client", (int)spare->pid);
	return begin_session(w, spare, start, NULL);
}

int cks_workers_spare(struct cks_workers *w)
{
	return spawn_worker(w, -1, NULL, NULL);
}
