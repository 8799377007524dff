/*
 * server/children/workers.c - the table of the processes of sessions: their states and counts, and
 * connections that are passed to them.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/children/workers.h"
#include "server/children/workers_part.h"
#include "server/options/options.h"
#include "server/processes/messages.h"
#include "server/processes/session_info.h"
#include "util/log.h"
#include "util/until.h"

CK_LOG_DEFINE("server");

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
	w->changed = true;
	cks_command_fill(&w->command, o, driver, broker);
	w->fork_server.control = -1;
	w->most = o->max_sessions;
	w->gpus = "";
	w->cache_dir = o->cache_dir;
	w->confined = o->confine != NULL;
	return w;
}

void cks_workers_fork_early(struct cks_workers *w, const char *driver)
{
	if (!w->uids)
		cks_fork_server_start(&w->fork_server, driver, &w->command);
}

void cks_workers_await_fork_server(struct cks_workers *w)
{
	cks_fork_server_await(&w->fork_server);
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

/* A child that does not execute its program yet may still have the socket: closing it here would
 * leave it in the list. */
void cks_worker_hang_up(struct cks_workers *w, struct worker *worker)
{
	if (worker->control < 0)
		return;
	epoll_ctl(w->spoken, EPOLL_CTL_DEL, worker->control, NULL);
	close(worker->control);
	worker->control = -1;
}

void cks_workers_destroy(struct cks_workers *w, const char *line)
{
	if (!w)
		return;
	cks_fork_server_stop(&w->fork_server);
	cks_workers_stop(w, line);
	cks_mps_stop(&w->mps);
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

bool cks_workers_send(const struct cks_session_info *session, char kind)
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
	*counts = (struct cks_session_counts){.all = 0};
	for (const struct worker *worker = w->first; worker; worker = worker->next) {
		if (worker->state != SERVING || worker->info.cut.ending)
			continue;
		counts->all++;
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

void cks_worker_add(struct cks_workers *w, struct worker *worker, enum state state)
{
	worker->next = w->first;
	w->first = worker;
	++*count_of(w, state);
	worker->state = state;
	worker->begin = ck_now_ms();
}

void cks_worker_change(struct cks_workers *w, struct worker *worker, enum state state)
{
	--*count_of(w, worker->state);
	++*count_of(w, state);
	worker->state = state;
	worker->begin = ck_now_ms();
}

void cks_worker_remove(struct cks_workers *w, struct worker **at)
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
	cks_worker_hang_up(w, worker);
	if (worker->process) {
		close(worker->process);
		w->strangers--;
	}
	free(worker);
}

unsigned int cks_workers_new_number(struct cks_workers *w)
{
	return ++w->numbered;
}

int cks_workers_fd(const struct cks_workers *w)
{
	return w->spoken;
}

void cks_workers_mark_changed(struct cks_workers *w)
{
	w->changed = true;
}

bool cks_workers_take_changed(struct cks_workers *w)
{
	bool changed = w->changed;

	w->changed = false;
	return changed;
}

bool cks_workers_cut(struct cks_workers *w)
{
	bool cut = w->cut;

	w->cut = false;
	return cut;
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
int cks_worker_pass(const struct worker *worker, char kind, int fd)
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
	if (sendmsg(worker->control, &message, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
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
	return cks_worker_pass(worker, CK_CONTROL_JOIN, fd);
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
		ck_warn("spare worker %d was not ready in time: killed", (int)worker->pid);
		kill(worker->pid, SIGKILL);
		worker->begin = INT64_MAX;
	}
}

struct cks_totals *cks_workers_totals(struct cks_workers *w)
{
	return &w->totals;
}
