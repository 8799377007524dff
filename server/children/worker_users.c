/*
 * server/children/worker_users.c - sessions and the users that their workers become (uids.h).
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "m3/message.h"
#include "server/children/workers.h"
#include "server/children/workers_part.h"
#include "server/modules/cachedir.h"
#include "server/processes/messages.h"
#include "server/processes/process.h"
#include "util/log.h"

CK_LOG_DEFINE("server");

void cks_workers_users(struct cks_workers *w, struct cks_uids *uids)
{
	w->uids = uids;
}

int cks_worker_assign_user(struct cks_workers *w, struct worker *worker)
{
	struct cks_control_user message = {.kind = CK_CONTROL_USER};
	const struct cks_identity *identity = &worker->info.owner.identity;
	uid_t user = 0;
	int fd, ret;

	if (!w->uids && !w->confined)
		return 0;
	ret = w->uids ? cks_uids_take(w->uids, &identity->key, &user) : 0;
	if (ret < 0) {
		ck_err("no user is left for %s (--worker-users)", identity->name);
		return ret;
	}
	worker->info.user = message.user = user;
	message.identity = *identity;
	fd = w->uids ? cks_uids_cache(w->cache_dir, &identity->key, user)
		     : cks_cachedir_open(w->cache_dir);
	ret = fd < 0 ? fd
		     : ck_m3_send(worker->control, &message, sizeof(message), NULL, 0, fd,
				  MSG_DONTWAIT);
	if (fd >= 0)
		close(fd);
	if (ret < 0)
		ck_err("no user for worker %d: %s", (int)worker->pid, strerror(-ret));
	return ret;
}

bool cks_worker_reassign_user(struct cks_workers *w, struct worker *worker)
{
	if (!w->uids ||
	    cks_uids_claim(w->uids, &worker->info.owner.identity.key, worker->info.user) == 0)
		return true;
	ck_err("a returning session of %s is ended: its user %u now belongs to another identity",
	       worker->info.owner.identity.name, (unsigned int)worker->info.user);
	worker->info.user = 0;
	if (worker->process)
		cks_process_kill(worker->process);
	else
		kill(worker->info.pid, SIGKILL);
	return false;
}
