/*
 * server/store/held_memory.h - host memory for chunks on their way from the disk to the device, in
 * slots of CK_CHUNK bytes. Its owner serialises calls.
 *
 * There is at most 2 GiB of it, and at most a sixteenth of the memory that was available when the
 * first slot was taken. A slot keeps its pages when it is given back, because making them takes as
 * long as filling them; cks_held_memory_release frees those of all free slots.
 */
#ifndef CK_SERVER_STORE_HELD_MEMORY_H
#define CK_SERVER_STORE_HELD_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

#define CK_HELD_MEMORY_MOST ((size_t)2 << 30)

/* Zeros at first: no memory. */
struct cks_held_memory {
	unsigned char *map, *base; /* the mapping, and its first slot */
	size_t map_size, slots;
	unsigned int *free; /* numbers of free slots */
	size_t free_count;
};

/* Take a slot. NULL: all are taken, or there is too little memory. */
unsigned char *cks_held_memory_take(struct cks_held_memory *memory);
void cks_held_memory_give(struct cks_held_memory *memory, unsigned char *slot);

/* Slots, 0 before the first was taken. */
static inline size_t cks_held_memory_slots(const struct cks_held_memory *memory)
{
	return memory->slots;
}

/* Give the pages of free slots back to the host. If all are free, the next one that is taken
 * decides again how many there are. */
void cks_held_memory_release(struct cks_held_memory *memory);

#endif
