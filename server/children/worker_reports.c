/*
 * server/children/worker_reports.c - reads the reports of workers (server/processes/messages.h).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/children/gpu_turns.h"
#include "server/children/workers.h"
#include "server/children/workers_part.h"
#include "server/processes/messages.h"
#include "server/processes/session_info.h"
#include "server/rules/audit.h"
#include "util/log.h"
#include "util/text.h"
#include "util/until.h"
#include "util/util.h"

CK_LOG_DEFINE("server");

#define CK_SPEAKERS 256	   /* workers that are read in a row; the others are in the next round */
#define CK_NOTES_MAX 3	   /* per worker; also the limit for reading in a row */
#define CK_NOTES_LAST 1024 /* of one that has ended: more than its socket holds */

/* A spare has finished its step. With @note it reported that before a client came to it. */
static void advance_spare(struct cks_workers *w, struct worker *worker, int note)
{
	bool ready = note == CK_NOTE_READY;

	if (worker->state != (ready ? SPARE_WARMING : SPARE_STARTING))
		return; /* a client came first */
	ck_debug("spare worker %d is %s after %lld ms", (int)worker->pid,
		 ready ? "ready" : "on standby", (long long)(ck_now_ms() - worker->begin));
	cks_worker_change(w, worker, ready ? SPARE_READY : SPARE_STANDBY);
}

