/*
 * server/memory/allocation_freeze.c - while another session returns to the GPU, this one takes no
 * memory.
 *
 * The driver loses a session that finds too little memory when it returns
 * (server/processes/gpu_room.h). So memory that was free when it began has to stay free. The wait
 * is bounded, in case the end of it is not reported.
 */
#include <errno.h>
#include <time.h>

#include "server/memory/lease.h"
#include "server/session/session.h"
#include "util/log.h"
#include "util/until.h"

CK_LOG_DEFINE("server");

#define MOST_S 60

void cks_lease_freeze(struct cks_session *s, bool frozen)
{
	struct cks_leases *l = s->leases;

	ck_lock(&l->lock);
	l->frozen = frozen;
	ck_cond_broadcast(&l->thawed);
	ck_unlock(&l->lock);
}

static bool is_frozen(struct cks_leases *l)
{
	bool frozen;

	ck_lock(&l->lock);
	frozen = l->frozen;
	ck_unlock(&l->lock);
	return frozen;
}

static void wait_for_thaw(struct cks_leases *l, const struct timespec *until)
{
	int err = 0;

	ck_lock(&l->lock);
	while (l->frozen && err != ETIMEDOUT)
		err = ck_cond_timedwait(&l->thawed, &l->lock, until);
	if (l->frozen) {
		l->frozen = false;
		ck_warn("another session has been resuming for %d s: allocating without waiting "
			"for it",
			MOST_S);
	}
	ck_unlock(&l->lock);
}

/* The session itself may leave the GPU meanwhile. */
void cks_lease_await_thaw(struct cks_request *q)
{
	struct cks_leases *l = q->session->leases;
	const struct timespec until = ck_until(MOST_S * 1000 * CK_NS_PER_MS);

	while (is_frozen(l)) {
		if (q->pass)
			cks_gate_leave(q->pass);
		wait_for_thaw(l, &until);
		if (q->pass)
			cks_gate_enter(&q->session->gate, q->pass);
	}
}
