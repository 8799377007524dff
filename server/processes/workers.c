/*
 * server/processes/workers.c - start the processes of sessions, pass connections to them, handle
 * their ends.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "server/processes/options.h"
#include "server/processes/supervisor.h"
#include "server/processes/worker.h"
#include "util/fd.h"
#include "util/log.h"
#include "util/until.h"

CK_LOG_DEFINE("server");

#define CK_ARGUMENTS (18 + 2 * CK_LIMITS)
#define CK_NOTES_MAX 3 /* per worker; also the limit for reading in a row */
#define CK_REAP_MS 2000
#define CK_REAP_STEP_MS 5

struct worker {
	struct worker *next;
	pid_t pid;
	int control; /* -1: the worker has closed its end */
	enum state { SPARE_STARTING, SPARE_STANDBY, SPARE_WARMING, SPARE_READY, SERVING } state;
	int64_t begin;		/* of a spare's state, in ms */
	struct cks_owner owner; /* of its session */
	bool named;		/* session is known */
	unsigned char session[16];
};

struct cks_workers {
	struct worker *first;
	unsigned int serving;
	struct cks_spare_counts spares;
	char *arguments[CK_ARGUMENTS];
	char limits[CK_LIMITS][32]; /* option names of limits among the arguments */
};

struct cks_workers *cks_workers_create(const struct cks_options *o, const char *driver,
				       const char *broker)
{
	struct cks_workers *w = calloc(1, sizeof(*w));
	size_t n = 0;

	if (!w)
		return NULL;
	w->arguments[n++] = (char *)"cricket-rpc-server";
	w->arguments[n++] = (char *)CK_WORKER_ARGUMENT; /* or CK_SPARE_ARGUMENT */
	w->arguments[n++] = (char *)"--driver";
	w->arguments[n++] = (char *)driver;
	if (o->token_file) {
		w->arguments[n++] = (char *)"--token-file";
		w->arguments[n++] = (char *)o->token_file;
	}
	if (o->cache_dir) {
		w->arguments[n++] = (char *)"--cache-dir";
		w->arguments[n++] = (char *)o->cache_dir;
	}
	if (o->cache_size) {
		w->arguments[n++] = (char *)"--cache-size";
		w->arguments[n++] = (char *)o->cache_size;
	}
	if (broker) {
		w->arguments[n++] = (char *)"--m3";
		w->arguments[n++] = (char *)broker;
	}
	w->arguments[n++] = (char *)"--warm-devices";
	w->arguments[n++] = (char *)o->warm_devices;
	for (int i = 0; i < CK_LIMITS; i++) {
		if (!o->limits.given[i])
			continue;
		snprintf(w->limits[i], sizeof(w->limits[i]), "--%s",
			 cks_limit_name((enum cks_limit)i));
		w->arguments[n++] = w->limits[i];
		w->arguments[n++] = (char *)o->limits.given[i];
	}
	return w;
}

/* Killed processes should be gone when the server exits, unless the driver delays one. */
static void reap_killed(void)
{
	const struct timespec step = {.tv_nsec = CK_REAP_STEP_MS * 1000000L};

	for (int ms = 0; ms < CK_REAP_MS; ms += CK_REAP_STEP_MS) {
		pid_t pid;

		while ((pid = waitpid(-1, NULL, WNOHANG)) > 0)
			;
		if (pid < 0)
			return; /* no children are left */
		nanosleep(&step, NULL);
	}
}

void cks_workers_destroy(struct cks_workers *w)
{
	struct worker *next;

	if (!w)
		return;
	for (struct worker *worker = w->first; worker; worker = next) {
		next = worker->next;
		kill(worker->pid, SIGKILL);
		if (worker->control >= 0)
			close(worker->control);
		free(worker);
	}
	reap_killed();
	free(w);
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
		counts->peer += cks_peer_equal(&worker->owner.peer, &owner->peer);
		counts->identity +=
			ck_hash_equal(&worker->owner.identity.key, &owner->identity.key);
	}
}

/* In the child: keep only descriptors 3 and 4 of the supervisor's. A spare gets /dev/null at 3, so
 * that the number is taken. */
static _Noreturn void become_worker(struct cks_workers *w, int connection, int control)
{
	sigset_t none;

	if (connection < 0) {
		w->arguments[1] = (char *)CK_SPARE_ARGUMENT;
		connection = open("/dev/null", O_RDWR | O_CLOEXEC);
	}
	/* move them away from their final numbers first */
	int high_connection = fcntl(connection, F_DUPFD_CLOEXEC, 10);
	int high_control = fcntl(control, F_DUPFD_CLOEXEC, 10);

	if (high_connection < 0 || high_control < 0 ||
	    dup2(high_connection, CK_WORKER_CONNECTION) < 0 ||
	    dup2(high_control, CK_WORKER_CONTROL) < 0)
		_exit(126);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	execv("/proc/self/exe", w->arguments);
	_exit(127);
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
	default:
		return &w->serving;
	}
}

static void change(struct cks_workers *w, struct worker *worker, enum state state)
{
	--*count_of(w, worker->state);
	++*count_of(w, state);
	worker->state = state;
	worker->begin = ck_now_ms();
}

/* Start a process for connection @fd of @owner; -1: start a spare one. */
static int spawn(struct cks_workers *w, int fd, const struct cks_owner *owner)
{
	struct worker *worker = calloc(1, sizeof(*worker));
	int pair[2], ret;

	if (!worker)
		return -ENOMEM;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0) {
		ret = -errno;
		goto free_worker;
	}
	ck_fd_set_nonblock(pair[0], true);
	worker->pid = fork();
	if (worker->pid < 0) {
		ret = -errno;
		goto close_pair;
	}
	if (worker->pid == 0)
		become_worker(w, fd, pair[1]);
	close(pair[1]);
	worker->control = pair[0];
	worker->next = w->first;
	w->first = worker;
	worker->state = fd < 0 ? SPARE_STARTING : SERVING;
	worker->begin = ck_now_ms();
	++*count_of(w, worker->state);
	if (fd >= 0)
		worker->owner = *owner;
	ck_debug("%s %d started", fd < 0 ? "spare worker" : "worker", (int)worker->pid);
	return 0;
