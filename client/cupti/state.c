/*
 * client/cupti/state.c - CUPTI's part of a session; see client/cupti/state.h.
 */
#include "client/cupti/state.h"
#include "client/wire/hooks.h"

static void begin(void *part)
{
	struct ckc_cupti *s = part;

	s->flush_lock = (struct ck_mutex)CK_MUTEX(CK_RANK_CUPTI_FLUSH);
	s->lock = (struct ck_mutex)CK_MUTEX(CK_RANK_CUPTI);
}
CK_CLIENT_PART(cupti, struct ckc_cupti, begin);
