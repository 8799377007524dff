/*
 * server/children/worker_mps.c - sessions and the daemons of NVIDIA MPS that they use (mps.h).
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cricket.h"
#include "cuda/mps.h"
#include "server/children/workers.h"
#include "server/children/workers_part.h"
#include "server/processes/process.h"
#include "server/processes/session_info.h"
#include "server/processes/state.h"
#include "server/policy/terms.h"
#include "util/log.h"
#include "util/process/proc_file.h"
#include "util/until.h"
#include "util/util.h"

CK_LOG_DEFINE("server");

#define CK_LOST_MS 5000 /* for a session to end whose daemon has */
#define CK_USED_MS 3000 /* workers report their use with some delay */

_Static_assert(CK_STATE_MPS_GPUS == CK_TERMS_GPUS && CK_STATE_MPS_FOLDER == CK_MPS_PATH,
	       "the state of an upgrade has room for them");

static const char line_of_loss[] = "the NVIDIA MPS of its identity has ended";

int cks_worker_find_mps(struct cks_workers *w, const struct cks_start *start,
			struct cks_mps_daemon **out, const char **why)
{
	const struct cks_identity *identity = &start->owner->identity;
	const struct cks_terms *terms = cks_workers_identity_terms(w, identity);
	int ret;

	*out = NULL;
	if (!terms->mps && start->sm > 0) {
		*why = "--sm (CRICKET_SM) needs share = \"mps\" in the server's policy";
		return -ENOTSUP;
	}
	if (!terms->mps)
		return 0;
	if (w->uids) {
		*why = "share = \"mps\" of the policy does not work with --worker-users";
		return -ENOTSUP;
	}
	ret = cks_mps_take(&w->mps, identity, terms->gpus, out);
	if (ret == -ENOENT)
		*why = "the policy shares the GPU through NVIDIA MPS, and the server has "
		       "no " CK_MPS_CONTROL;
	else if (ret < 0)
		*why = "the server cannot start NVIDIA MPS for this identity";
	return ret;
}

/* How many GPUs a list with commas has. */
static unsigned int count_list(const char *list)
{
	unsigned int count = *list != '\0';

	for (; *list; list++)
		count += *list == ',';
	return count;
}

/* The GPUs of this host or container; 0: not known. */
static unsigned int count_devices(void)
{
	unsigned int count = 0;
	char path[32];

	for (unsigned int i = 0; i < CK_MAX_DEVICES; i++) {
		snprintf(path, sizeof(path), "/dev/nvidia%u", i);
		count += access(path, F_OK) == 0;
	}
	return count;
}

void cks_worker_enter_mps(const struct cks_workers *w, const struct cks_mps_daemon *daemon,
			  unsigned int sm)
{
	const struct cks_terms *terms = cks_workers_identity_terms(w, &daemon->identity);
	const char *list = daemon->gpus[0] ? daemon->gpus : w->gpus;

	cks_mps_enter(daemon, terms, sm, *list ? count_list(list) : count_devices());
}

void cks_workers_gpus(struct cks_workers *w, const char *gpus)
{
	w->gpus = gpus;
}

static bool uses(const struct worker *worker, const struct cks_mps_daemon *daemon)
{
	return worker->state == SERVING && worker->info.mps == daemon->number;
}

/* --- the end of a daemon: its sessions cannot go on */

static void end_session(struct worker *worker)
{
	snprintf(worker->info.cause, sizeof(worker->info.cause), "%s", line_of_loss);
	cks_worker_send_line(worker, CK_CONTROL_WORDS, line_of_loss, true);
}

static void kill_sessions(struct cks_workers *w, const struct cks_mps_daemon *daemon)
{
	for (struct worker *worker = w->first; worker; worker = worker->next) {
		if (!uses(worker, daemon))
			continue;
		if (worker->process)
			cks_process_kill(worker->process);
		else
			kill(worker->info.pid, SIGKILL);
	}
}

bool cks_workers_mps_ended(struct cks_workers *w, pid_t pid, int status)
{
	struct cks_mps_daemon *lost;

	if (!cks_mps_ended(&w->mps, pid, status, &lost))
		return false;
	for (struct worker *worker = w->first; lost && worker; worker = worker->next) {
		if (uses(worker, lost))
			end_session(worker);
	}
	return true;
}

/* --- the loop */

static size_t count_sessions(const struct cks_workers *w, const struct cks_mps_daemon *daemon)
{
	size_t count = 0;

	for (const struct worker *worker = w->first; worker; worker = worker->next)
		count += uses(worker, daemon);
	return count;
}

