/*
 * emu/ptx/memory/check_order.c - the order of a block's threads, by vector clocks.
 *
 * A thread that releases passes on its knowledge and its own time, and its time advances; a thread
 * that acquires takes the later of each. If there is no memory for a clock, the search for races
 * ends in this block: a missed race is better than a false one.
 */
#include <stdlib.h>

#include "emu/ptx/memory/check.h"

/* The clock's times, of this epoch; NULL without memory. */
static uint32_t *get_clock_times(struct ck_ptx_check *check, struct ck_ptx_clock *clock)
{
	size_t size = (check->count + 1) * sizeof(*clock->at);

	if (!clock->at)
		clock->at = malloc(size);
	if (!clock->at) {
		check->what &= ~(unsigned int)CK_PTX_CHECK_RACE;
		return NULL;
	}
	if (clock->epoch != check->epoch)
		memset(clock->at, 0, size);
	clock->epoch = check->epoch;
	return clock->at;
}

static void clear_clock(struct ck_ptx_clock *clock)
{
	clock->epoch = 0;
}

static void join_clock(struct ck_ptx_check *check, struct ck_ptx_clock *to,
		       const struct ck_ptx_clock *from)
{
	uint32_t *at;

	if (from->epoch != check->epoch || !from->at)
		return;
	at = get_clock_times(check, to);
	for (uint32_t i = 0; at && i <= check->count; i++)
		at[i] = ck_max(at[i], from->at[i]);
}

static void release_to_clock(struct ck_ptx_check *check, struct ck_ptx_clock *to, uint32_t thread)
{
	struct ck_ptx_thread_check *t = &check->threads[thread];
	uint32_t *at = get_clock_times(check, to);

	join_clock(check, to, &t->known);
	if (at)
		at[thread] = t->time;
	t->time++;
}

bool ck_ptx_check_before(const struct ck_ptx_check *check, uint32_t thread,
			 const struct ck_ptx_stamp *stamp)
{
	const struct ck_ptx_clock *known = &check->threads[thread].known;

	if (stamp->epoch != check->epoch || stamp->thread == thread ||
	    stamp->thread == CK_PTX_FOREIGN)
		return true;
	return known->epoch == check->epoch && known->at[stamp->thread] >= stamp->time;
}

void ck_ptx_check_epoch(struct ck_ptx_check *check)
{
	check->epoch++;
}

void ck_ptx_check_warp(struct ck_ptx_warp *w, uint32_t mask)
{
	struct ck_ptx_check *check = w->block->check;
	uint32_t first = w->index * CK_PTX_LANES;

	clear_clock(&check->scratch);
	EACH_LANE(mask, l, release_to_clock(check, &check->scratch, first + l););
	EACH_LANE(mask, l, join_clock(check, &check->threads[first + l].known, &check->scratch););
}

void ck_ptx_check_arrive(struct ck_ptx_warp *w, uint32_t l, unsigned int id)
{
	struct ck_ptx_check *check = w->block->check;

	release_to_clock(check, &check->barriers[id], w->index * CK_PTX_LANES + l);
}

void ck_ptx_check_barrier(struct ck_ptx_block *block, unsigned int id)
{
	struct ck_ptx_check *check = block->check;

	if (block->barriers[id].waiting == block->live) {
		ck_ptx_check_epoch(check);
		return;
	}
	for (int take = 0; take < 2; take++) {
		for (uint32_t t = 0; t < check->count; t++) {
			const struct ck_ptx_warp *w = &block->warps[t / CK_PTX_LANES];
			uint32_t l = t % CK_PTX_LANES;

			if (!(w->waiting >> l & 1) || w->at_barrier[l] != id)
				continue;
			if (take)
				join_clock(check, &check->threads[t].known, &check->barriers[id]);
			else
				release_to_clock(check, &check->barriers[id], t);
		}
	}
	clear_clock(&check->barriers[id]);
}

/*
 * Threads that meet at an address. Addresses may share a clock: it may then order too much, never
 * too little.
 */
void ck_ptx_check_strong(struct ck_ptx_check *check, uint32_t thread, uint64_t address,
			 unsigned int touch)
{
	struct ck_ptx_clock *place = &check->places[address / 4 % CK_PTX_PLACES];
	struct ck_ptx_thread_check *t = &check->threads[thread];
	unsigned int op = check->in->op, sem = check->in->mod[CK_PTX_MOD_SEM];

	if (op != CK_PTX_OP_LD && op != CK_PTX_OP_ST && op != CK_PTX_OP_ATOM && op != CK_PTX_OP_RED)
		return;
	if (touch & CK_PTX_TOUCH_READ)
		join_clock(check,
			   sem == CK_PTX_ACQUIRE || sem == CK_PTX_ACQ_REL ? &t->known : &t->seen,
			   place);
	if (!(touch & CK_PTX_TOUCH_WRITE))
		return;
	if (sem == CK_PTX_RELEASE || sem == CK_PTX_ACQ_REL)
		release_to_clock(check, place, thread);
	else
		join_clock(check, place, &t->released);
}

static void apply_fence(struct ck_ptx_check *check, uint32_t thread)
{
	struct ck_ptx_thread_check *t = &check->threads[thread];

	join_clock(check, &t->known, &t->seen);
	release_to_clock(check, &t->released, thread);
}

void ck_ptx_check_pend(struct ck_ptx_check *check, uint32_t thread, uint32_t offset, uint32_t size)
{
	struct ck_ptx_thread_check *t = &check->threads[thread];

	if (ck_ptx_room(&t->pending, &t->pending_room, t->pending_count, sizeof(*t->pending)) < 0) {
		check->what &= ~(unsigned int)CK_PTX_CHECK_RACE;
		return;
	}
	t->pending[t->pending_count++] =
		(struct ck_ptx_pending){.offset = offset, .size = size, .group = t->group};
}

