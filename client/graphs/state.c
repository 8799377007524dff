/*
 * client/graphs/state.c - the graphs' part of a session; see client/graphs/state.h.
 */
#include "client/graphs/state.h"
#include "client/link/hooks.h"

static void init_graphs(void *part)
{
	struct ckc_graphs *s = part;

	s->lists_lock = (struct ck_mutex)CK_MUTEX(CK_RANK_GRAPHS);
	s->notifications_lock = (struct ck_mutex)CK_MUTEX(CK_RANK_NOTIFICATIONS);
}
CK_CLIENT_PART(graphs, struct ckc_graphs, init_graphs);
