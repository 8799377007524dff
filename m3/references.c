/*
 * m3/references.c - a connection's references to regions: references, mappings, leases. The
 * connection is the lease: all of them end with it, so a dead client cannot block others.
 */
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include "m3/broker.h"

struct ck_m3_reference *ck_m3_reference_find(struct ck_m3_conn *conn,
					     const struct ck_m3_piece *piece)
{
	struct ck_m3_reference *h = conn->holds;

	while (h && h->piece != piece)
		h = h->next;
	return h;
}

struct ck_m3_reference *ck_m3_reference_add(struct ck_m3_conn *conn, struct ck_m3_piece *piece,
					    unsigned int access)
{
	struct ck_m3_reference *h = ck_m3_reference_find(conn, piece);

	if (!h) {
		h = calloc(1, sizeof(*h));
		if (!h)
			return NULL;
		h->piece = piece;
		h->next = conn->holds;
		conn->holds = h;
	}
	h->access |= access;
	h->refs++;
	piece->refs++;
	return h;
}

void ck_m3_reference_unlease(struct ck_m3_broker *b, struct ck_m3_reference *h)
{
	if (h->lease == M3_LEASE_RW)
		h->piece->writer = NULL;
	else if (h->lease == M3_LEASE_RO)
		h->piece->readers--;
	if (h->lease)
		b->changed = true;
	h->lease = 0;
}

/* A reader that is alone may become the writer, and the other way round. */
int ck_m3_reference_lease(struct ck_m3_reference *h, unsigned int kind)
{
	struct ck_m3_piece *p = h->piece;
	unsigned int others = p->readers - (h->lease == M3_LEASE_RO);

	if ((p->writer && p->writer != h) || (kind == M3_LEASE_RW && others))
		return M3_EBUSY;
	p->readers = others + (kind == M3_LEASE_RO);
	p->writer = kind == M3_LEASE_RW ? h : NULL;
	h->lease = kind;
	return M3_OK;
}

static void unlink_hold(struct ck_m3_conn *conn, struct ck_m3_reference *h)
{
	struct ck_m3_reference **at = &conn->holds;

	while (*at != h)
		at = &(*at)->next;
	*at = h->next;
	free(h);
}

/*
 * The client reports that it no longer uses the region. The report is trusted: a process that lies
 * about memory that it still maps could have allocated as much without asking.
 */
void ck_m3_reference_release(struct ck_m3_broker *b, struct ck_m3_conn *conn,
			     struct ck_m3_reference *h)
{
	struct ck_m3_piece *p = h->piece;

	p->refs--;
	if (--h->refs == 0) {
		ck_m3_reference_unlease(b, h);
		p->maps -= h->maps;
		unlink_hold(conn, h);
	}
	ck_m3_piece_check(b, p);
}

static bool process_lives(const struct ck_m3_conn *conn)
{
	struct pollfd p = {.fd = conn->pidfd, .events = POLLIN};

	return conn->pidfd >= 0 && poll(&p, 1, 0) == 0;
}

bool ck_m3_holds_end(struct ck_m3_broker *b, struct ck_m3_conn *conn)
{
	bool lives = process_lives(conn), drains = false;
	struct ck_m3_reference *h, *next;

	for (h = conn->holds; h; h = next) {
		struct ck_m3_piece *p = h->piece;

		next = h->next;
		ck_m3_reference_unlease(b, h);
		p->refs -= h->refs;
		p->maps -= h->maps;
		h->refs = h->maps = 0;
		if (lives && h->given) {
			p->draining++;
			drains = true;
		} else {
			unlink_hold(conn, h);
		}
		ck_m3_piece_check(b, p);
	}
	return drains;
}

void ck_m3_holds_drained(struct ck_m3_broker *b, struct ck_m3_conn *conn)
{
	while (conn->holds) {
		struct ck_m3_piece *p = conn->holds->piece;

		unlink_hold(conn, conn->holds);
		p->draining--;
		ck_m3_piece_check(b, p);
	}
}

void ck_m3_holds_merge(struct ck_m3_conn *to, struct ck_m3_conn *from)
{
	struct ck_m3_reference *h;

	while ((h = from->holds) != NULL) {
		from->holds = h->next;
		if (ck_m3_reference_find(to, h->piece)) {
			h->piece->draining--; /* not the last one */
			free(h);
		} else {
			h->next = to->holds;
			to->holds = h;
		}
	}
}