/* The copies of @thread before group @until are done. */
static void complete_copies(struct ck_ptx_check *check, uint32_t thread, uint32_t until)
{
	struct ck_ptx_thread_check *t = &check->threads[thread];
	uint32_t left = 0;

	for (uint32_t i = 0; i < t->pending_count; i++) {
		struct ck_ptx_pending p = t->pending[i];

		if (p.group >= until) {
			t->pending[left++] = p;
			continue;
		}
		for (uint32_t at = p.offset; at < p.offset + p.size; at++) {
			struct ck_ptx_stamp *s = &check->bytes[at].write;

			/* somebody may have written since */
			if (!(s->touch & CK_PTX_TOUCH_ASYNC) || s->thread != thread ||
			    s->time != p.group)
				continue;
			s->touch &= (uint8_t)~CK_PTX_TOUCH_ASYNC;
			s->epoch = check->epoch;
			s->time = t->time;
		}
	}
	t->pending_count = left;
}

/* The groups of a thread are numbered; all but the last @behind of them are done. */
static void wait_groups(struct ck_ptx_check *check, uint32_t thread, uint64_t behind)
{
	uint32_t group = check->threads[thread].group;

	complete_copies(check, thread, group - (uint32_t)ck_min(behind, (uint64_t)group));
}

void ck_ptx_check_insn(struct ck_ptx_warp *w, const struct ck_ptx_insn *in, uint32_t mask)
{
	struct ck_ptx_check *check = w->block->check;
	uint32_t first = w->index * CK_PTX_LANES;

	check->in = in;
	if (!(check->what & CK_PTX_CHECK_RACE))
		return;
	switch (in->op) {
	case CK_PTX_OP_BAR:
	case CK_PTX_OP_BARRIER:
		if (in->kind == CK_PTX_CONVERGE)
			ck_ptx_check_warp(w, mask);
		break;
	case CK_PTX_OP_MEMBAR:
	case CK_PTX_OP_FENCE:
		EACH_LANE(mask, l, apply_fence(check, first + l););
		break;
	case CK_PTX_OP_CP_WAIT_ALL:
		EACH_LANE(mask, l, check->threads[first + l].group++;
			  wait_groups(check, first + l, 0););
		break;
	case CK_PTX_OP_CP_COMMIT:
		EACH_LANE(mask, l, check->threads[first + l].group++;);
		break;
	case CK_PTX_OP_CP_WAIT:
		EACH_LANE(mask, l, wait_groups(check, first + l, (uint64_t)in->imm););
		break;
	case CK_PTX_OP_CP_BULK:
	case CK_PTX_OP_CP_REDUCE:
	case CK_PTX_OP_ST_ASYNC:
	case CK_PTX_OP_RED_ASYNC:
		check->agent_time++;
		break;
	default:
		break;
	}
}

static struct ck_ptx_mbarrier_check *mbarrier_find(struct ck_ptx_check *check, uint32_t offset)
{
	struct ck_ptx_mbarrier_check *b;
	uint32_t room = check->mbarrier_room;

	for (uint32_t i = 0; i < check->mbarrier_count; i++)
		if (check->mbarriers[i].offset == offset)
			return &check->mbarriers[i];
	if (ck_ptx_room(&check->mbarriers, &check->mbarrier_room, check->mbarrier_count,
			sizeof(*b)) < 0) {
		check->what &= ~(unsigned int)CK_PTX_CHECK_RACE;
		return NULL;
	}
	/* clocks stay with their places in the table from block to block */
	if (check->mbarrier_room > room)
		memset(&check->mbarriers[room], 0, (check->mbarrier_room - room) * sizeof(*b));
	b = &check->mbarriers[check->mbarrier_count++];
	b->offset = offset;
	clear_clock(&b->now);
	clear_clock(&b->done);
	return b;
}

/* Whether @op is one in which a thread arrives. */
static bool is_arrive_op(unsigned int op)
{
	return op == CK_PTX_OP_CP_ARRIVE ||
	       (op >= CK_PTX_OP_MBAR_ARRIVE && op <= CK_PTX_OP_MBAR_DROP_MORE);
}

void ck_ptx_check_mbarrier(struct ck_ptx_warp *w, uint32_t l, const void *word, unsigned int op,
			   bool result, bool ended)
{
	struct ck_ptx_check *check = w->block->check;
	uint32_t thread = w->index * CK_PTX_LANES + l, *at;
	size_t offset = (size_t)((const uint8_t *)word - w->block->shared);
	struct ck_ptx_mbarrier_check *b;

	if (offset >= w->block->run->shared_bytes)
		return; /* another block's */
	b = mbarrier_find(check, (uint32_t)offset);
	if (!b)
		return;
	if (op == CK_PTX_OP_CP_BULK) {
		at = get_clock_times(check, &b->now);
		if (at)
			at[check->count] = check->agent_time;
	} else if (op == CK_PTX_OP_CP_ARRIVE) {
		complete_copies(check, thread, check->threads[thread].group + 1);
	}
	if (is_arrive_op(op))
		release_to_clock(check, &b->now, thread);
	if (ended) {
		join_clock(check, &b->done, &b->now);
		clear_clock(&b->now);
	}
	if (op >= CK_PTX_OP_MBAR_TEST && op <= CK_PTX_OP_MBAR_TRY_PARITY && result)
		join_clock(check, &check->threads[thread].known, &b->done);
}
