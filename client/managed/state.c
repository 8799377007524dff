/*
 * client/managed/state.c - the managed memory of a session; see client/managed/state.h.
 */
#include "client/managed/state.h"
#include "client/link/hooks.h"

static void init_managed(void *part)
{
	struct ckc_managed_state *s = part;

	s->pages.lock = (struct ck_mutex)CK_MUTEX(CK_RANK_PAGES);
	s->window.lock = (struct ck_mutex)CK_MUTEX(CK_RANK_WINDOW);
	s->window.file.fd = -1;
	s->shadows.lock = (struct ck_mutex)CK_MUTEX(CK_RANK_SHADOWS);
}
CK_CLIENT_PART(managed, struct ckc_managed_state, init_managed);
