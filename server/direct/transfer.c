/*
 * server/direct/transfer.c - the bytes of a copy on one connection of a bridge.
 *
 * The receiver says that it is ready. The sender then takes pieces, as all connections of the copy
 * do, and sends each behind a head that says where it belongs; at the end it says whether that was
 * all. The device fills or empties one slot while the network has another one.
 */
#include <endian.h>
#include <string.h>
#include <sys/uio.h>

#include "gen/driver.h"
#include "rpc/chan.h"
#include "server/copy/staging.h"
#include "server/direct/bridge.h"
#include "util/util.h"

/* docs/protocol.md */
enum kind { READY = 1, DATA = 2, END = 3 };

struct head {
	uint32_t kind;
	uint32_t size;	 /* of the data that follow; END: 0, or the copy has failed */
	uint64_t number; /* of the copy */
	uint64_t offset; /* of the data in the copy's packed bytes */
};
_Static_assert(sizeof(struct head) == 24, "a head has no padding");

static bool send_message(struct cks_end *e, const struct cks_part *p, enum kind kind, uint32_t size,
			 uint64_t offset, void *bytes)
{
	struct head head = {htobe32(kind), htobe32(size), htobe64(p->number), htobe64(offset)};
	struct iovec iov[2] = {{&head, sizeof(head)}, {bytes, size}};

	cks_session_count_reply(e->bridge->owner->session, iov, bytes ? 2 : 1);
	return ck_chan_writev(e->chan, iov, bytes ? 2 : 1) == 0;
}

/* Read a head of this copy. */
static bool read_head(struct cks_end *e, const struct cks_part *p, struct head *head)
{
	if (ck_chan_read(e->chan, head, sizeof(*head)) < 0)
		return false;
	*head = (struct head){be32toh(head->kind), be32toh(head->size), be64toh(head->number),
			      be64toh(head->offset)};
	return head->number == p->number;
}

/* --- the device */

/* Go through the gate, to the thread's slots. OPERATING_SYSTEM: the bridge has broken in front of
 * it. */
static CUresult enter_gate(struct cks_end *e)
{
	struct cks_session *s = e->bridge->owner->session;

	if (!cks_gate_enter_unless(&s->gate, &e->pass, &e->bridge->broken))
		return CUDA_ERROR_OPERATING_SYSTEM;
	cks_session_mark_used(s);
	cks_ring_hold(e->ring);
	return CUDA_SUCCESS;
}

static void leave_gate(struct cks_end *e)
{
	cks_ring_release(e->ring);
	cks_gate_leave(&e->pass);
}

static CUresult make_current(struct cks_end *e, const struct cks_part *p)
{
	CUresult err = enter_gate(e);

	if (err)
		return err;
	err = ck_driver.cuCtxSetCurrent ? ck_driver.cuCtxSetCurrent(p->context)
					: CUDA_ERROR_NOT_SUPPORTED;
	leave_gate(e);
	return err;
}

/* The copy has failed at this end. */
static bool fail_part(struct cks_end *e, struct cks_part *p, CUresult err)
{
	ck_lock(&e->bridge->lock);
	if (!p->err)
		p->err = err;
	ck_unlock(&e->bridge->lock);
	return false;
}

/* --- sending */

struct piece {
	struct cks_copy_iterator walk;
	struct cks_slot *slot; /* NULL: there is no such piece */
};

/* The next piece that no connection has taken. False: there is none. */
static bool take_piece(struct cks_end *e, struct cks_part *p, struct cks_copy_iterator *walk)
{
	bool more;

	ck_lock(&e->bridge->lock);
	more = !p->err && !p->failed && cks_copy_iterator_next(&p->walk);
	*walk = p->walk;
	ck_unlock(&e->bridge->lock);
	return more;
}

static CUresult fetch_piece(struct cks_end *e, const struct cks_part *p, struct piece *now)
{
	CUresult err = cks_ring_next(e->ring, p->ctx, p->serial, &now->slot);

	if (!err)
		err = cks_copy_iterator_copy(&now->walk, now->slot->host, p->stream);
	return err ? err : cks_slot_mark(now->slot, p->stream, now->walk.piece);
}

/* Let the device fill a slot with @now, if there is such a piece, and wait until it has filled that
 * of @before. */
static CUresult advance_fetch(struct cks_end *e, const struct cks_part *p, struct piece *now,
			      bool more, const struct piece *before)
{
	CUresult err = enter_gate(e);

	if (err)
		return err;
	if (more)
		err = fetch_piece(e, p, now);
	if (!err && before->slot)
		err = cks_slot_wait(before->slot);
	leave_gate(e);
	return err;
}

