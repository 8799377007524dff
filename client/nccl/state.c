/*
 * client/nccl/state.c - NCCL's part of a session; see client/nccl/state.h.
 */
#include <string.h>

#include "client/nccl/nccl.h"
#include "client/link/hooks.h"

static void init_nccl(void *part)
{
	struct ckc_nccl *s = part;

	s->lock = (struct ck_mutex)CK_MUTEX(CK_RANK_NCCL);
	s->open_lock = (struct ck_mutex)CK_MUTEX(CK_RANK_NCCL_OPEN);
}
CK_CLIENT_PART(nccl, struct ckc_nccl, init_nccl);

/* A forked child has no communicators. */
static void in_child(struct ckc_client *c)
{
	struct ckc_nccl *s = c->nccl;

	ck_mutex_renew(&s->lock);
	ck_mutex_renew(&s->open_lock);
	s->asked = false;
	for (unsigned int i = 0; i < s->used; i++)
		s->comms[i].client = NULL;
}
CK_ON_FORK(in_child);
