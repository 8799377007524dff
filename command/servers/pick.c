/*
 * command/servers/pick.c - see pick.h.
 */
#include <stdlib.h>
#include <string.h>

#include "command/servers/pick.h"
#include "util/util.h"

/* One server's offer to this program. */
struct chance {
	size_t candidate;
	unsigned int priority, waiting, keys;
	unsigned int devices[CKX_OFFER_GPUS], count; /* those that fit, the best first */
	uint64_t free; /* of the best of them, as many as are needed */
};

static bool may_use(const struct ckx_candidate *c, unsigned int device)
{
	bool named = c->count == 0;

	for (unsigned int i = 0; i < c->count && !named; i++)
		named = c->devices[i] == device;
	return named && device < c->offer.count;
}

static bool better_gpu(const struct ckx_offer *o, unsigned int a, unsigned int b)
{
	const struct ckx_offer_gpu *one = &o->gpus[a], *other = &o->gpus[b];

	if (one->free != other->free)
		return one->free > other->free;
	if (one->programs != other->programs)
		return one->programs < other->programs;
	return a < b;
}

static void find_gpus(const struct ckx_candidate *c, uint64_t memory, struct chance *out)
{
	for (unsigned int i = 0; i < c->offer.count; i++) {
		unsigned int at = out->count;

		if (!may_use(c, i) || c->offer.gpus[i].free < memory)
			continue;
		for (; at > 0 && better_gpu(&c->offer, i, out->devices[at - 1]); at--)
			out->devices[at] = out->devices[at - 1];
		out->devices[at] = i;
		out->count++;
	}
}

unsigned int ckx_pick_fitting(const struct ckx_candidate *c, uint64_t memory)
{
	struct chance chance = {.count = 0};

	find_gpus(c, memory, &chance);
	return chance.count;
}

static bool is_in(const struct ckx_pick *pick, size_t candidate)
{
	for (size_t i = 0; pick && i < pick->count; i++) {
		if (pick->parts[i].candidate == candidate)
			return true;
	}
	return false;
}

/* Those that have at least one GPU that fits, in the order of the fleet. */
static size_t find_chances(const struct ckx_fleet *f, const struct ckx_need *need,
			   const struct ckx_pick *before, struct chance list[CKX_FLEET])
{
	size_t n = 0;

	for (size_t i = 0; i < f->count; i++) {
		const struct ckx_candidate *c = f->list[i];
		struct chance chance = {.candidate = i,
					.priority = c->priority,
					.waiting = c->offer.waiting,
					.keys = c->keys};

		if (!c->offer.answers || c->offer.most == 0 || c->offer.ready == need->full ||
		    is_in(before, i) ||
		    (before && c->keys != f->list[before->parts[0].candidate]->keys))
			continue;
		find_gpus(c, need->memory, &chance);
		for (unsigned int k = 0; k < ck_min(chance.count, need->gpus); k++)
			chance.free += c->offer.gpus[chance.devices[k]].free;
		if (chance.count > 0)
			list[n++] = chance;
	}
	return n;
}

static int compare_numbers(uint64_t a, uint64_t b)
{
	return (a > b) - (a < b);
}

/* For one server alone. */
static int by_free(const void *a, const void *b)
{
	const struct chance *one = a, *other = b;
	int result = compare_numbers(one->priority, other->priority);

	result = result ? result : compare_numbers(one->waiting, other->waiting);
	result = result ? result : compare_numbers(other->free, one->free);
	return result ? result : compare_numbers(one->candidate, other->candidate);
}

/* For several. */
static int by_count(const void *a, const void *b)
{
	const struct chance *one = a, *other = b;
	int result = compare_numbers(one->priority, other->priority);

	result = result ? result : compare_numbers(other->count, one->count);
	result = result ? result : compare_numbers(other->free, one->free);
	return result ? result : compare_numbers(one->candidate, other->candidate);
}

static int by_number(const void *a, const void *b)
{
	return compare_numbers(*(const unsigned int *)a, *(const unsigned int *)b);
}

/* The best @gpus of them. */
static void add_part(struct ckx_pick *pick, const struct chance *c, unsigned int gpus)
{
	struct ckx_part *p = &pick->parts[pick->count++];

	*p = (struct ckx_part){.candidate = c->candidate, .count = ck_min(c->count, gpus)};
	memcpy(p->devices, c->devices, p->count * sizeof(p->devices[0]));
	qsort(p->devices, p->count, sizeof(p->devices[0]), by_number);
}

static bool pick_one(struct chance *list, size_t n, const struct ckx_need *need,
		     struct ckx_pick *pick)
{
	qsort(list, n, sizeof(*list), by_free);
	for (size_t i = 0; i < n; i++) {
		if (list[i].count < need->gpus)
			continue;
		add_part(pick, &list[i], need->gpus);
		return true;
	}
	return false;
}

/* Those with @keys. */
static bool pick_several(const struct chance *list, size_t n, unsigned int keys,
			 const struct ckx_need *need, struct ckx_pick *pick)
{
	unsigned int left = need->gpus;

	pick->count = 0;
	for (size_t i = 0; i < n && left > 0 && pick->count < CK_SERVERS_MAX; i++) {
		if (list[i].keys != keys)
			continue;
		add_part(pick, &list[i], left);
		left -= pick->parts[pick->count - 1].count;
	}
	return left == 0;
}

bool ckx_pick(const struct ckx_fleet *f, const struct ckx_need *need, const struct ckx_pick *before,
	      struct ckx_pick *pick)
{
	struct chance *list = calloc(CKX_FLEET, sizeof(*list));
	size_t n = list ? find_chances(f, need, before, list) : 0;
	bool found;

	pick->count = 0;
	found = pick_one(list, n, need, pick);
	if (!found && !need->full) {
		qsort(list, n, sizeof(*list), by_count);
		for (size_t i = 0; i < n && !found; i++)
			found = pick_several(list, n, list[i].keys, need, pick);
	}
	free(list);
	return found;
}
