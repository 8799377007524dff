/*
 * client/memory/box.h - boxes of memory: rows a pitch apart, in planes a slice apart.
 */
#ifndef CK_CLIENT_MEMORY_BOX_H
#define CK_CLIENT_MEMORY_BOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ckc_box {
	uint64_t start;		     /* address of its first byte */
	size_t width, height, depth; /* bytes per row, rows per plane, planes */
	size_t pitch, slice;	     /* bytes between rows, between planes */
};

/*
 * Place a box of known size @at (byte, row, plane) in memory at @base that has @pitch bytes per row
 * and @rows rows per plane; 0: the minimum. False: rows overlap, or a number is too large.
 */
bool ckc_box_place(struct ckc_box *box, uint64_t base, size_t pitch, size_t rows,
		   const size_t at[3]);
/* Is it packed, without gaps? */
bool ckc_box_is_packed(const struct ckc_box *box);
/* Do they have a byte in common? */
bool ckc_boxes_overlap(const struct ckc_box *a, const struct ckc_box *b);
/* Is @box a box in the packed bytes of @outer too? *@within: that one; its start is a number of
 * bytes. False as well for most parts of an @outer that is not packed. */
bool ckc_box_contains(const struct ckc_box *outer, const struct ckc_box *box,
		      struct ckc_box *within);
/* Is all of it in the @size bytes at @base? */
bool ckc_box_is_within(const struct ckc_box *box, uint64_t base, size_t size);
/* Copy it to, or from, packed host memory. */
void ckc_box_pack(const struct ckc_box *box, char *packed);
void ckc_box_unpack(const struct ckc_box *box, const char *packed);
/* Copy between boxes of equal size. */
void ckc_box_copy(const struct ckc_box *dst, const struct ckc_box *src);

#endif
