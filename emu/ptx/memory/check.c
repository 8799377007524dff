/*
 * emu/ptx/memory/check.c - the shadow of a block's shared memory: who touched each byte last.
 */
#include <stdlib.h>

#include "emu/ptx/memory/check.h"

struct ck_ptx_check *ck_ptx_check_create(struct ck_ptx_block *block, unsigned int what)
{
	const struct ck_ptx_run *run = block->run;
	const uint32_t *size = run->grid->block;
	struct ck_ptx_check *check = calloc(1, sizeof(*check));

	if (!check)
		return NULL;
	check->block = block;
	check->what = what;
	check->count = size[0] * size[1] * size[2];
	check->bytes = calloc(run->shared_bytes + 1, sizeof(*check->bytes));
	check->threads = calloc(check->count, sizeof(*check->threads));
	for (uint32_t i = 0; check->threads && i < check->count; i++)
		check->threads[i].time = 1;
	if (check->bytes && check->threads)
		return check;
	ck_ptx_check_destroy(check);
	return NULL;
}

void ck_ptx_check_destroy(struct ck_ptx_check *check)
{
	if (!check)
		return;
	for (uint32_t i = 0; check->threads && i < check->count; i++) {
		free(check->threads[i].known.at);
		free(check->threads[i].released.at);
		free(check->threads[i].seen.at);
		free(check->threads[i].pending);
	}
	for (uint32_t i = 0; i < CK_PTX_BARRIERS; i++)
		free(check->barriers[i].at);
	for (uint32_t i = 0; i < CK_PTX_PLACES; i++)
		free(check->places[i].at);
	for (uint32_t i = 0; i < check->mbarrier_room; i++) {
		free(check->mbarriers[i].now.at);
		free(check->mbarriers[i].done.at);
	}
	free(check->mbarriers);
	free(check->scratch.at);
	free(check->threads);
	free(check->bytes);
	free(check);
}

void ck_ptx_check_start(struct ck_ptx_check *check)
{
	/* epochs go on from block to block, so that the shadow need not be cleared */
	if (check->epoch > UINT32_MAX / 2) {
		memset(check->bytes, 0, sizeof(*check->bytes) * check->block->run->shared_bytes);
		check->epoch = 0;
	}
	ck_ptx_check_epoch(check);
	check->first = check->epoch;
	check->mbarrier_count = 0;
	for (uint32_t i = 0; i < check->count; i++) {
		check->threads[i].group = 0;
		check->threads[i].pending_count = 0;
	}
}

static unsigned int get_strong_flag(const struct ck_ptx_insn *in)
{
	return in->mod[CK_PTX_MOD_SEM] > CK_PTX_WEAK ? CK_PTX_TOUCH_STRONG : 0;
}

/* How an instruction accesses the memory that it names. */
static unsigned int touch_of(const struct ck_ptx_insn *in)
{
	switch (in->op) {
	case CK_PTX_OP_LD:
		return CK_PTX_TOUCH_READ | get_strong_flag(in);
	case CK_PTX_OP_ST:
		return CK_PTX_TOUCH_WRITE | get_strong_flag(in);
	case CK_PTX_OP_STMATRIX:
	case CK_PTX_OP_WMMA_D:
	case CK_PTX_OP_MBAR_INIT:
		return CK_PTX_TOUCH_WRITE;
	case CK_PTX_OP_CP_ASYNC_CA:
	case CK_PTX_OP_CP_ASYNC_CG:
		return CK_PTX_TOUCH_WRITE | CK_PTX_TOUCH_ASYNC;
	case CK_PTX_OP_CP_BULK:
	case CK_PTX_OP_ST_ASYNC:
		return CK_PTX_TOUCH_WRITE | CK_PTX_TOUCH_AGENT;
	case CK_PTX_OP_CP_REDUCE:
	case CK_PTX_OP_RED_ASYNC:
		return CK_PTX_TOUCH_CHANGE | CK_PTX_TOUCH_AGENT;
	case CK_PTX_OP_ATOM:
	case CK_PTX_OP_RED:
	case CK_PTX_OP_CP_ARRIVE:
		return CK_PTX_TOUCH_CHANGE;
	default:
		return in->op >= CK_PTX_OP_MBAR_INIT && in->op <= CK_PTX_OP_MBAR_COMPLETE
			       ? CK_PTX_TOUCH_CHANGE
			       : CK_PTX_TOUCH_READ;
	}
}

/* A store that does not change the value is no race: many threads may set one flag. */
static bool writes_same(const struct ck_ptx_warp *w, const struct ck_ptx_insn *in, uint32_t l,
			uint32_t byte, uint8_t old)
{
	uint32_t size = ck_min(ck_ptx_type_bytes(in->type), 8u); /* of one row */

	if (in->op != CK_PTX_OP_ST || !size)
		return false;
	return (uint8_t)(ck_ptx_row(w, in->s[1 + byte / size])[l] >> byte % size * 8) == old;
}

static bool is_conflict(const struct ck_ptx_check *check, uint32_t thread, unsigned int touch,
			const struct ck_ptx_stamp *other)
{
	if (other->epoch < check->first || other->thread == CK_PTX_FOREIGN)
		return false;
	if (other->touch & CK_PTX_TOUCH_ASYNC)
		return true;
	return !(touch & other->touch & CK_PTX_TOUCH_STRONG) &&
	       !ck_ptx_check_before(check, thread, other);
}

/*
 * A reader is recorded beside another one that is not ordered before it. Of more readers, two of
 * different warps are kept, so that a writer always meets one of another warp.
 */
