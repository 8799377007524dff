/*
 * client/cupti/record_kinds.c - the kinds of records that are wanted, and the records of calls on
 * their way out.
 */
#include <stdlib.h>

#include "client/cupti/cupti.h"
#include "client/wire/profile.h"

bool ckc_cupti_is_ready(const struct ckc_client *c)
{
	return c->initialized && atomic_load(&c->state) == CK_STATE_READY;
}

CUptiResult ckc_cupti_apply(struct ckc_client *c)
{
	struct ckc_cupti *s = c->cupti;
	CUptiResult ret = CUPTI_SUCCESS;

	if (ckc_cupti_is_ready(c))
		ret = ckc_cupti_send_kinds(c);
	ckc_cupti_runtime_enable(ckc_cupti_wants(s, CUPTI_ACTIVITY_KIND_RUNTIME) ||
				 s->reports_runtime);
	if (atomic_load(&s->kinds) != 0 && ckc_cupti_links_make(s) < 0)
		ret = CUPTI_ERROR_OUT_OF_MEMORY;
	atomic_store(&ckc_profile_on, atomic_load(&s->kinds) != 0);
	atomic_store(&ckc_profile_watch, ckc_profile_on || s->reports_driver);
	ckc_cupti_begin(s);
	return ret;
}

/* The calls come first, so that a reader knows a number before it meets its work. */
void ckc_cupti_hand_over_calls(struct ckc_client *c)
{
	struct ckc_cupti_piece *p = ckc_cupti_calls_take(c->cupti), *next;

	for (; p; p = next) {
		for (size_t at = 0; at < p->size;) {
			ckc_cupti_append(c, p->bytes + at);
			at += ckc_cupti_size(*(uint32_t *)(void *)(p->bytes + at));
		}
		next = p->next;
		free(p);
	}
}
