/*
 * m3/serve_region.c - requests about a region that the client has open.
 */
#include <stdlib.h>
#include <string.h>

#include "m3/broker.h"
#include "util/until.h"
#include "util/util.h"

#define GRANTS_MAX 256 /* of one region */

/*
 * A descriptor always permits reading and writing. So it is given to clients that may write; to
 * other clients of the owner, who could grant themselves the right; and to our own workers, which
 * map for the others with the rights that they are given.
 */
static bool may_have_fd(const struct ck_m3_conn *conn, const struct ck_m3_piece *p,
			const struct ck_m3_reference *h)
{
	return conn->trusted || (h->access == M3_READWRITE && !p->sealed) ||
	       p->owner == conn->principal;
}

static int fetch_part(struct ck_m3_ask *ask, struct ck_m3_piece *p, struct ck_m3_reference *h)
{
	unsigned int wanted = ask->q->access ? ask->q->access : M3_READ;
	unsigned int part = ask->q->value;

	if (part >= p->part_count)
		return M3_EINVAL;
	if ((wanted & h->access) != wanted || (p->sealed && wanted != M3_READ) ||
	    !may_have_fd(ask->conn, p, h))
		return M3_EPERM;
	h->given = true;
	h->maps += part == 0; /* the parts of a region are mapped together */
	p->maps += part == 0;
	ask->back_fd = p->parts[part].fd;
	ask->reply.size = p->part_size;
	ask->reply.access = wanted;
	ck_m3_piece_info(ask->b, p, ask->conn->principal, part, &ask->reply.info);
	return M3_OK;
}

static int unmap_region(struct ck_m3_piece *p, struct ck_m3_reference *h)
{
	if (h->maps == 0)
		return M3_EINVAL;
	h->maps--;
	p->maps--;
	return M3_OK;
}

/*
 * No other client may have it mapped for writing; the caller's library handles its own mappings.
 * The seal takes effect at once; the reply is sent after earlier requests have been written.
 */
static int seal_region(struct ck_m3_ask *ask, struct ck_m3_piece *p, struct ck_m3_reference *own)
{
	int status = ck_m3_copier_writes(ask->b->copier, p) ? CK_M3_LATER : M3_OK;

	if (ask->again)
		return status;
	if (!(p->flags & M3_SEALABLE))
		return M3_ENOTSUP;
	if (own->access != M3_READWRITE)
		return M3_EPERM;
	for (struct ck_m3_conn *c = ask->b->conns; c; c = c->next) {
		const struct ck_m3_reference *h = ck_m3_reference_find(c, p);

		if (h && h != own && h->given && h->access == M3_READWRITE && !p->sealed)
			return M3_EBUSY;
	}
	p->sealed = true;
	own->access = M3_READ;
	return status;
}

static int lease_region(struct ck_m3_ask *ask, struct ck_m3_reference *h)
{
	unsigned int kind = ask->q->access == M3_READ ? M3_LEASE_RO : M3_LEASE_RW;
	int status;

	if (kind == M3_LEASE_RW && h->access != M3_READWRITE)
		return M3_EPERM;
	status = ck_m3_reference_lease(h, kind);
	if (status != M3_EBUSY || ask->q->value == 0)
		return status;
	return ask->again && ck_now_ms() >= ask->conn->deadline ? M3_ETIMEDOUT : CK_M3_LATER;
}

static int grant_new(struct ck_m3_ask *ask, struct ck_m3_grant **at)
{
	struct ck_m3_grant *g = calloc(1, sizeof(*g));

	if (!g)
		return M3_ENOMEM;
	g->principal = ck_m3_principal_get(ask->b, ask->q->principal);
	if (!g->principal) {
		free(g);
		return M3_ENOMEM;
	}
	g->principal->uses++;
	g->access = ask->q->access;
	*at = g;
	return M3_OK;
}

static int grant_access(struct ck_m3_ask *ask, struct ck_m3_piece *p)
{
	struct ck_m3_grant **at = &p->grants, *g;
	unsigned int count = 0;

	if (!ask->q->principal[0])
		return M3_EINVAL;
	while (*at && strcmp((*at)->principal->name, ask->q->principal) != 0) {
		at = &(*at)->next;
		count++;
	}
	g = *at;
	if (!g && !ask->q->access)
		return M3_ENOENT;
	if (!g)
		return count < GRANTS_MAX ? grant_new(ask, at) : M3_EQUOTA;
	if (ask->q->access) {
		g->access = ask->q->access;
		return M3_OK;
	}
	*at = g->next;
	g->principal->uses--;
	ck_m3_principal_check(ask->b, g->principal);
	free(g);
	return M3_OK;
}

