/*
 * m3/serve_create.c - requests that make regions, attach to them, take away their names.
 */
#include <string.h>

#include "m3/broker.h"
#include "util/util.h"

/* --- where */

/* The devices of a region, the first one first. */
struct place {
	int devices[M3_DEVICES_MAX];
	unsigned int count;
};

static int most_free(const struct ck_m3_broker *b)
{
	int best = 0;

	for (int i = 1; i < b->driver.device_count; i++) {
		if (ck_m3_device_bytes(b, i) - b->used[i] >
		    ck_m3_device_bytes(b, best) - b->used[best])
			best = i;
	}
	return best;
}

static int peer_of(const struct ck_m3_broker *b, int device, int *out)
{
	for (int i = 0; i < b->driver.device_count; i++) {
		if (i != device && ck_m3_reaches(b, device, i)) {
			*out = i;
			return M3_OK;
		}
	}
	return M3_ENOPEER;
}

/* @first, and of those that it reaches so many that there are @count; 0: all of them. */
static int choose_stripes(const struct ck_m3_broker *b, int first, uint64_t count, struct place *p)
{
	p->devices[0] = first;
	p->count = 1;
	for (int i = 1; i < b->driver.device_count && p->count != count; i++) {
		int device = (first + i) % b->driver.device_count;

		if (ck_m3_reaches(b, first, device))
			p->devices[p->count++] = device;
	}
	return count > p->count ? M3_ENOPEER : M3_OK;
}

static int choose_placement(struct ck_m3_ask *ask, int wanted, struct place *p)
{
	int own = ck_max(ask->conn->device, 0);

	p->count = 1;
	p->devices[0] = wanted >= 0 ? wanted : own;
	switch (ask->q->policy) {
	case M3_EXPLICIT:
		return M3_OK;
	case M3_SAME_AS_CALLER:
		p->devices[0] = own;
		return M3_OK;
	case M3_MOST_FREE:
		p->devices[0] = most_free(ask->b);
		return M3_OK;
	case M3_PEER_OF:
		return peer_of(ask->b, p->devices[0], &p->devices[0]);
	default:
		return choose_stripes(ask->b, p->devices[0], ask->q->count, p);
	}
}

/* Bytes of each of @count parts, for @bytes in all; the parts of a region are equal. */
static int part_size(struct ck_m3_broker *b, const struct ck_m3_request *q, int device,
		     unsigned int count, uint64_t *size)
{
	uint64_t granularity, all;
	int status = ck_m3_round(b, device, q->size / count + (q->size % count != 0), false, size,
				 &granularity);

	return status == M3_OK && ck_mul_overflow(*size, (uint64_t)count, &all) ? M3_EINVAL
										: status;
}

/* --- attaching and making */

/* Attach to a region that is there; the question waits as long as it is being made. */
static int attach_region(struct ck_m3_ask *ask, struct ck_m3_piece *p, unsigned int wanted)
{
	unsigned int allowed = ck_m3_piece_access(p, ask->conn->principal);

	if (!allowed)
		return M3_ENOENT; /* do not reveal regions that the caller may not have */
	if ((wanted & allowed) != wanted)
		return M3_EPERM;
	if (p->creating)
		return CK_M3_LATER;
	if (!ck_m3_reference_add(ask->conn, p, wanted))
		return M3_ENOMEM;
	ask->reply.region = p->rid;
	ask->reply.size = p->size;
	ask->reply.access = wanted;
	ck_m3_piece_info(ask->b, p, ask->conn->principal, 0, &ask->reply.info);
	return M3_OK;
}

