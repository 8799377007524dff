/*
 * server/session/stream_holds.c - see server/session/stream_holds.h.
 */
#include "rpc/proc.h"
#include "server/session/locks.h"
#include "server/session/stream_holds.h"

void cks_stream_holds_init(struct cks_stream_holds *h)
{
	*h = (struct cks_stream_holds){.lock = CK_MUTEX(CK_RANK_HOLDS)};
}

void cks_stream_holds_fini(struct cks_stream_holds *h)
{
	ck_cond_destroy(&h->changed);
	ck_mutex_destroy(&h->lock);
}

/* Count in *@mine when *@others is 0. */
static void begin_hold(struct cks_stream_holds *h, unsigned int *mine, const unsigned int *others)
{
	ck_lock(&h->lock);
	while (*others > 0)
		ck_cond_wait(&h->changed, &h->lock);
	++*mine;
	ck_unlock(&h->lock);
}

static void end_hold(struct cks_stream_holds *h, unsigned int *mine)
{
	ck_lock(&h->lock);
	if (--*mine == 0)
		ck_cond_broadcast(&h->changed);
	ck_unlock(&h->lock);
}

void cks_stream_holds_begin(struct cks_stream_holds *h)
{
	begin_hold(h, &h->holding, &h->waiting);
}

void cks_stream_holds_over(struct cks_stream_holds *h)
{
	end_hold(h, &h->holding);
}

bool cks_stream_holds_enter(struct cks_stream_holds *h, const struct ck_proc *proc)
{
	if (!proc->drains)
		return false;
	begin_hold(h, &h->waiting, &h->holding);
	return true;
}

void cks_stream_holds_leave(struct cks_stream_holds *h)
{
	end_hold(h, &h->waiting);
}
