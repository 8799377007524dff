/*
 * client/copy/state.c - the copies' part of a session; see client/copy/state.h.
 */
#include "client/copy/state.h"
#include "client/link/hooks.h"

static void init_copying(void *part)
{
	struct ckc_copying *c = part;

	c->beside.lock = (struct ck_mutex)CK_MUTEX(CK_RANK_BESIDE);
	c->stages.lock = (struct ck_mutex)CK_MUTEX(CK_RANK_STAGES);
	c->promises.lock = (struct ck_mutex)CK_MUTEX(CK_RANK_PROMISES);
	c->mirrors.launch_lock = (struct ck_mutex)CK_MUTEX(CK_RANK_MIRROR_LAUNCH);
	c->bridges.lock = (struct ck_mutex)CK_MUTEX(CK_RANK_BRIDGES);
	c->mirrors.lock = (struct ck_mutex)CK_MUTEX(CK_RANK_MIRRORS);
}
CK_CLIENT_PART(copying, struct ckc_copying, init_copying);