static int attach_matching(struct ck_m3_ask *ask, struct ck_m3_piece *p, int device,
			   unsigned int access)
{
	const struct ck_m3_request *q = ask->q;
	uint64_t size;
	int status;

	if (q->flags & M3_EXCL)
		return M3_EEXIST;
	if (q->size || !(q->flags & M3_ATTACH_ONLY)) {
		status = part_size(ask->b, q, p->parts[0].device, p->part_count, &size);
		if (status != M3_OK || size != p->part_size)
			return status ? status : M3_EMISMATCH;
	}
	if (device >= 0 && q->policy == M3_EXPLICIT &&
	    (p->part_count > 1 || device != p->parts[0].device))
		return M3_EMISMATCH;
	if (q->policy == M3_STRIPED && q->count && q->count != p->part_count)
		return M3_EMISMATCH;
	return attach_region(ask, p, access);
}

/* New memory may hold bytes of another client: the reply is sent after it was filled with zeros. */
static int create_region(struct ck_m3_ask *ask, int device)
{
	const struct ck_m3_request *q = ask->q;
	struct ck_m3_piece *p;
	struct place at;
	uint64_t size;
	int status = choose_placement(ask, device, &at);

	if (status == M3_OK)
		status = part_size(ask->b, q, at.devices[0], at.count, &size);
	if (status == M3_OK)
		status = ck_m3_piece_create(ask->b, ask->conn, at.devices, at.count, size,
					    q->flags & M3_RDMA, &p);
	if (status != M3_OK)
		return status;
	memcpy(p->name, q->name, sizeof(p->name));
	p->mode = q->mode ? q->mode : 0600;
	p->flags = q->flags & (M3_SEALABLE | M3_RDMA | M3_DETACHED);
	p->detached = q->flags & M3_DETACHED;
	status = attach_region(ask, p, M3_READWRITE);
	if (status == M3_OK) {
		p->creating = true;
		ask->conn->holds->made = true;
		status = ck_m3_copier_submit(ask->b, ask, p, NULL);
	}
	if (status < 0) {
		p->detached = p->creating = false;
		if (ask->conn->holds && ask->conn->holds->piece == p)
			ck_m3_reference_release(ask->b, ask->conn, ask->conn->holds);
		else
			ck_m3_piece_check(ask->b, p);
	}
	return status;
}

int ck_m3_serve_alloc(struct ck_m3_ask *ask)
{
	const struct ck_m3_request *q = ask->q;
	unsigned int access = q->access ? q->access : M3_READWRITE;
	bool attach_only = q->flags & M3_ATTACH_ONLY;
	struct ck_m3_piece *p = NULL;
	int device, status = ck_m3_device_of(ask->b, q, &device);

	if (status != M3_OK)
		return status;
	if ((attach_only && (q->flags & M3_EXCL || !q->name[0])) || q->mode & ~0777u ||
	    q->policy > M3_STRIPED || q->count > M3_DEVICES_MAX)
		return M3_EINVAL;
	if (q->name[0]) /* names that a client makes are its own, even among shared ones */
		p = ck_m3_piece_named(ask->b, q->name, ask->conn->principal, !attach_only);
	if (p)
		return attach_matching(ask, p, device, access);
	return attach_only ? M3_ENOENT : create_region(ask, device);
}

int ck_m3_serve_open(struct ck_m3_ask *ask)
{
	const struct ck_m3_request *q = ask->q;
	struct ck_m3_piece *p;
	int status = M3_ENOENT;

	if (q->name[0])
		p = ck_m3_piece_named(ask->b, q->name, ask->conn->principal, false);
	else
		p = ck_m3_piece_find(ask->b, q->region, &status);
	return p ? attach_region(ask, p, q->access ? q->access : M3_READWRITE) : status;
}

int ck_m3_serve_unlink(struct ck_m3_ask *ask)
{
	struct ck_m3_piece *p =
		ck_m3_piece_named(ask->b, ask->q->name, ask->conn->principal, false);

	if (!p)
		return M3_ENOENT;
	if (p->owner != ask->conn->principal)
		return M3_EPERM;
	p->name[0] = '\0';
	p->unlinked = true;
	p->detached = false;
	ck_m3_piece_check(ask->b, p);
	return M3_OK;
}
