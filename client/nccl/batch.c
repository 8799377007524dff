/*
 * client/nccl/batch.c - a batch of operations on its way to a session, and the work after its
 * outcome.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "client/nccl/nccl.h"
#include "util/util.h"

static bool reserve_bytes(struct ckc_nccl_batch *b, size_t size)
{
	size_t room = b->room ? b->room : 512;
	unsigned char *more;

	while (room < size)
		room *= 2;
	if (room == b->room)
		return true;
	more = realloc(b->bytes, room);
	if (!more)
		return false;
	b->bytes = more;
	b->room = room;
	return true;
}

static bool note_after(struct ckc_nccl_batch *b, const struct ckc_nccl_after *after)
{
	size_t room = b->after_room ? b->after_room * 2 : 8;
	struct ckc_nccl_after *more;

	if (b->count == b->after_room) {
		more = realloc(b->afters, room * sizeof(*more));
		if (!more)
			return false;
		b->afters = more;
		b->after_room = room;
	}
	b->afters[b->count] = *after;
	return true;
}

bool ckc_nccl_batch_add(struct ckc_nccl_batch *b, const struct ck_nccl_op *op, const void *extra,
			size_t size, const struct ckc_nccl_after *after, unsigned int flags)
{
	size_t at = b->size ? b->size : sizeof(struct ck_nccl_batch);
	size_t whole = CK_ALIGN_UP(sizeof(*op) + size, 8ul);
	struct ck_nccl_op head = *op;

	if (at + whole > CK_NCCL_BATCH_MAX || !reserve_bytes(b, at + whole) ||
	    !note_after(b, after))
		return false;
	head.size = (uint32_t)whole;
	memset(b->bytes + at, 0, whole);
	memcpy(b->bytes + at, &head, sizeof(head));
	if (size > 0)
		memcpy(b->bytes + at + sizeof(head), extra, size);
	b->size = at + whole;
	b->count++;
	b->flags |= flags;
	b->context = op->context;
	b->nonblocking |= after->newcomm ? after->newcomm->nonblocking : after->comm->nonblocking;
	return true;
}

void ckc_nccl_batch_free(struct ckc_nccl_batch *b)
{
	free(b->bytes);
	free(b->afters);
	*b = (struct ckc_nccl_batch){.client = NULL};
}

static void end_new(struct ckc_nccl_after *a)
{
	if (a->handle)
		*a->handle = NULL;
	ckc_nccl_comm_free(a->newcomm);
	a->newcomm = NULL;
}

void ckc_nccl_batch_undo(struct ckc_nccl_batch *b)
{
	for (unsigned int i = 0; i < b->count; i++) {
		if (b->afters[i].newcomm)
			end_new(&b->afters[i]);
	}
}

void ckc_nccl_batch_done(struct ckc_nccl_batch *b, ncclResult_t result, const uint64_t *values,
			 size_t count)
{
	size_t at = 0;

	for (unsigned int i = 0; i < b->count; i++) {
		struct ckc_nccl_after *a = &b->afters[i];

		if (a->value && !result && at < count)
			*a->value = (void *)(uintptr_t)values[at++];
		if (a->comm && !result && a->registers) /* another thread may abort it */
			atomic_fetch_add(&a->comm->registered, (unsigned int)a->registers);
		/* the program aborts one whose making goes on behind its back */
		if (a->newcomm && result && a->newcomm->nonblocking)
			a->newcomm->failed = result;
		else if (a->newcomm && result)
			end_new(a);
		if (a->ends)
			ckc_nccl_comm_free(a->comm);
	}
}
