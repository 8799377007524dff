/*
 * emu/memory/address_space.h - the addresses of one device; for arena.c alone, whose lock guards
 * them.
 */
#ifndef CK_EMU_MEMORY_ADDRESS_SPACE_H
#define CK_EMU_MEMORY_ADDRESS_SPACE_H

#include "emu/core/emu.h"

struct ck_ranges;

struct ck_emu_address_space {
	const struct ck_emu_device *device;
	uint64_t lo, hi;
	uint64_t next;		  /* where the search for room starts */
	size_t used, total;	  /* bytes */
	size_t gap;		  /* bytes that stay unused behind each range */
	int file;		  /* -1: none, the memory is this process's alone */
	struct ck_ranges *ranges; /* of struct ck_emu_memory */
};

/* Reserve the addresses of @device, the one with index @i: 0 or -errno. */
int ck_emu_address_space_init(struct ck_emu_address_space *stretch,
			      const struct ck_emu_device *device, int i);
/* Find @size free bytes, a multiple of @granule: their address, or 0. */
uint64_t ck_emu_address_space_room(const struct ck_emu_address_space *stretch, size_t size,
				   size_t granule);
/* Count @size bytes as used; false: the device has too little left. The reverse. */
bool ck_emu_address_space_take(struct ck_emu_address_space *stretch, size_t size);
void ck_emu_address_space_give(struct ck_emu_address_space *stretch, size_t size);
/*
 * Give the pages of [@lo, @hi), which has just become free, back to the system: those that it
 * shares with neighbours too, when these are free as well.
 */
void ck_emu_address_space_release(struct ck_emu_address_space *stretch, uint64_t lo, uint64_t hi);

#endif