static int64_t tend_daemon(struct cks_workers *w, struct cks_mps_daemon *daemon)
{
	size_t sessions = count_sessions(w, daemon);
	int64_t now = ck_now_ms(), next;
	bool exists;

	next = cks_mps_tend(&w->mps, daemon, sessions, &exists);
	if (!exists || !daemon->lost || sessions == 0)
		return next;
	if (now < daemon->lost + CK_LOST_MS)
		return ck_min(next, daemon->lost + CK_LOST_MS);
	kill_sessions(w, daemon);
	return ck_min(next, now + CK_LOST_MS);
}

void cks_workers_mps_run(struct cks_workers *w, int *timeout_ms)
{
	struct cks_mps_daemon *daemon = w->mps.first, *next;
	int64_t time;

	for (; daemon; daemon = next) {
		next = daemon->next;
		time = tend_daemon(w, daemon);
		if (time < INT64_MAX)
			ck_poll_sooner(timeout_ms, ck_max(time - ck_now_ms(), (int64_t)0));
	}
}

/* --- GPU time, which the driver may count for NVIDIA's server */

static void add_gpu_time(struct cks_workers *w, struct worker *worker, uint64_t us)
{
	struct cks_ledger_row *row;

	worker->info.use.gpu_us += us;
	row = cks_ledger_row(&w->ledger, worker->info.owner.identity.name);
	if (row)
		row->gpu_us += us;
}

/* Its sessions that have used the GPU lately, or @all of them. */
static bool takes_part(const struct worker *worker, const struct cks_mps_daemon *daemon, bool all)
{
	return uses(worker, daemon) &&
	       (all || ck_now_ms() - worker->info.suspension.used < CK_USED_MS);
}

static void add_mps_time(struct cks_workers *w, pid_t server, uint64_t us)
{
	struct cks_mps_daemon *daemon = w->mps.first;
	struct ck_proc_stat stat;
	size_t count = 0, all;

	if (!daemon || ck_proc_stat(server, &stat) < 0)
		return;
	while (daemon && (daemon->pid != stat.parent || daemon->pid == 0))
		daemon = daemon->next;
	if (!daemon)
		return; /* another process has the GPU */
	for (const struct worker *worker = w->first; worker; worker = worker->next)
		count += takes_part(worker, daemon, false);
	all = count > 0 ? 0 : count_sessions(w, daemon);
	for (struct worker *worker = w->first; worker; worker = worker->next) {
		if (takes_part(worker, daemon, all > 0))
			add_gpu_time(w, worker, us / ck_max(count, all));
	}
}

void cks_workers_add_gpu_time(struct cks_workers *w, pid_t pid, uint64_t us)
{
	struct worker *worker = w->first;

	while (worker && (worker->state != SERVING || worker->info.pid != pid))
		worker = worker->next;
	if (worker)
		add_gpu_time(w, worker, us);
	else
		add_mps_time(w, pid, us);
}

/* --- an upgrade */

int cks_worker_mps_save(const struct cks_workers *w, struct cks_state *state)
{
	size_t count = 0;

	for (const struct cks_mps_daemon *d = w->mps.first; d; d = d->next)
		count++;
	state->mps = calloc(count + 1, sizeof(*state->mps));
	if (!state->mps)
		return -ENOMEM;
	for (const struct cks_mps_daemon *d = w->mps.first; d; d = d->next) {
		struct cks_state_mps *saved = &state->mps[state->mps_count++];

		*saved = (struct cks_state_mps){.number = d->number,
						.pid = d->pid,
						.messenger = d->messenger,
						.identity = d->identity,
						.quits = d->quit_by != 0,
						.lost = d->lost};
		snprintf(saved->gpus, sizeof(saved->gpus), "%s", d->gpus);
		snprintf(saved->folder, sizeof(saved->folder), "%s", d->folder);
	}
	return 0;
}

int cks_workers_mps_adopt(struct cks_workers *w, const struct cks_state_mps *saved)
{
	struct cks_mps_daemon d = {.number = saved->number,
				   .pid = saved->pid,
				   .messenger = saved->messenger,
				   .identity = saved->identity,
				   .quit_by = saved->quits ? ck_now_ms() : 0,
				   .lost = saved->lost};

	snprintf(d.gpus, sizeof(d.gpus), "%s", saved->gpus);
	snprintf(d.folder, sizeof(d.folder), "%s", saved->folder);
	return cks_mps_adopt(&w->mps, &d);
}
