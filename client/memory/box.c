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

void ckc_box_copy(const struct ckc_box *dst, const struct ckc_box *src)
{
	for (size_t z = 0; z < dst->depth; z++) {
		for (size_t y = 0; y < dst->height; y++)
			memcpy((char *)(uintptr_t)dst->start + z * dst->slice + y * dst->pitch,
			       (char *)(uintptr_t)src->start + z * src->slice + y * src->pitch,
			       dst->width);
	}
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