static void note_read(const struct ck_ptx_check *check, struct ck_ptx_byte *byte, uint32_t thread,
		      const struct ck_ptx_stamp *mine)
{
	struct ck_ptx_stamp *a = &byte->read[0], *b = &byte->read[1];

	if (a->epoch < check->first || ck_ptx_check_before(check, thread, a))
		*a = *mine;
	else if (b->epoch < check->first || ck_ptx_check_before(check, thread, b))
		*b = *mine;
	else if (a->thread / CK_PTX_LANES == b->thread / CK_PTX_LANES)
		*b = *mine;
}

/* Is @mine's access to the byte a race with an earlier one? Then report it. */
static bool check_byte(struct ck_ptx_check *check, const struct ck_ptx_warp *w, uint32_t l,
		       uint32_t offset, uint32_t index, const struct ck_ptx_stamp *mine)
{
	struct ck_ptx_byte *byte = &check->bytes[offset];
	uint32_t thread = w->index * CK_PTX_LANES + l;
	unsigned int touch = mine->touch;

	if (is_conflict(check, thread, touch, &byte->write) &&
	    (touch & CK_PTX_TOUCH_READ ||
	     !writes_same(w, check->in, l, index, check->block->shared[offset]))) {
		ck_ptx_report_race(check, thread, offset, touch, &byte->write);
		return true;
	}
	for (int i = 0; touch & CK_PTX_TOUCH_WRITE && i < 2; i++) {
		if (!is_conflict(check, thread, touch, &byte->read[i]))
			continue;
		ck_ptx_report_race(check, thread, offset, touch, &byte->read[i]);
		return true;
	}
	return false;
}

/* The stamp of an access by lane @l. */
static struct ck_ptx_stamp stamp_of(struct ck_ptx_check *check, const struct ck_ptx_warp *w,
				    uint32_t l, unsigned int touch)
{
	uint32_t thread = w->index * CK_PTX_LANES + l;
	struct ck_ptx_stamp mine = {.epoch = check->epoch,
				    .time = check->threads[thread].time,
				    .insn = (uint32_t)(check->in - w->block->run->module->code),
				    .thread = (uint16_t)thread,
				    .touch = (uint8_t)touch};

	if (touch & CK_PTX_TOUCH_ASYNC)
		mine.time = check->threads[thread].group;
	if (touch & CK_PTX_TOUCH_AGENT) {
		mine.thread = (uint16_t)check->count;
		mine.time = check->agent_time;
	}
	return mine;
}

static void touch_own(struct ck_ptx_check *check, const struct ck_ptx_warp *w, uint32_t l,
		      uint32_t offset, uint32_t size, unsigned int touch)
{
	struct ck_ptx_stamp mine = stamp_of(check, w, l, touch);
	bool race = !(check->what & CK_PTX_CHECK_RACE), unread = !(check->what & CK_PTX_CHECK_INIT);

	for (uint32_t i = 0; i < size; i++) {
		struct ck_ptx_byte *byte = &check->bytes[offset + i];

		race = race || check_byte(check, w, l, offset + i, i, &mine);
		if (touch & CK_PTX_TOUCH_READ && !unread && byte->write.epoch < check->first) {
			ck_ptx_report_init(check, w, l, offset + i);
			unread = true;
		}
		if (touch & CK_PTX_TOUCH_READ)
			note_read(check, byte, w->index * CK_PTX_LANES + l, &mine);
		if (touch & CK_PTX_TOUCH_WRITE)
			byte->write = mine;
	}
	if (touch & CK_PTX_TOUCH_ASYNC)
		ck_ptx_check_pend(check, mine.thread, offset, size);
}

/* Another block of the cluster: accesses of its threads in between are not checked. */
static void touch_other(struct ck_ptx_check *owner, const struct ck_ptx_check *check,
			const struct ck_ptx_warp *w, uint32_t l, uint32_t offset, uint32_t size,
			unsigned int touch)
{
	bool unread = !(owner->what & CK_PTX_CHECK_INIT) || !(touch & CK_PTX_TOUCH_READ);

	for (uint32_t i = 0; i < size; i++) {
		struct ck_ptx_byte *byte = &owner->bytes[offset + i];

		if (!unread && byte->write.epoch < owner->first) {
			ck_ptx_report_init(check, w, l, offset + i);
			unread = true;
		}
		if (touch & CK_PTX_TOUCH_WRITE)
			byte->write = (struct ck_ptx_stamp){.epoch = owner->epoch,
							    .thread = CK_PTX_FOREIGN};
	}
}

/* Check the kernel's part only; the reserved part belongs to cooperative groups. */
static bool in_shared(const struct ck_ptx_block *block, const uint8_t *at)
{
	return at >= block->shared && at < block->shared + block->run->user_shared;
}

void ck_ptx_check_touch(struct ck_ptx_warp *w, uint32_t l, const uint8_t *at, uint32_t size,
			unsigned int touch)
{
	struct ck_ptx_check *check = w->block->check;
	uint32_t thread = w->index * CK_PTX_LANES + l;

	if (!check->in || !(check->what & (CK_PTX_CHECK_RACE | CK_PTX_CHECK_INIT)))
		return;
	if (!touch)
		touch = touch_of(check->in);
	if (in_shared(w->block, at))
		touch_own(check, w, l, (uint32_t)(at - w->block->shared), size, touch);
	for (uint32_t i = 0; i < w->block->run->cluster_size; i++) {
		struct ck_ptx_block *block = &w->block->cluster->blocks[i];

		if (block != w->block && in_shared(block, at))
			touch_other(block->check, check, w, l, (uint32_t)(at - block->shared), size,
				    touch);
	}
	if (touch & CK_PTX_TOUCH_STRONG && !(touch & CK_PTX_TOUCH_AGENT))
		ck_ptx_check_strong(check, thread, (uint64_t)(uintptr_t)at, touch);
}
