/*
 * server/store/held_memory.c - see server/store/held_memory.h.
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "rpc/compress.h"
#include "server/store/held_memory.h"
#include "util/process/available_memory.h"
#include "util/util.h"

#define AVAILABLE_PART 16 /* the bound: available memory divided by this */
#define SLOTS_MIN 8u	  /* with fewer, reading ahead gains nothing */

/* Addresses for all slots; the kernel gives them pages when they are filled. */
static bool reserve(struct cks_held_memory *m)
{
	size_t room = ck_min(CK_HELD_MEMORY_MOST, (size_t)ck_available_memory() / AVAILABLE_PART);
	size_t slots = room / CK_CHUNK, size = (slots + 1) * CK_CHUNK;
	void *map;

	if (slots < SLOTS_MIN)
		return false;
	m->free = calloc(slots, sizeof(m->free[0]));
	if (!m->free)
		return false;
	map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
		   -1, 0);
	if (map == MAP_FAILED) {
		free(m->free);
		m->free = NULL;
		return false;
	}
	m->map = map;
	m->map_size = size;
	m->base = (unsigned char *)CK_ALIGN_UP((uintptr_t)map, CK_CHUNK);
	madvise(m->base, slots * CK_CHUNK, MADV_HUGEPAGE);
	for (size_t i = 0; i < slots; i++)
		m->free[i] = (unsigned int)(slots - 1 - i);
	m->slots = m->free_count = slots;
	return true;
}

unsigned char *cks_held_memory_take(struct cks_held_memory *m)
{
	if (m->slots == 0 && !reserve(m))
		return NULL;
	return m->free_count > 0 ? m->base + m->free[--m->free_count] * CK_CHUNK : NULL;
}

void cks_held_memory_give(struct cks_held_memory *m, unsigned char *slot)
{
	m->free[m->free_count++] = (unsigned int)((size_t)(slot - m->base) / CK_CHUNK);
}

void cks_held_memory_release(struct cks_held_memory *m)
{
	if (m->free_count < m->slots) {
		for (size_t i = 0; i < m->free_count; i++)
			madvise(m->base + m->free[i] * CK_CHUNK, CK_CHUNK, MADV_DONTNEED);
		return;
	}
	if (m->map)
		munmap(m->map, m->map_size);
	free(m->free);
	*m = (struct cks_held_memory){.slots = 0};
}
