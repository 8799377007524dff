/*
 * server/children/session_accounts.c - sessions and the policy: each has a seat in the account of
 * its identity (accounts.h).
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "m3/message.h"
#include "server/children/workers.h"
#include "server/children/workers_part.h"
#include "server/processes/messages.h"
#include "server/processes/session_info.h"
#include "server/rules/accounts.h"
#include "util/log.h"

CK_LOG_DEFINE("server");

void cks_workers_accounts(struct cks_workers *w, struct cks_accounts *accounts)
{
	w->accounts = accounts;
}

const struct cks_terms *cks_workers_identity_terms(const struct cks_workers *w,
						   const struct cks_identity *identity)
{
	return cks_accounts_terms(w->accounts, &identity->key);
}

const struct cks_prefix *cks_workers_prefix(const struct cks_workers *w,
					    const struct cks_identity *identity, const char *name)
{
	return cks_accounts_prefix(w->accounts, &identity->key, name);
}

const struct cks_terms *cks_session_terms(const struct cks_session_info *session)
{
	return cks_seat_terms(&container_of(session, struct worker, info)->seat);
}

int cks_session_account(const struct cks_session_info *session, uint32_t *seat)
{
	const struct cks_seat *own = &container_of(session, struct worker, info)->seat;

	*seat = own->number;
	return cks_seat_file(own);
}

int cks_worker_seat(struct cks_workers *w, struct worker *worker)
{
	struct cks_control_account message = {.kind = CK_CONTROL_ACCOUNT};
	int fd, ret;

	if (!w->accounts)
		return 0;
	cks_accounts_leave(w->accounts, &worker->seat);
	fd = cks_accounts_seat(w->accounts, &worker->info.owner.identity.key, &worker->seat);
	message.seat = worker->seat.number;
	ret = fd < 0 ? fd
		     : ck_m3_send(worker->control, &message, sizeof(message), NULL, 0, fd,
				  MSG_DONTWAIT);
	if (ret < 0) {
		ck_err("worker %d has no account: %s", (int)worker->pid, strerror(-ret));
		cks_accounts_leave(w->accounts, &worker->seat);
	}
	return ret;
}
