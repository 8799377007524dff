/*
 * emu/memory/pool.h - memory pools, for the files that make, share and use them.
 */
#ifndef CK_EMU_MEMORY_POOL_H
#define CK_EMU_MEMORY_POOL_H

#include "emu/memory/arena.h"
#include "emu/core/locks.h"

/* A piece of a pool: in use, or kept for the next allocation. */
struct ck_emu_block {
	struct ck_emu_block *next;
	uint64_t address;
	size_t size;
	bool used;
	bool alias; /* shows the bytes of a piece of another pool, perhaps of another process */
	int fd;	    /* the file of its pages; -1: they cannot be shared */
};

struct ck_emu_pool {
	struct ck_emu_object base; /* each piece in use holds a reference */
	CUmemPoolProps props;
	int place; /* the device, or one of the host's below */
	bool is_default, imported, exported;
	/* of the pool, or of the one that it was imported from, among all processes */
	uint64_t name;
	unsigned int access; /* mask of devices */
	struct ck_emu_block *blocks;
	int reuse[3];
	uint64_t threshold, reserved, reserved_high, used, used_high;
};

/* Behind the devices, places in the host: the whole of it, and its only node. */
enum { CK_EMU_PLACE_HOST = CK_EMU_MAX_DEVICES, CK_EMU_PLACE_NODE, CK_EMU_PLACES };

/* INVALID_DEVICE, INVALID_VALUE: there is no such place. */
CUresult ck_emu_pool_place(const CUmemLocation *location, int *place);
static inline bool ck_emu_pool_in_host(const struct ck_emu_pool *pool)
{
	return pool->place >= CK_EMU_PLACE_HOST;
}

/* The lock of all pools. */
extern struct ck_mutex ck_emu_pool_lock;

/* A pool of a place that exists, not published; NULL: out of memory. */
struct ck_emu_pool *ck_emu_pool_create(const CUmemPoolProps *props);
/* The pool behind a handle, with a reference, or NULL. */
struct ck_emu_pool *ck_emu_pool_get(CUmemoryPool handle);
/* The current pool of a place, or the one that it has from the start. */
struct ck_emu_pool *ck_emu_pool_of(int place, bool initial);
CUresult ck_emu_pool_set(int place, CUmemoryPool handle);
/* Give kept pieces back to the device until no more than @keep bytes are reserved. Lock held. */
void ck_emu_pool_trim(struct ck_emu_pool *pool, uint64_t keep);
/* A piece of at least @size bytes, kept or new, in use from now on; 0: there is no room. */
uint64_t ck_emu_pool_take(struct ck_emu_pool *pool, size_t size);
/* Enter a piece of @pool into the table of addresses. Lock held. 0 or -errno. */
int ck_emu_pool_enter(struct ck_emu_pool *pool, struct ck_emu_block *block, size_t size);

/* The memory of a pool at @address, which no work uses any more, goes back to it. */
void ck_emu_pool_return(uint64_t address);
/* The handle of the pool that owns a range of kind POOL. */
CUmemoryPool ck_emu_pool_handle(const struct ck_emu_memory *memory);

#endif