/* @worker needs memory: have all others return free memory. Further steps are chosen later. */
static void reclaim_memory(struct cks_workers *w, struct worker *worker,
			   const struct cks_worker_note *note)
{
	const char press = CK_CONTROL_PRESS;
	bool any = false;

	for (struct worker *other = w->first; other; other = other->next) {
		if (other == worker || other->control < 0 ||
		    (!other->named && other->state != SPARE_READY && other->state != SPARE_WARMING))
			continue;
		other->info.suspension.pressed =
			send(other->control, &press, 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1;
		any |= other->info.suspension.pressed;
	}
	w->changed = true;
	if (note->number > 0) /* a worker of an older release does not say it */
		worker->info.memory = note->number;
	worker->info.suspension.coming = false;
	worker->info.suspension.memory_requested_at = ck_now_ms();
	worker->info.suspension.memory_request =
		any ? CK_MEMORY_REQUEST_SENT : CK_MEMORY_REQUEST_ALONE;
}

/* It has found some. */
static void end_request(struct cks_workers *w, struct cks_suspension *u)
{
	u->memory_request = CK_NO_MEMORY_REQUEST;
	u->coming = false;
	w->changed = true;
}

/* A session's counters so far. */
static void update_usage(struct cks_session_info *s, const struct cks_worker_note *note)
{
	s->peak = ck_max(s->peak, note->number);
	s->use.calls = note->calls;
	s->use.commands = note->commands;
	s->use.received = note->received;
	s->use.sent = note->sent;
	s->use.call_times = note->call_times;
	s->use.round_trips = note->round_trips;
}

/* On which GPUs it is; 0: the note does not tell. A worker of an older release tells it with
 * CK_NOTE_USE alone. */
static void take_gpus(struct cks_session_info *s, const struct cks_worker_note *note)
{
	bool any = false;

	for (size_t i = 0; i < CK_NOTE_GPUS; i++)
		any |= note->gpus[i] != 0;
	if (any)
		memcpy(s->gpus, note->gpus, sizeof(s->gpus));
}

/* A note of a session, for the supervisor to handle later. */
static void record_note(struct cks_workers *w, struct cks_session_info *s,
			const struct cks_worker_note *note)
{
	struct cks_suspension *u = &s->suspension;

	if (note->kind == CK_NOTE_WANTED)
		u->wanted = u->was_wanted = true;
	else if (note->kind != CK_NOTE_USE)
		u->said = *note;
	take_gpus(s, note);
	if (note->kind != CK_NOTE_WANTED)
		s->pool = note->pool;
	if (note->kind != CK_NOTE_USE) {
		w->changed = true;
		return;
	}
	s->memory = note->number;
	update_usage(s, note);
	u->pressed = false;
	/* a request may wait for it; its idle time may count from now on */
	w->changed |= u->uses == 0;
	if (note->uses != u->uses)
		u->used = ck_now_ms();
	u->uses = note->uses;
}

/* Its client has no connection, and may come back within @ms; 0: it is back. */
static void mark_disconnected(struct cks_workers *w, struct cks_session_info *s, int64_t ms)
{
	s->cut.since = ms > 0 ? ck_now_ms() : 0;
	s->cut.until = ms > 0 ? s->cut.since + ms : 0;
	w->cut |= ms > 0;
}

static void name_worker(struct cks_workers *w, struct worker *worker,
			const struct cks_worker_note *note)
{
	bool returns = !worker->info.owner.identity.name[0];

	if (worker->named)
		return;
	take_gpus(&worker->info, note);
	worker->info.suspension.away = note->away; /* it may come from files */
	worker->info.pool = note->pool;
	memcpy(worker->session, note->session, sizeof(worker->session));
	memcpy(worker->info.program, note->text, sizeof(note->text) - 1);
	worker->info.client_pid = (unsigned int)note->number;
	memcpy(worker->info.use.host, note->host, sizeof(note->host) - 1);
	memcpy(worker->info.machine, note->machine, sizeof(note->machine));
	if (!worker->info.use.begun)
		worker->info.use.begun = ck_now_ms();
	else if (worker->info.use.begun_us)
		cks_histogram_add(&w->totals.start_times,
				  (uint64_t)(ck_now_us() - worker->info.use.begun_us));
	if (returns) { /* it comes from files */
		worker->info.owner = (struct cks_owner){note->peer, note->identity};
		worker->info.owner.identity.name[sizeof(note->identity.name) - 1] = '\0';
	}
	worker->named = worker->listed = true;
	worker->info.suspension.used = worker->info.suspension.since = ck_now_ms();
	if (returns) {
		worker->info.user = note->user;
		if (!cks_worker_reassign_user(w, worker))
			return;
		cks_worker_seat(w, worker);
		cks_audit_return(w->audit, &worker->info, "files");
	}
}

/* A worker of another release may send reports that this one does not know: ignore them. */
static void take_note(struct cks_workers *w, struct worker *worker,
		      const struct cks_worker_note *note)
{
	switch (note->kind) {
	case CK_NOTE_STANDBY:
	case CK_NOTE_READY:
		advance_spare(w, worker, note->kind);
		break;
	case CK_NOTE_SESSION:
		worker->info.pool_sent = false;
		name_worker(w, worker, note);
		break;
	case CK_NOTE_PRESS:
		reclaim_memory(w, worker, note);
		break;
	case CK_NOTE_FOUND:
		end_request(w, &worker->info.suspension);
		break;
	case CK_NOTE_ASK:
	case CK_NOTE_TURN:
		cks_gpu_turns_handle(w, worker, note);
		break;
	case CK_NOTE_USE:
		cks_gpu_turns_handle(w, worker, note);
		record_note(w, &worker->info, note);
		break;
	case CK_NOTE_PARKED:
	case CK_NOTE_BUSY:
	case CK_NOTE_WANTED:
	case CK_NOTE_RETURNED:
	case CK_NOTE_NO_ROOM:
	case CK_NOTE_LOST:
		record_note(w, &worker->info, note);
		break;
	case CK_NOTE_LEAVING:
		worker->info.suspension.leaving = note->number;
		w->changed = true;
		break;
	case CK_NOTE_ROUND:
		worker->info.known = note->known;
		worker->info.pool_fd = note->pool_fd;
		worker->info.pool = note->pool;
		worker->info.rounds++;
		w->changed = true;
		break;
	case CK_NOTE_LEFT:
		worker->info.table = note->table;
		worker->info.known = note->known;
		worker->info.pool_fd = note->pool_fd;
		worker->info.left = note->text[0] ? CK_CANNOT_LEAVE : CK_LEFT;
		memcpy(worker->info.why, note->text, sizeof(note->text) - 1);
		break;
	case CK_NOTE_CUT:
		mark_disconnected(w, &worker->info,
				  (int64_t)ck_min(note->number, (uint64_t)INT32_MAX));
		break;
	case CK_NOTE_END:
		worker->info.end_reported = true;
		update_usage(&worker->info, note);
		memcpy(worker->info.cause, note->text, sizeof(note->text) - 1);
		break;
	}
}

/* A note, and the process that has sent it if the socket says so (SO_PASSCRED). */
static ssize_t receive_note(int control, struct cks_worker_note *note, pid_t *sender)
{
	union {
		struct cmsghdr align;
		char space[CMSG_SPACE(sizeof(struct ucred))];
	} ancillary = {.space = {0}};
	struct iovec iov = {.iov_base = note, .iov_len = sizeof(*note)};
	struct msghdr message = {.msg_iov = &iov,
				 .msg_iovlen = 1,
				 .msg_control = ancillary.space,
				 .msg_controllen = sizeof(ancillary.space)};
	ssize_t n = recvmsg(control, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	const struct cmsghdr *header = n > 0 ? CMSG_FIRSTHDR(&message) : NULL;
	struct ucred from;

	if (header && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_CREDENTIALS) {
		memcpy(&from, CMSG_DATA(header), sizeof(from));
		*sender = from.pid;
	}
	return n;
}

/* Which process is the worker, and which the command that it was started through? That ends
 * later. */
static void tell_apart(struct worker *worker, pid_t sender)
{
	if (sender == worker->pid || worker->info.follower)
		return; /* the command has become the worker, or this is known */
	worker->info.pid = sender;
	worker->info.follower = worker->pid;
}

/* Read a worker's note, if one has arrived. True: there may be another. */
static bool read_note(struct cks_workers *w, struct worker *worker)
{
	struct cks_worker_note note = {0};
	pid_t sender = 0;
	ssize_t n;

	if (worker->control < 0)
		return false;
	n = receive_note(worker->control, &note, &sender);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (n > 0) {
		/* commands show it on terminals; a client may have taken over the worker */
		ck_text_plain(note.text, sizeof(note.text));
		ck_text_plain(note.host, sizeof(note.host));
		ck_text_plain(note.identity.name, sizeof(note.identity.name));
		if (sender > 0 && worker->state == SERVING)
			tell_apart(worker, sender);
		take_note(w, worker, &note);
		return true;
	}
	cks_worker_hang_up(w, worker); /* it is exiting; SIGCHLD reports the status */
	worker->named = false;
	return false;
}

/* A process that it has left behind may go on writing. */
void cks_worker_read_notes(struct cks_workers *w, struct worker *worker)
{
	for (int i = 0; i < CK_NOTES_LAST && read_note(w, worker); i++)
		;
}

/*
 * Read the notes of those that have sent some: of a thousand sessions few have. A spare that got
 * its client before it was ready sends both notes at once. No worker is freed here.
 */
void cks_workers_read(struct cks_workers *w)
{
	struct epoll_event events[CK_SPEAKERS];
	int count = epoll_wait(w->spoken, events, CK_SPEAKERS, 0);

	for (int k = 0; k < count; k++) {
		for (int i = 0; i < CK_NOTES_MAX && read_note(w, events[k].data.ptr); i++)
			;
	}
}
