/*
 * server/children/worker_exits.c - the ends of workers: noticed, or caused because the server ends;
 * their causes, for the log and for the audit log.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>

#include "server/children/workers.h"
#include "server/children/workers_part.h"
#include "server/processes/messages.h"
#include "server/processes/process.h"
#include "server/rules/audit.h"
#include "util/log.h"
#include "util/until.h"
#include "util/util.h"

CK_LOG_DEFINE("server");

#define CK_GOODBYE_MS 5000 /* for clients to say why their sessions end */
#define CK_ENDED_PROGRAMS_MS 2000
#define CK_ENDED_PROGRAMS_STEP_MS 5

/* Why a session has ended whose worker has not said it; @status of wait(2), or -1: unknown. */
static const char *cause_of(int status, char out[CK_NOTE_TEXT])
{
	if (status == -1)
		snprintf(out, CK_NOTE_TEXT, "its process has ended");
	else if (WIFSIGNALED(status))
		snprintf(out, CK_NOTE_TEXT, "its process was killed by signal %d (%s)",
			 WTERMSIG(status), strsignal(WTERMSIG(status)));
	else
		snprintf(out, CK_NOTE_TEXT, "its process has ended with status %d",
			 WEXITSTATUS(status));
	return out;
}

/* Record the end of @worker's session, if it has one, and give its seat back. @status as above. */
static void record_end(struct cks_workers *w, struct worker *worker, int status)
{
	char cause[CK_NOTE_TEXT];

	cks_worker_read_notes(w, worker); /* it may have said why */
	if (worker->state != SERVING || !worker->info.number)
		return;
	if (worker->info.written)
		snprintf(cause, sizeof(cause), "it was written into files");
	else if (worker->info.cause[0])
		memcpy(cause, worker->info.cause, sizeof(cause));
	else
		cause_of(status, cause);
	cks_audit_end(w->audit, &worker->info, cause);
	cks_accounts_leave(w->accounts, &worker->seat);
	cks_uids_leave(w->uids, worker->info.user);
	worker->info.user = 0;
}

static void log_end(pid_t pid, int status)
{
	if (WIFSIGNALED(status))
		ck_warn("worker %d: killed by signal %d (%s)%s", (int)pid, WTERMSIG(status),
			strsignal(WTERMSIG(status)), WCOREDUMP(status) ? ", core dumped" : "");
	else if (WEXITSTATUS(status) == 127)
		ck_err("worker %d: cannot execute the server's program, or the policy's prefix",
		       (int)pid);
	else if (WEXITSTATUS(status) == CK_SPARE_FAILED)
		ck_warn("worker %d: the driver did not start", (int)pid);
	else if (WEXITSTATUS(status) != 0)
		ck_warn("worker %d: exit status %d", (int)pid, WEXITSTATUS(status));
	else
		ck_debug("worker %d ended", (int)pid);
}

bool cks_workers_ended(struct cks_workers *w, pid_t pid, int status)
{
	struct worker **at = &w->first;
	struct worker *worker;

	if (cks_fork_server_ended(&w->fork_server, pid))
		return true;
	while (*at && ((*at)->pid != pid || (*at)->process))
		at = &(*at)->next;
	worker = *at;
	if (!worker)
		return false;
	if (!worker->info.written)
		log_end(pid, status);
	record_end(w, worker, status);
	if (worker->state < SERVING)
		w->spares.lost++;
	cks_worker_remove(w, at);
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
		record_end(w, *at, -1);
		cks_worker_remove(w, at);
	}
}

static bool has_ended(const struct worker *worker)
{
	if (worker->process)
		return cks_process_wait(worker->process, 0);
	return waitpid(worker->pid, NULL, WNOHANG) != 0;
}

/* Forget those that have ended; false: none is left. */
static bool reap_workers(struct cks_workers *w)
{
	struct worker **at = &w->first;

	while (*at) {
		struct worker *worker = *at;

		if (!has_ended(worker)) {
			at = &worker->next;
			continue;
		}
		record_end(w, worker, -1);
		cks_worker_remove(w, at);
	}
	return w->first != NULL;
}

static void reap_until(struct cks_workers *w, int64_t end)
{
	const struct timespec step = {.tv_nsec = CK_ENDED_PROGRAMS_STEP_MS * 1000000L};

	while (reap_workers(w) && ck_now_ms() < end)
		nanosleep(&step, NULL);
}

/* A worker says goodbye to its client, or ends when it has no supervisor; it might look for the
 * next one otherwise. One with a session says at its end what that has used. */
static void tell_to_stop(struct cks_workers *w, struct worker *worker, const char *line)
{
	if (cks_worker_send_line(worker, CK_CONTROL_STOP, line, true) && worker->state == SERVING)
		snprintf(worker->info.cause, sizeof(worker->info.cause), "%s", line);
	else
		cks_worker_hang_up(w, worker);
}

void cks_workers_begin_stop(struct cks_workers *w, const char *line)
{
	if (w->stop_by)
		return;
	w->stop_by = ck_now_ms() + CK_GOODBYE_MS;
	for (struct worker *worker = w->first; worker; worker = worker->next)
		tell_to_stop(w, worker, line);
}

int64_t cks_workers_stop_left(const struct cks_workers *w)
{
	return w->serving > 0 ? ck_max(w->stop_by - ck_now_ms(), (int64_t)0) : 0;
}

/* Those that the driver delays are killed, and should be gone when the server exits. */
void cks_workers_stop(struct cks_workers *w, const char *line)
{
	cks_workers_begin_stop(w, line);
	reap_until(w, w->stop_by);
	for (struct worker *worker = w->first; worker; worker = worker->next) {
		if (worker->process)
			cks_process_kill(worker->process);
		else
			kill(worker->pid, SIGKILL);
	}
	reap_until(w, ck_now_ms() + CK_ENDED_PROGRAMS_MS);
	while (w->first) {
		record_end(w, w->first, -1);
		cks_worker_remove(w, &w->first);
	}
}
