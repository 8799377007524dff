/*
 * rpc/transport/replay.c - see replay.h.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rpc/transport/replay.h"
#include "util/util.h"

#define RING_START (16u << 10)

/* Take @size bytes of the budget; false: there are not so many left. */
static bool charge_budget(struct ck_replay *r, size_t size)
{
	struct ck_lasting_budget *b = r->budget;

	if (!b || atomic_fetch_add(&b->used, size) + size <= b->limit)
		return true;
	atomic_fetch_sub(&b->used, size);
	return false;
}

static void credit_budget(struct ck_replay *r, size_t size)
{
	if (r->budget)
		atomic_fetch_sub(&r->budget->used, size);
}

/* The part of the budget that a ring of @size bytes takes. */
static size_t compute_ring_cost(size_t size)
{
	return size > CK_LASTING_FREE ? size : 0;
}

static void drop_ring(struct ck_replay *r)
{
	credit_budget(r, compute_ring_cost(r->size));
	free(r->ring);
	r->ring = NULL;
	r->size = 0;
}

static struct ck_loan *get_loan(const struct ck_replay *r, unsigned int i)
{
	return (struct ck_loan *)&r->loans[(r->first + i) % CK_LOANS];
}

void ck_replay_fini(struct ck_replay *r)
{
	for (unsigned int i = 0; i < r->count; i++)
		free(get_loan(r, i)->copy);
	r->count = 0;
	credit_budget(r, r->copied);
	r->copied = 0;
	drop_ring(r);
}

/* How many bytes with numbers below @at were ever in the ring. */
static uint64_t ring_position(const struct ck_replay *r, uint64_t at)
{
	uint64_t lent = r->lent_before;

	for (unsigned int i = 0; i < r->count && get_loan(r, i)->at < at; i++)
		lent += ck_min((uint64_t)get_loan(r, i)->size, at - get_loan(r, i)->at);
	return at - lent;
}

static size_t in_ring(const struct ck_replay *r)
{
	return (size_t)(ring_position(r, r->to) - ring_position(r, r->from));
}

size_t ck_replay_held(const struct ck_replay *r)
{
	return in_ring(r) + r->copied;
}

size_t ck_replay_room(const struct ck_replay *r)
{
	return r->size - in_ring(r);
}

/* Room for copied bytes up to the limit. */
static size_t room_at_most(const struct ck_replay *r)
{
	size_t held = ck_replay_held(r);

	return held < r->limit ? r->limit - held : 0;
}

/* The bytes with ring positions [at, at+size), at most up to the ring's end. */
static unsigned char *ring_at(const struct ck_replay *r, uint64_t at, size_t *size)
{
	size_t offset = (size_t)(at % r->size);

	*size = ck_min(*size, r->size - offset);
	return r->ring + offset;
}

int ck_replay_grow(struct ck_replay *r)
{
	size_t size = r->size ? 2 * r->size : ck_min((size_t)RING_START, r->limit),
	       held = in_ring(r);
	uint64_t at = ring_position(r, r->from), end = at + held;
	unsigned char *bigger;

	if (size > r->limit || (r->size && room_at_most(r) == 0) ||
	    !charge_budget(r, compute_ring_cost(size) - compute_ring_cost(r->size)))
		return -ENOBUFS;
	bigger = malloc(size);
	if (!bigger) {
		credit_budget(r, compute_ring_cost(size) - compute_ring_cost(r->size));
		return -ENOMEM;
	}
	while (at < end) {
		size_t n = ck_min((size_t)(end - at), size - (size_t)(at % size));
		const unsigned char *from = ring_at(r, at, &n);

		memcpy(bigger + at % size, from, n);
		at += n;
	}
	free(r->ring);
	r->ring = bigger;
	r->size = size;
	return 0;
}

void ck_replay_put(struct ck_replay *r, const void *data, size_t size)
{
	uint64_t at = ring_position(r, r->to);
	const unsigned char *from = data;

	r->to += size;
	while (size > 0) {
		size_t n = size;
		unsigned char *to = ring_at(r, at, &n);

		memcpy(to, from, n);
		from += n;
		at += n;
		size -= n;
	}
}

