/*
 * client/memory/box.h - boxes of memory: rows that lie a pitch apart, in planes that lie a slice apart.
 */
#ifndef CK_CLIENT_MEMORY_BOX_H
#define CK_CLIENT_MEMORY_BOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ck_box {
	uint64_t start;			/* address of its first byte */
	size_t width, height, depth;	/* bytes of a row, rows of a plane, planes */
	size_t pitch, slice;		/* bytes from row to row, from plane to plane */
};

/*
 * Place a box of known size @at (byte, row, plane) in memory at @base that has @pitch bytes a row
 * and @rows rows a plane; 0: as many as it takes. False: rows overlap, or a number is too large.
 */
bool ck_box_place(struct ck_box *box, uint64_t base, size_t pitch, size_t rows,
		  const size_t at[3]);
/* Is it without gaps? */
bool ck_box_is_packed(const struct ck_box *box);
/* Copy it to, or from, memory of the host without gaps. */
void ck_box_pack(const struct ck_box *box, char *packed);
void ck_box_unpack(const struct ck_box *box, const char *packed);
/* Copy between boxes of one size. */
void ck_box_copy(const struct ck_box *dst, const struct ck_box *src);

#endif
