/*
 * client/memory/heap.h - addresses of leased device memory: which bytes are leased, free, in use.
 *
 * A heap lays out one device's memory in a region of reserved addresses. Leased memory comes in
 * chunks of 2 MiB, which allocations share, or as a block of several chunks that one allocation
 * uses as a whole. Chunks and blocks are the units in which memory goes back to the server. Large
 * leases are in units of 16 MiB instead of chunks: to create, map or end a unit takes the driver
 * as long as a chunk, and a session that leaves the GPU has to do so with all of them.
 *
 * Freed memory may still be used by work that has not finished. It carries a note of its last use,
 * and is given out again only when that use is over for the caller. Not locked: the owner
 * serialises calls.
 */
#ifndef CK_CLIENT_MEMORY_HEAP_H
#define CK_CLIENT_MEMORY_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CK_CHUNK ((size_t)2 << 20)
#define CK_HEAP_UNIT ((size_t)16 << 20)
#define CK_HEAP_ALIGN ((size_t)512) /* of allocations, as the driver aligns them */

struct ckc_heap;
struct ckc_context;

/* The last use of freed memory: all work of @context up to a command, or that of one stream. */
struct ckc_use {
	uint64_t command; /* 0: the use is over */
	struct ckc_context *context;
	bool in_stream;	 /* only work in @stream used it */
	uint64_t stream; /* id; 0: the legacy stream */
};

/* The user of an allocation: any work, or work in one stream, which may follow its own earlier
 * use. */
struct ckc_user {
	struct ckc_context *context;
	bool in_stream;
	uint64_t stream;
};

/* An empty heap in [lo, hi), whole chunks. NULL: out of memory. */
struct ckc_heap *ckc_heap_create(uint64_t lo, uint64_t hi);
void ckc_heap_destroy(struct ckc_heap *heap);

/* Choose addresses for @size bytes that will be leased, at a multiple of @unit: CK_CHUNK or
 * CK_HEAP_UNIT. 0: no room. */
uint64_t ckc_heap_place(struct ckc_heap *heap, size_t size, size_t unit);
/* The lease of [at, at+size) was refused: the addresses are unused again. */
void ckc_heap_cancel_place(struct ckc_heap *heap, uint64_t at);
/* The units of @unit bytes at [at, at+size) have been leased: they are free. -ENOMEM: displaced. */
int ckc_heap_add(struct ckc_heap *heap, uint64_t at, size_t size, size_t unit);
/* The block at @at has been leased, and is in use. */
void ckc_heap_add_block(struct ckc_heap *heap, uint64_t at);

/* Take @size bytes for @user; 0: no free memory of that size can be used without a wait. */
uint64_t ckc_heap_take(struct ckc_heap *heap, size_t size, const struct ckc_user *user);
/* The use of the smallest free piece of @size bytes or more; false: there is none. */
bool ckc_heap_blocked(const struct ckc_heap *heap, size_t size, struct ckc_use *use);
/* Free [at, at+size), as it was taken. -ENOMEM: it stays in use. */
int ckc_heap_give(struct ckc_heap *heap, uint64_t at, size_t size, const struct ckc_use *use);
/* Mark free memory as no longer used where @over says so. */
void ckc_heap_finish(struct ckc_heap *heap, bool (*over)(const struct ckc_use *use));

/* @context ends: its uses are over when all work is. */
void ckc_heap_disown(struct ckc_heap *heap, const struct ckc_context *context);

/* Take one run of chunks or units, or one block, out of the heap, to be given back to the server.
 * @over: only memory whose uses are over. False: nothing is free. */
bool ckc_heap_take_free(struct ckc_heap *heap, bool over, uint64_t *at, size_t *size);

/* Bytes in use or free; free ones; free ones that ckc_heap_take_free() could give back. */
size_t ckc_heap_leased(const struct ckc_heap *heap);
size_t ckc_heap_free(const struct ckc_heap *heap);
size_t ckc_heap_idle(const struct ckc_heap *heap);
/* Of the free bytes, those in blocks. */
size_t ckc_heap_cached(const struct ckc_heap *heap);

#endif