/* Chmod and grant: of the owner. */
static int change_rights(struct ck_m3_ask *ask, struct ck_m3_piece *p)
{
	if (p->owner != ask->conn->principal)
		return M3_EPERM;
	if (ask->q->op == CK_M3_GRANT)
		return grant_access(ask, p);
	if (ask->q->mode & ~0777u)
		return M3_EINVAL;
	p->mode = ask->q->mode;
	return M3_OK;
}

static int get_or_set_event(struct ck_m3_ask *ask, struct ck_m3_piece *p,
			    const struct ck_m3_reference *h)
{
	if (ask->q->op == CK_M3_EVENT_GET) {
		ask->back = p->event;
		ask->back_size = sizeof(p->event);
		return p->has_event ? M3_OK : M3_ENOENT;
	}
	if (h->access != M3_READWRITE)
		return M3_EPERM;
	if (ask->q->data_size != sizeof(p->event))
		return M3_EINVAL;
	memcpy(p->event, ask->data, sizeof(p->event));
	p->has_event = true;
	return M3_OK;
}

static bool range_fits(const struct ck_m3_piece *p, uint64_t offset, uint64_t size)
{
	uint64_t end;

	return size > 0 && !ck_add_overflow(offset, size, &end) && end <= p->size;
}

/* Bytes in or out, by the copier. */
static int transfer_bytes(struct ck_m3_ask *ask, struct ck_m3_piece *p,
			  const struct ck_m3_reference *h)
{
	const struct ck_m3_request *q = ask->q;
	bool writes = q->op != CK_M3_READ;
	uint64_t size = q->op == CK_M3_WRITE ? q->data_size : q->size;
	struct ck_m3_piece *from = NULL;
	int status;

	if (writes && (h->access != M3_READWRITE || p->sealed))
		return M3_EPERM;
	if (!range_fits(p, q->offset, size) || (!writes && size > CK_M3_DATA_MAX))
		return M3_EINVAL;
	if (q->op == CK_M3_COPY) {
		from = ck_m3_piece_find(ask->b, q->from, &status);
		if (!from || !ck_m3_reference_find(ask->conn, from))
			return from ? M3_ENOENT : status;
		if (!range_fits(from, q->from_offset, size))
			return M3_EINVAL;
	}
	return ck_m3_copier_submit(ask->b, ask, p, from);
}

int ck_m3_serve_region(struct ck_m3_ask *ask)
{
	int status;
	struct ck_m3_piece *p = ck_m3_piece_find(ask->b, ask->q->region, &status);
	struct ck_m3_reference *h = p ? ck_m3_reference_find(ask->conn, p) : NULL;

	if (!h)
		return p ? M3_ENOENT : status;
	switch (ask->q->op) {
	case CK_M3_FETCH:
		return fetch_part(ask, p, h);
	case CK_M3_UNMAP:
		return unmap_region(p, h);
	case CK_M3_RETAIN:
		return ck_m3_reference_add(ask->conn, p, h->access) ? M3_OK : M3_ENOMEM;
	case CK_M3_RELEASE:
		if (ask->q->value && h->made && p->refs == 1)
			p->detached = false;
		ck_m3_reference_release(ask->b, ask->conn, h);
		return M3_OK;
	case CK_M3_SEAL:
		return seal_region(ask, p, h);
	case CK_M3_LEASE:
		return lease_region(ask, h);
	case CK_M3_UNLEASE:
		status = h->lease ? M3_OK : M3_EINVAL;
		ck_m3_reference_unlease(ask->b, h);
		return status;
	case CK_M3_STAT:
		if (ask->q->value >= p->part_count)
			return M3_EINVAL;
		ck_m3_piece_info(ask->b, p, ask->conn->principal, ask->q->value, &ask->reply.info);
		return M3_OK;
	case CK_M3_CHMOD:
	case CK_M3_GRANT:
		return change_rights(ask, p);
	case CK_M3_EVENT_SET:
	case CK_M3_EVENT_GET:
		return get_or_set_event(ask, p, h);
	case CK_M3_READ:
	case CK_M3_WRITE:
	case CK_M3_FILL:
	case CK_M3_COPY:
		return transfer_bytes(ask, p, h);
	default:
		return M3_EPROTO;
	}
}
