/*
 * rpc/pinned.h - pinned memory on the wire.
 *
 * If the server is on the same host, both ends share it, and copies name it. Else small pinned
 * memory that kernels use is shadowed: each end has a copy, and keeps the other one's bytes, the
 * shadow. An end compares its bytes with the shadow, sends those that differ (ck_shadow_write,
 * CK_DELIVERY_CHANGES), and updates the shadow. So both may change different bytes of one word at
 * the same time.
 *
 * A list of changes consists of runs of words. A run is a head, a mask for each word (bit N: byte N
 * has changed), zeros up to a whole word, and the words. All are little-endian.
 */
#ifndef CK_RPC_PINNED_H
#define CK_RPC_PINNED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Kinds of ck_pinned_copy and ck_pinned_move. */
#define CK_PINNED_TO_DEVICE 0u
#define CK_PINNED_TO_HOST 1u

/* The client shadows memory up to these sizes; the server accepts no more. */
#define CK_SHADOW_MOST ((size_t)1 << 20)  /* one piece */
#define CK_SHADOWS_MOST ((size_t)4 << 20) /* all of a session: a wait compares them */

/* The longest list of changes in one delivery. */
#define CK_CHANGES_MOST ((size_t)512 << 10)

#define CK_CHANGES_WORD sizeof(uint64_t)
/* Room for the list of any changes in @size bytes. */
#define CK_CHANGES_ROOM(size) ((size) + (size) / 8 + 64)

/*
 * Compare the bytes [@first, @first+@size) at @now with those at @shadow, which become equal.
 * Appends the changes to @list, which has CK_CHANGES_ROOM(@size), and returns their length. Both
 * numbers are multiples of a word. Others may write at @now: each word is read once.
 */
size_t ck_changes_find(uint64_t number, const void *now, void *shadow, size_t first, size_t size,
		       unsigned char *list);

/* A run of a list. */
struct ck_changes_run {
	uint64_t number; /* of the shadowed memory */
	size_t at, size; /* the bytes of its words there */
	const unsigned char *masks, *words;
};

/* The run at @*at of a list of @size bytes; moves @*at beyond it. False: the end, where @*at is
 * @size, or a wrong run. */
bool ck_changes_next(const void *list, size_t size, size_t *at, struct ck_changes_run *run);

/* Write the changed bytes of @run to the memory at @base, word by word: no byte that others write
 * meanwhile is lost. */
void ck_changes_apply(const struct ck_changes_run *run, void *base);

#endif
