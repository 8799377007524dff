/*
 * server/processes/turn_pieces.c - see turn_pieces.h.
 */
#include "server/processes/turn_pieces.h"
#include "util/util.h"

void cks_turn_pieces_begin(struct cks_turn_pieces *p, uint32_t messages, uint32_t soon_us,
			   int64_t now)
{
	if (p->messages == 0)
		p->messages = messages;
	p->short_from = soon_us ? now + soon_us - CK_PIECE_US : INT64_MAX;
}

uint32_t cks_turn_pieces_next(struct cks_turn_pieces *p, int64_t now)
{
	p->us = now >= p->short_from ? CK_PIECE_SHORT_US : CK_PIECE_US;
	return ck_max(p->messages * p->us / CK_PIECE_US, 1u);
}

void cks_turn_pieces_fit(struct cks_turn_pieces *p, int64_t used_us, bool full)
{
	int64_t fit = (int64_t)p->messages * p->us / ck_max(used_us, (int64_t)1);

	fit = ck_min(fit, ck_min(2 * (int64_t)p->messages, (int64_t)CK_PIECE_MESSAGES_MOST));
	if (full || fit < p->messages) /* one that ended early does not show what more would take */
		p->messages = (uint32_t)ck_max(fit, (int64_t)1);
}
