/*
 * server/supervisor/workers.c - start the processes of sessions, pass connections to them, handle
 * their ends.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "server/processes/messages.h"
#include "server/processes/options.h"
#include "server/processes/policy.h"
#include "server/processes/session_info.h"
#include "server/supervisor/process.h"
#include "server/supervisor/workers.h"
#include "server/supervisor/workers_part.h"
#include "util/fd.h"
#include "util/log.h"
#include "util/until.h"

CK_LOG_DEFINE("server");

#define CK_GOODBYE_MS 500
#define CK_REAP_MS 2000
#define CK_REAP_STEP_MS 5

struct cks_workers *cks_workers_create(const struct cks_options *o, const char *driver,
				       const char *broker)
{
	struct cks_workers *w = calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	w->spoken = epoll_create1(EPOLL_CLOEXEC);
	if (w->spoken < 0) {
		free(w);
		return NULL;
	}
	w->stirred = true;
	cks_command_fill(&w->command, o, driver, broker);
	w->nursery.control = -1;
	w->most = o->max_sessions;
	w->cache_dir = o->cache_dir;
	w->confined = o->confine != NULL;
	return w;
}

void cks_workers_fork_early(struct cks_workers *w, const char *driver)
{
	if (!w->uids)
		cks_nursery_start(&w->nursery, driver, &w->command);
}

void cks_workers_audit(struct cks_workers *w, struct cks_audit *audit)
{
	w->audit = audit;
}

int cks_worker_listen(struct cks_workers *w, struct worker *worker)
{
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = worker};

	return epoll_ctl(w->spoken, EPOLL_CTL_ADD, worker->control, &event) < 0 ? -errno : 0;
}

/* A child that does not execute its program yet may still have the socket: closing it here would leave it in the list. */
void cks_worker_hang_up(struct cks_workers *w, struct worker *worker)
{
	if (worker->control < 0)
		return;
	epoll_ctl(w->spoken, EPOLL_CTL_DEL, worker->control, NULL);
	close(worker->control);
	worker->control = -1;
}

static void let_go(struct cks_workers *w, struct worker *worker)
{
	cks_worker_hang_up(w, worker);
	if (worker->process) {
		close(worker->process);
		w->strangers--;
	}
	free(worker);
}

static bool has_ended(const struct worker *worker)
{
	if (worker->process)
		return cks_process_wait(worker->process, 0);
	return waitpid(worker->pid, NULL, WNOHANG) != 0;
}

/* Forget those that have ended; false: none is left. */
static bool reap(struct cks_workers *w)
{
	struct worker **at = &w->first;

	while (*at) {
		struct worker *worker = *at;

		if (!has_ended(worker)) {
			at = &worker->next;
			continue;
		}
		*at = worker->next;
		cks_worker_record_end(w, worker, -1);
		let_go(w, worker);
	}
	return w->first != NULL;
}

static void reap_for(struct cks_workers *w, int most_ms)
{
	const struct timespec step = {.tv_nsec = CK_REAP_STEP_MS * 1000000L};

	for (int ms = 0; reap(w) && ms < most_ms; ms += CK_REAP_STEP_MS)
		nanosleep(&step, NULL);
}

/* A worker says goodbye to its client, or ends when it has no supervisor; it might look for the next
 * one otherwise. */