bool ck_replay_lend(struct ck_replay *r, const void *data, size_t size)
{
	if (r->count == CK_LOANS)
		return false;
	*get_loan(r, r->count++) = (struct ck_loan){.at = r->to, .size = size, .data = data};
	r->to += size;
	return true;
}

bool ck_replay_lent(const struct ck_replay *r, uint64_t until)
{
	for (unsigned int i = 0; i < r->count && get_loan(r, i)->at < until; i++) {
		if (!get_loan(r, i)->copy)
			return true;
	}
	return false;
}

/* Copy the bytes of @l that are not confirmed; the rest of its copy is never read. */
static int copy_loan(struct ck_replay *r, struct ck_loan *l)
{
	size_t done = r->from > l->at ? (size_t)(r->from - l->at) : 0;
	size_t left = l->size - done;

	if (left > room_at_most(r) || !charge_budget(r, left))
		return -ENOBUFS;
	l->copy = malloc(left);
	if (!l->copy) {
		credit_budget(r, left);
		return -ENOMEM;
	}
	memcpy(l->copy, l->data + done, left);
	r->lent_before += done;
	*l = (struct ck_loan){.at = l->at + done, .size = left, .data = l->copy, .copy = l->copy};
	r->copied += left;
	return 0;
}

int ck_replay_own(struct ck_replay *r, uint64_t until)
{
	int ret = 0;

	for (unsigned int i = 0; i < r->count && get_loan(r, i)->at < until && ret == 0; i++) {
		if (!get_loan(r, i)->copy)
			ret = copy_loan(r, get_loan(r, i));
	}
	return ret;
}

void ck_replay_confirm(struct ck_replay *r, uint64_t to)
{
	r->from = to;
	while (r->count > 0 && get_loan(r, 0)->at + get_loan(r, 0)->size <= to) {
		struct ck_loan *l = get_loan(r, 0);

		if (l->copy) {
			r->copied -= l->size;
			credit_budget(r, l->size);
		}
		free(l->copy);
		r->lent_before += l->size;
		r->first = (r->first + 1) % CK_LOANS;
		r->count--;
	}
	if (r->budget && compute_ring_cost(r->size) && in_ring(r) == 0 &&
	    atomic_load(&r->budget->used) > r->budget->limit / 2)
		drop_ring(r);
}

/* The piece at @at: its address, and its length in *@size, at most the old one. *@lent: it is the
 * lender's. */
static const unsigned char *piece_at(const struct ck_replay *r, uint64_t at, size_t *size,
				     bool *lent)
{
	unsigned int i = 0;

	*lent = false;
	while (i < r->count && get_loan(r, i)->at + get_loan(r, i)->size <= at)
		i++;
	if (i < r->count && get_loan(r, i)->at <= at) {
		*size = ck_min(*size, get_loan(r, i)->size - (size_t)(at - get_loan(r, i)->at));
		*lent = !get_loan(r, i)->copy;
		return get_loan(r, i)->data + (at - get_loan(r, i)->at);
	}
	if (i < r->count)
		*size = (size_t)ck_min((uint64_t)*size, get_loan(r, i)->at - at);
	return ring_at(r, ring_position(r, at), size);
}

int ck_replay_gather(const struct ck_replay *r, uint64_t at, size_t most, struct iovec *iov,
		     int count, size_t *size, unsigned int *lent)
{
	bool is_lent;
	int n = 0;

	*size = 0;
	*lent = 0;
	while (n < count && at < r->to && *size < most) {
		size_t length = (size_t)ck_min((uint64_t)(most - *size), r->to - at);

		iov[n].iov_base = (void *)(uintptr_t)piece_at(r, at, &length, &is_lent);
		*lent |= (unsigned int)is_lent << n;
		iov[n++].iov_len = length;
		at += length;
		*size += length;
	}
	return n;
}