static bool send_all(struct cks_end *e, struct cks_part *p)
{
	struct piece before = {.slot = NULL}, now;
	bool more = true, ok = true;
	CUresult err = make_current(e, p);
	struct head head;

	if (!read_head(e, p, &head) || head.kind != READY)
		return false;
	while (more && ok && !err) {
		now.slot = NULL;
		more = take_piece(e, p, &now.walk);
		err = advance_fetch(e, p, &now, more, &before);
		if (!err && before.slot)
			ok = send_message(e, p, DATA, (uint32_t)before.walk.piece, before.walk.done,
					  before.slot->host);
		before = now;
	}
	if (err)
		fail_part(e, p, err);
	if (ok)
		ok = send_message(e, p, END, (uint32_t)p->err, 0, NULL);
	return ok && !err;
}

/* --- receiving */

size_t cks_transfer_piece(const struct cks_part *p)
{
	struct cks_copy_iterator first = p->walk;

	cks_copy_iterator_next(&first);
	return first.piece;
}

/* A piece of a range comes once, at a multiple of the size of pieces. */
static bool is_new(struct cks_part *p, const struct head *head, size_t piece)
{
	size_t index = head->offset / piece;
	unsigned char bit = (unsigned char)(1u << index % 8);

	if (head->offset % piece || head->offset >= p->walk.total ||
	    head->size != ck_min(piece, p->walk.total - head->offset) ||
	    (p->arrived[index / 8] & bit))
		return false;
	p->arrived[index / 8] |= bit;
	return true;
}

/* Where the data behind @head belong. False: it is wrong. */
static bool locate_piece(struct cks_end *e, struct cks_part *p, const struct head *head,
			 size_t piece, struct cks_copy_iterator *walk)
{
	bool right;

	ck_lock(&e->bridge->lock);
	if (p->walk.flat)
		right = is_new(p, head, piece);
	else
		right = cks_copy_iterator_next(&p->walk) && p->walk.done == head->offset &&
			p->walk.piece == head->size;
	*walk = p->walk;
	if (p->walk.flat) {
		walk->done = head->offset;
		walk->piece = head->size;
	}
	p->received += head->size;
	ck_unlock(&e->bridge->lock);
	return right;
}

static CUresult next_slot(struct cks_end *e, const struct cks_part *p, struct cks_slot **slot)
{
	CUresult err = enter_gate(e);

	if (err)
		return err;
	err = cks_ring_next(e->ring, p->ctx, p->serial, slot);
	leave_gate(e);
	return err;
}

/* Pass the piece in *@slot to the device, and take the next slot. */
static CUresult store_piece(struct cks_end *e, const struct cks_part *p,
			    const struct cks_copy_iterator *walk, struct cks_slot **slot)
{
	CUresult err = enter_gate(e);

	if (err)
		return err;
	err = CUDA_ERROR_CONTEXT_IS_DESTROYED;
	if ((*slot)->event && (*slot)->ctx == p->ctx)
		err = cks_copy_iterator_copy(walk, (*slot)->host, p->stream);
	if (!err)
		err = cks_slot_mark(*slot, p->stream, walk->piece);
	if (!err)
		err = cks_ring_next(e->ring, p->ctx, p->serial, slot);
	leave_gate(e);
	return err;
}

static CUresult drain_ring(struct cks_end *e)
{
	CUresult err = enter_gate(e);

	if (err)
		return err;
	err = cks_ring_wait(e->ring);
	leave_gate(e);
	return err;
}

/* Receive the data behind @head into *@slot, and pass them to the device. */
static bool receive_piece(struct cks_end *e, struct cks_part *p, const struct head *head,
			  size_t piece, struct cks_slot **slot)
{
	struct cks_copy_iterator walk;
	CUresult err;

	if (!locate_piece(e, p, head, piece, &walk) ||
	    ck_chan_read(e->chan, (*slot)->host, head->size) < 0)
		return false;
	atomic_fetch_add_explicit(&e->bridge->owner->session->bytes_in, head->size,
				  memory_order_relaxed);
	err = store_piece(e, p, &walk, slot);
	return err ? fail_part(e, p, err) : true;
}

static bool receive_all(struct cks_end *e, struct cks_part *p)
{
	size_t piece = cks_transfer_piece(p);
	struct cks_slot *slot = NULL;
	bool ended = false;
	struct head head;
	CUresult err = make_current(e, p);

	if (!err)
		err = next_slot(e, p, &slot);
	if (err)
		return fail_part(e, p, err);
	if (!send_message(e, p, READY, 0, 0, NULL))
		return false;
	do {
		if (!read_head(e, p, &head) || (head.kind != DATA && head.kind != END))
			return false;
		ended = head.kind == END;
		if (!ended && !receive_piece(e, p, &head, piece, &slot))
			return false;
	} while (!ended);
	err = drain_ring(e);
	if (err)
		return fail_part(e, p, err);
	return head.size == 0;
}

bool cks_transfer(struct cks_end *e, struct cks_part *p)
{
	return p->sends ? send_all(e, p) : receive_all(e, p);
}
