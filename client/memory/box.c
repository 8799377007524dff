/*
 * client/memory/box.c - boxes of memory; see client/memory/box.h.
 */
#include <string.h>

#include "client/memory/box.h"
#include "util/util.h"

bool ckc_box_place(struct ckc_box *box, uint64_t base, size_t pitch, size_t rows,
		   const size_t at[3])
{
	size_t width, height, planes, last;

	if (ck_add_overflow(box->width, at[0], &width) ||
	    ck_add_overflow(box->height, at[1], &height) ||
	    ck_add_overflow(box->depth, at[2], &planes))
		return false;
	box->pitch = pitch ? pitch : width;
	rows = rows ? rows : height;
	if (box->pitch < width || rows < height || ck_mul_overflow(box->pitch, rows, &box->slice))
		return false;
	/* the last byte has the highest address: if it fits, all do */
	if (ck_mul_overflow(planes, box->slice, &last) || ck_add_overflow(base, last, &last))
		return false;
	box->start = base + at[2] * box->slice + at[1] * box->pitch + at[0];
	return true;
}

bool ckc_box_is_packed(const struct ckc_box *box)
{
	return (box->pitch == box->width || box->height == 1) &&
	       (box->slice == box->width * box->height || box->depth == 1);
}

/* Behind the last byte. */
static uint64_t end_of(const struct ckc_box *box)
{
	return box->start + (box->depth - 1) * box->slice + (box->height - 1) * box->pitch +
	       box->width;
}

/* Does @box have a byte in [lo, hi), which it ends behind? Its rows do not overlap: the last one
 * that begins before @hi ends last of those. */
static bool meets_row(const struct ckc_box *box, uint64_t lo, uint64_t hi)
{
	uint64_t at, plane, row;

	if (hi <= box->start)
		return false;
	at = hi - 1 - box->start;
	plane = ck_min(at / box->slice, box->depth - 1);
	row = ck_min((at - plane * box->slice) / box->pitch, box->height - 1);
	return box->start + plane * box->slice + row * box->pitch + box->width > lo;
}

bool ckc_boxes_overlap(const struct ckc_box *a, const struct ckc_box *b)
{
	if (a->start >= end_of(b) || b->start >= end_of(a))
		return false;
	if (ckc_box_is_packed(a))
		return meets_row(b, a->start, end_of(a));
	for (size_t z = 0; z < a->depth; z++) {
		for (size_t y = 0; y < a->height; y++) {
			uint64_t row = a->start + z * a->slice + y * a->pitch;

			if (meets_row(b, row, row + a->width))
				return true;
		}
	}
	return false;
}

static bool same_shape(const struct ckc_box *a, const struct ckc_box *b)
{
	return a->width == b->width && a->height == b->height && a->depth == b->depth &&
	       (a->height == 1 || a->pitch == b->pitch) && (a->depth == 1 || a->slice == b->slice);
}

void ckc_box_copy(const struct ckc_box *dst, const struct ckc_box *src)
{
	for (size_t z = 0; z < dst->depth; z++) {
		for (size_t y = 0; y < dst->height; y++)
			memcpy((char *)(uintptr_t)dst->start + z * dst->slice + y * dst->pitch,
			       (char *)(uintptr_t)src->start + z * src->slice + y * src->pitch,
			       dst->width);
	}
}

bool ckc_box_is_within(const struct ckc_box *box, uint64_t base, size_t size)
{
	return box->start >= base && end_of(box) <= base + size;
}

/* A packed box of the same size at @bytes. */
static struct ckc_box packed_at(const struct ckc_box *box, const char *bytes)
{
	struct ckc_box packed = *box;

	packed.start = (uintptr_t)bytes;
	packed.pitch = box->width;
	packed.slice = box->width * box->height;
	return packed;
}

bool ckc_box_contains(const struct ckc_box *outer, const struct ckc_box *box,
		      struct ckc_box *within)
{
	*within = *box;
	within->start = box->start - outer->start;
	if (ckc_box_is_packed(outer))
		return box->start >= outer->start && end_of(box) <= end_of(outer);
	*within = packed_at(box, NULL);
	return box->start == outer->start && same_shape(outer, box);
}

void ckc_box_pack(const struct ckc_box *box, char *packed)
{
	struct ckc_box to = packed_at(box, packed);

	ckc_box_copy(&to, box);
}

void ckc_box_unpack(const struct ckc_box *box, const char *packed)
{
	struct ckc_box from = packed_at(box, packed);

	ckc_box_copy(box, &from);
}