static void tell_to_stop(struct cks_workers *w, struct worker *worker)
{
	const char stop = CK_CONTROL_STOP;

	if (worker->control < 0)
		return;
	send(worker->control, &stop, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
	cks_worker_hang_up(w, worker);
}

/* Those that the driver delays are killed, and should be gone when the server exits. */
void cks_workers_destroy(struct cks_workers *w)
{
	if (!w)
		return;
	cks_nursery_stop(&w->nursery);
	for (struct worker *worker = w->first; worker; worker = worker->next)
		tell_to_stop(w, worker);
	reap_for(w, CK_GOODBYE_MS);
	for (struct worker *worker = w->first; worker; worker = worker->next) {
		if (worker->process)
			cks_process_kill(worker->process);
		else
			kill(worker->pid, SIGKILL);
	}
	reap_for(w, CK_REAP_MS);
	while (w->first) {
		struct worker *worker = w->first;

		w->first = worker->next;
		cks_worker_record_end(w, worker, -1);
		let_go(w, worker);
	}
	close(w->spoken);
	cks_ledger_free(&w->ledger);
	free(w);
}

struct cks_session_info *cks_workers_next(struct cks_workers *w,
					  const struct cks_session_info *session)
{
	struct worker *worker =
		session ? container_of(session, struct worker, info)->next : w->first;

	while (worker && !worker->listed)
		worker = worker->next;
	return worker ? &worker->info : NULL;
}

bool cks_workers_tell(const struct cks_session_info *session, char kind)
{
	int control = container_of(session, struct worker, info)->control;

	return control >= 0 && send(control, &kind, 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1;
}

size_t cks_workers_serving(const struct cks_workers *w)
{
	return w->serving;
}

void cks_workers_count(const struct cks_workers *w, const struct cks_owner *owner,
		       struct cks_session_counts *counts)
{
	*counts = (struct cks_session_counts){.all = w->serving};
	for (const struct worker *worker = w->first; worker; worker = worker->next) {
		if (worker->state != SERVING)
			continue;
		counts->peer += cks_peer_equal(&worker->info.owner.peer, &owner->peer);
		counts->identity +=
			ck_hash_equal(&worker->info.owner.identity.key, &owner->identity.key);
	}
}

/* The number of workers in @state. */
static unsigned int *count_of(struct cks_workers *w, enum state state)
{
	switch (state) {
	case SPARE_STARTING:
		return &w->spares.starting;
	case SPARE_STANDBY:
		return &w->spares.standby;
	case SPARE_WARMING:
		return &w->spares.warming;
	case SPARE_READY:
		return &w->spares.ready;
	case RETIRED:
		return &w->retired;
	default:
		return &w->serving;
	}
}

void cks_worker_change(struct cks_workers *w, struct worker *worker, enum state state)
{
	--*count_of(w, worker->state);
	++*count_of(w, state);
	worker->state = state;
	worker->begin = ck_now_ms();
}

/* Session @number begins in @worker. */
static void enroll(struct worker *worker, const struct cks_owner *owner, unsigned int number)
{
	worker->info = (struct cks_session_info){.number = number,
						 .pid = worker->pid,
						 .owner = *owner,
						 .use.begun = ck_now_ms(),
						 .use.begun_us = ck_now_us()};
}

unsigned int cks_workers_new_number(struct cks_workers *w)
{
	return ++w->numbered;
}

/* The same, with a seat in its account. -errno: the process ends. */
static int begin_session(struct cks_workers *w, struct worker *worker,
			 const struct cks_start *start)
{
	struct cks_ledger_row *row;
	int ret;

	enroll(worker, start->owner, start->number);
	ret = cks_worker_house(w, worker);
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
static _Noreturn void run(struct cks_workers *w, int fd, int control, const struct cks_start *start,
			  const char *gpus)
{
	const struct cks_prefix *prefix = start ? start->prefix : NULL;
	char name[CK_SESSION_NAME];

	if (gpus[0])
		setenv("CUDA_VISIBLE_DEVICES", gpus, 1);
	if (w->uids || w->confined)
		unsetenv("CRICKET_TOKEN"); /* the supervisor alone judges clients */
	if (prefix) {
		snprintf(name, sizeof(name), "s%u", start->number); /* as cks_session_name() */
		setenv("CRICKET_SESSION", name, 1);
	}
	cks_command_run(&w->command, fd, control, prefix ? prefix->command : NULL);
}

/* Start the process of a worker for connection @fd of @start; NULL: a spare one. Its id, or -errno. One with a prefix is executed by that,
 * and one that becomes a user of its own shares nothing with others. */
static pid_t begin_process(struct cks_workers *w, int fd, int control,
			   const struct cks_start *start)
{
	const char *gpus =
		start ? cks_workers_identity_terms(w, &start->owner->identity)->gpus : "";
	pid_t pid = -ENOENT;

	if (start && !start->prefix && !w->uids)
		pid = cks_nursery_fork(&w->nursery, &w->command, fd, control, gpus);
	if (pid != -ENOENT)
		return pid;
	pid = fork();
	if (pid == 0)
		run(w, fd, control, start, gpus);
	return pid < 0 ? -errno : pid;
}

/* The kernel says then which process a note is from: the worker need not be the child. */
static void ask_for_sender(int control)
{
	const int on = 1;

	setsockopt(control, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on));
}

/* Start a process for connection @fd of @start; NULL: start a spare one. */
static int spawn(struct cks_workers *w, int fd, const struct cks_start *start)
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
	worker->pid = begin_process(w, fd, pair[1], start);
	if (worker->pid < 0) {
		ret = worker->pid;
		goto close_pair;
	}
	close(pair[1]);
	worker->next = w->first;
	w->first = worker;
	worker->state = start ? SERVING : SPARE_STARTING;
	worker->begin = ck_now_ms();
	++*count_of(w, worker->state);
	if (start) {
		ret = begin_session(w, worker, start);
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

int cks_workers_fd(const struct cks_workers *w)
{
	return w->spoken;
}

void cks_workers_stir(struct cks_workers *w)
{
	w->stirred = true;
}

bool cks_workers_stirred(struct cks_workers *w)
{
	bool stirred = w->stirred;

	w->stirred = false;
	return stirred;
}

static struct worker *find_session(struct cks_workers *w, const unsigned char session[16])
{
	for (struct worker *worker = w->first; worker; worker = worker->next) {
		if (worker->named && memcmp(worker->session, session, 16) == 0)
			return worker;
	}
	return NULL;
}

/* Like ck_fd_send, which waits for a full socket; this must not wait. */
static int send_now(int control, char kind, int fd)
{
	union {
		struct cmsghdr align;
		char space[CMSG_SPACE(sizeof(int))];
	} ancillary = {.space = {0}};
	struct iovec iov = {.iov_base = &kind, .iov_len = 1};
	struct msghdr message = {.msg_iov = &iov,
				 .msg_iovlen = 1,
				 .msg_control = ancillary.space,
				 .msg_controllen = sizeof(ancillary.space)};
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);

	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(header), &fd, sizeof(int));
	if (sendmsg(control, &message, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
		return 0;
	return errno == ETOOMANYREFS ? -EAGAIN : -errno; /* too many descriptors in transit */
}

int cks_workers_join(struct cks_workers *w, const unsigned char session[16], int fd)
{
	struct worker *worker = find_session(w, session);

	if (!worker) {
		cks_workers_read(w); /* the note may be as recent as the connection */
		worker = find_session(w, session);
	}
	if (!worker)
		return ck_now_ms() < w->return_by ? -EAGAIN : -ENOENT;
	return send_now(worker->control, CK_CONTROL_JOIN, fd);
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

int cks_workers_serve(struct cks_workers *w, int fd, const struct cks_start *start)
{
	struct worker *spare = NULL;

	cks_workers_read(w); /* update which spares are ready or gone */
	/* a spare has all GPUs already, and runs without a prefix */
	if (!start->prefix && !cks_workers_identity_terms(w, &start->owner->identity)->gpus[0])
		spare = find_spare(w);
	if (!spare || send_now(spare->control, CK_CONTROL_CLIENT, fd) < 0)
		return spawn(w, fd, start);
	cks_worker_change(w, spare, SERVING);
	w->spares.taken++;
	ck_debug("spare worker %d has a client", (int)spare->pid);
	return begin_session(w, spare, start);
}

int cks_workers_spare(struct cks_workers *w)
{
	return spawn(w, -1, NULL);
}

int cks_workers_warm(struct cks_workers *w)
{
	const char kind = CK_CONTROL_WARM;
	struct worker *worker = w->first;

	while (worker && (worker->state != SPARE_STANDBY || worker->control < 0))
		worker = worker->next;
	if (!worker)
		return -ENOENT;
	if (send(worker->control, &kind, 1, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		return -errno;
	cks_worker_change(w, worker, SPARE_WARMING);
	return 0;
}

const struct cks_spare_counts *cks_workers_spares(const struct cks_workers *w)
{
	return &w->spares;
}

void cks_workers_expire(struct cks_workers *w, int64_t begin)
{
	for (struct worker *worker = w->first; worker; worker = worker->next) {
		if ((worker->state != SPARE_STARTING && worker->state != SPARE_WARMING) ||
		    worker->begin > begin)
			continue;
		ck_warn("spare worker %d does not get ready: killed", (int)worker->pid);
		kill(worker->pid, SIGKILL);
		worker->begin = INT64_MAX;
	}
}

struct cks_totals *cks_workers_totals(struct cks_workers *w)
{
	return &w->totals;
}

static void remove_worker(struct cks_workers *w, struct worker **at)
{
	struct worker *worker = *at;
	const struct cks_session_use *use = &worker->info.use;

	w->totals.calls += use->calls;
	w->totals.commands += use->commands;
	w->totals.received += use->received;
	w->totals.sent += use->sent;
	cks_histogram_merge(&w->totals.call_times, &use->call_times);
	cks_histogram_merge(&w->totals.round_trips, &use->round_trips);
	*at = worker->next;
	--*count_of(w, worker->state);
	let_go(w, worker);
}

bool cks_workers_ended(struct cks_workers *w, pid_t pid, int status)
{
	struct worker **at = &w->first;
	struct worker *worker;

	if (cks_nursery_ended(&w->nursery, pid))
		return true;
	while (*at && ((*at)->pid != pid || (*at)->process))
		at = &(*at)->next;
	worker = *at;
	if (!worker)
		return false;
	if (!worker->info.written)
		cks_worker_log_end(pid, status);
	cks_worker_record_end(w, worker, status);
	if (worker->state < SERVING)
		w->spares.lost++;
	remove_worker(w, at);
	return true;
}

pid_t cks_workers_gone(const struct cks_workers *w)
{
	for (const struct worker *worker = w->first; w->strangers && worker;
	     worker = worker->next) {
		if (worker->process && worker->control < 0)
			return worker->pid;
	}
	return 0;
}

void cks_workers_forget(struct cks_workers *w, pid_t pid)
{
	struct worker **at = &w->first;

	while (*at && ((*at)->pid != pid || !(*at)->process))
		at = &(*at)->next;
	if (*at) {
		cks_worker_record_end(w, *at, -1);
		remove_worker(w, at);
	}
}
