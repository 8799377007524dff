/*
 * server/direct/ticket.c - tickets: each admits one connection of a bridge.
 */
#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "server/direct/bridge.h"
#include "util/until.h"

int cks_bridge_issue(struct cks_direct *d, struct cks_bridge *b, unsigned char *tickets)
{
	size_t size = (size_t)b->width * CK_TICKET;

	if (getrandom(tickets, size, 0) != (ssize_t)size)
		return -EIO;
	ck_lock(&d->lock);
	for (unsigned int i = 0; i < b->width; i++) {
		memcpy(b->ends[i].ticket, tickets + (size_t)i * CK_TICKET, CK_TICKET);
		b->ends[i].issued = true;
	}
	ck_unlock(&d->lock);
	return 0;
}

/* Compare all bytes of both, so that the time tells nothing. */
static bool tickets_equal(const unsigned char *a, const unsigned char *b)
{
	const volatile unsigned char *x = a, *y = b;
	unsigned char differ = 0;

	for (size_t i = 0; i < CK_TICKET; i++)
		differ |= x[i] ^ y[i];
	return differ == 0;
}

/* The connection that @ticket admits; it cannot be used again. Call with the list's lock held. */
static struct cks_end *redeem_ticket(struct cks_direct *d, const unsigned char *ticket)
{
	int64_t now = ck_now_ms();
	struct cks_end *found = NULL;

	for (struct cks_bridge *b = d->bridges; b; b = b->next) {
		for (unsigned int i = 0; i < b->width; i++) {
			if (b->ends[i].issued && now < b->until &&
			    tickets_equal(b->ends[i].ticket, ticket))
				found = &b->ends[i];
		}
	}
	if (found) {
		found->issued = false;
		atomic_fetch_add(&found->bridge->users, 1);
	}
	return found;
}

int cks_direct_admit(struct cks_direct *d, const unsigned char ticket[CK_TICKET],
		     struct ck_chan *chan, void **place)
{
	struct cks_end *end;

	ck_lock(&d->lock);
	end = redeem_ticket(d, ticket);
	ck_unlock(&d->lock);
	if (!end)
		return -EACCES;
	cks_bridge_place(end->bridge, (unsigned int)(end - end->bridge->ends), chan);
	*place = end;
	return 0;
}

void cks_direct_begin(void *place)
{
	struct cks_end *end = place;

	cks_bridge_start(end);
	cks_bridge_put(end->bridge);
}
