/*
 * server/supervisor/ends.c - why a worker has ended: for the log, and for the audit log.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "server/processes/messages.h"
#include "server/supervisor/audit.h"
#include "server/supervisor/workers_part.h"
#include "util/log.h"

CK_LOG_DEFINE("server");

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

/* Record the end of @worker's session, if it has one. */
void cks_worker_record_end(struct cks_workers *w, struct worker *worker, int status)
{
	char cause[CK_NOTE_TEXT];

	cks_worker_hear(w, worker); /* its last words */
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

void cks_worker_log_end(pid_t pid, int status)
{
	if (WIFSIGNALED(status))
		ck_warn("worker %d: killed by signal %d (%s)%s", (int)pid, WTERMSIG(status),
			strsignal(WTERMSIG(status)), WCOREDUMP(status) ? ", core dumped" : "");
	else if (WEXITSTATUS(status) == 127)
		ck_err("worker %d: cannot execute the server's program, or the policy's prefix",
		       (int)pid);
	else if (WEXITSTATUS(status) == CK_SPARE_FAILED)
		ck_warn("worker %d: the driver does not get ready", (int)pid);
	else if (WEXITSTATUS(status) != 0)
		ck_warn("worker %d: exit status %d", (int)pid, WEXITSTATUS(status));
	else
		ck_debug("worker %d ended", (int)pid);
}