close_pair:
	close(pair[0]);
	close(pair[1]);
free_worker:
	free(worker);
	return ret;
}

/* A spare has done what it began. With @note it has told so before a client came to it. */
static void advance(struct cks_workers *w, struct worker *worker, int note)
{
	bool ready = note == CK_NOTE_READY;

	if (worker->state != (ready ? SPARE_WARMING : SPARE_STARTING))
		return; /* a client came first */
	ck_debug("spare worker %d is %s after %lld ms", (int)worker->pid,
		 ready ? "ready" : "on standby", (long long)(ck_now_ms() - worker->begin));
	change(w, worker, ready ? SPARE_READY : SPARE_STANDBY);
}

/* @worker needs memory: have all others return what is free. */
static void press(const struct cks_workers *w, const struct worker *worker)
{
	const char pressed = CK_CONTROL_PRESS, alone = CK_CONTROL_ALONE;
	bool any = false;

	for (const struct worker *other = w->first; other; other = other->next) {
		if (other == worker || other->control < 0 ||
		    (!other->named && other->state != SPARE_READY))
			continue;
		any |= send(other->control, &pressed, 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1;
	}
	if (!any)
		send(worker->control, &alone, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* Read a worker's note, if one has arrived; each is sent in one write. True: there may be
 * another. */
static bool read_note(struct cks_workers *w, struct worker *worker)
{
	struct cks_worker_note note;
	ssize_t n;

	if (worker->control < 0)
		return false;
	n = recv(worker->control, &note, sizeof(note), MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (n == (ssize_t)sizeof(note) &&
	    (note.kind == CK_NOTE_STANDBY || note.kind == CK_NOTE_READY)) {
		advance(w, worker, note.kind);
		return true;
	}
	if (n == (ssize_t)sizeof(note) && note.kind == CK_NOTE_SESSION && !worker->named) {
		memcpy(worker->session, note.session, sizeof(worker->session));
		worker->named = true;
		return true;
	}
	if (n == (ssize_t)sizeof(note) && note.kind == CK_NOTE_PRESS) {
		press(w, worker);
		return true;
	}
	close(worker->control); /* it is exiting; SIGCHLD reports the status */
	worker->control = -1;
	worker->named = false;
	return false;
}

/* Read all notes: a spare that got its client before it was ready sends both notes at once. */
void cks_workers_read(struct cks_workers *w)
{
	for (struct worker *worker = w->first; worker; worker = worker->next) {
		for (int i = 0; i < CK_NOTES_MAX && read_note(w, worker); i++)
			;
	}
}

size_t cks_workers_poll(const struct cks_workers *w, struct pollfd *fds)
{
	size_t n = 0;

	for (struct worker *worker = w->first; worker; worker = worker->next) {
		if (worker->control >= 0)
			fds[n++] = (struct pollfd){.fd = worker->control, .events = POLLIN};
	}
	return n;
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
	return worker ? send_now(worker->control, CK_CONTROL_JOIN, fd) : -ENOENT;
}

/* Find a spare for a client: the one that has got furthest. */
static struct worker *find_spare(struct cks_workers *w)
{
	struct worker *found = NULL;

	for (struct worker *worker = w->first; worker; worker = worker->next) {
		if (worker->state == SERVING || worker->control < 0)
			continue;
		if (!found || worker->state > found->state)
			found = worker;
	}
	return found;
}

int cks_workers_serve(struct cks_workers *w, int fd, const struct cks_owner *owner)
{
	struct worker *spare;

	cks_workers_read(w); /* update which spares are ready or gone */
	spare = find_spare(w);
	if (!spare || send_now(spare->control, CK_CONTROL_CLIENT, fd) < 0)
		return spawn(w, fd, owner);
	change(w, spare, SERVING);
	spare->owner = *owner;
	w->spares.taken++;
	ck_debug("spare worker %d has a client", (int)spare->pid);
	return 0;
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
	change(w, worker, SPARE_WARMING);
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

static void log_end(pid_t pid, int status)
{
	if (WIFSIGNALED(status))
		ck_warn("worker %d: killed by signal %d (%s)%s", (int)pid, WTERMSIG(status),
			strsignal(WTERMSIG(status)), WCOREDUMP(status) ? ", core dumped" : "");
	else if (WEXITSTATUS(status) == 127)
		ck_err("worker %d: cannot execute /proc/self/exe", (int)pid);
	else if (WEXITSTATUS(status) == CK_SPARE_FAILED)
		ck_warn("worker %d: the driver does not get ready", (int)pid);
	else if (WEXITSTATUS(status) != 0)
		ck_warn("worker %d: exit status %d", (int)pid, WEXITSTATUS(status));
	else
		ck_debug("worker %d ended", (int)pid);
}

bool cks_workers_ended(struct cks_workers *w, pid_t pid, int status)
{
	struct worker **at = &w->first;
	struct worker *worker;

	while (*at && (*at)->pid != pid)
		at = &(*at)->next;
	worker = *at;
	if (!worker)
		return false;
	log_end(pid, status);
	*at = worker->next;
	--*count_of(w, worker->state);
	if (worker->state != SERVING)
		w->spares.lost++;
	if (worker->control >= 0)
		close(worker->control);
	free(worker);
	return true;
}
