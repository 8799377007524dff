/*
 * client/modules/state.c - the modules' part of a session; see client/modules/state.h.
 */
#include "client/modules/state.h"
#include "client/link/hooks.h"

static void init_modules(void *part)
{
	struct ckc_modules *s = part;

	s->tables_lock = (struct ck_mutex)CK_MUTEX(CK_RANK_MODULES);
	s->announce_lock = (struct ck_mutex)CK_MUTEX(CK_RANK_ANNOUNCE);
	s->upload_lock = (struct ck_mutex)CK_MUTEX(CK_RANK_UPLOAD);
	s->managed_lock = (struct ck_mutex)CK_MUTEX(CK_RANK_MODULE_MANAGED);
	s->recall.lock = (struct ck_mutex)CK_MUTEX(CK_RANK_RECALL);
	s->printing.lock = (struct ck_mutex)CK_MUTEX(CK_RANK_PRINTING);
}
CK_CLIENT_PART(modules, struct ckc_modules, init_modules);
