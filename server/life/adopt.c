/*
 * server/life/adopt.c - workers that another supervisor started. If it was the release before an
 * upgrade, which executed this program in its own process, they are still children. If it has
 * crashed, they are not, and come by themselves (orphan_reconnect.h).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/children/workers.h"
#include "server/children/workers_part.h"
#include "server/processes/state.h"
#include "server/rules/audit.h"
#include "util/process/fd.h"
#include "util/log.h"
#include "util/until.h"

CK_LOG_DEFINE("server");

int cks_workers_save(const struct cks_workers *w, struct cks_state *state)
{
	size_t count = 0;

	for (const struct worker *worker = w->first; worker; worker = worker->next)
		count++;
	state->workers = calloc(count + 1, sizeof(*state->workers));
	if (!state->workers)
		return -ENOMEM;
	state->numbered = w->numbered;
	for (const struct worker *worker = w->first; worker; worker = worker->next) {
		struct cks_state_worker *saved = &state->workers[state->worker_count++];

		*saved = (struct cks_state_worker){.info = worker->info,
						   .control = worker->control,
						   .process = worker->process,
						   .serving = worker->state == SERVING,
						   .named = worker->named};
		if (!worker->info.follower)
			saved->info.pid = worker->pid;
		memcpy(saved->session, worker->session, sizeof(saved->session));
	}
	return cks_worker_mps_save(w, state);
}

/* A spare is of the old release: it ends when its control socket does. */
static void retire_worker(struct worker *worker)
{
	worker->state = RETIRED;
	if (worker->control >= 0)
		close(worker->control);
	worker->control = -1;
}

int cks_workers_adopt(struct cks_workers *w, const struct cks_state_worker *saved)
{
	struct worker *worker = calloc(1, sizeof(*worker));

	if (!worker)
		return -ENOMEM;
	*worker = (struct worker){.next = w->first,
				  .pid = saved->info.follower ? saved->info.follower
							      : saved->info.pid,
				  .control = saved->control,
				  .process = saved->process,
				  .state = SERVING,
				  .info = saved->info,
				  .named = saved->named,
				  .listed = saved->named};
	memcpy(worker->session, saved->session, sizeof(worker->session));
	/* when it was used last is not handed on */
	worker->info.suspension.used = worker->info.suspension.since = ck_now_ms();
	worker->info.suspension.uses = 1;
	if (!saved->serving)
		retire_worker(worker);
	w->serving += saved->serving;
	w->retired += !saved->serving;
	w->first = worker;
	w->strangers += worker->process != 0;
	w->changed = true;
	if (worker->control >= 0)
		cks_worker_listen(w, worker);
	worker->info.share = (struct cks_share){.gpus = 0};
	if (saved->serving && !cks_worker_reassign_user(w, worker))
		return 0;
	if (saved->serving && worker->control >= 0) {
		cks_workers_send(&worker->info, CK_CONTROL_FREE); /* the old one may have held it */
		cks_worker_seat(w, worker);
	}
	return 0;
}

void cks_workers_expect(struct cks_workers *w, unsigned int ms)
{
	w->return_by = ck_now_ms() + ms;
}

int cks_workers_return(struct cks_workers *w, const struct cks_state_worker *saved)
{
	int ret;

	if (w->serving >= w->most)
		return -EUSERS;
	if (w->uids && saved->info.user &&
	    !cks_uids_had(w->cache_dir, &saved->info.owner.identity.key, saved->info.user))
		return -EPERM;
	ck_fd_set_nonblock(saved->control, true);
	ret = cks_workers_adopt(w, saved);
	if (ret < 0)
		return ret;
	w->first->info.number = ++w->numbered;
	w->first->info.use.begun = ck_now_ms(); /* it does not say since when it has been there */
	cks_audit_return(w->audit, &w->first->info, "crash");
	ck_info("%s pid %u has its server again (worker %d)", saved->info.program,
		saved->info.client_pid, (int)saved->info.pid);
	return 0;
}

void cks_workers_number(struct cks_workers *w, unsigned int numbered)
{
	w->numbered = numbered;
}
