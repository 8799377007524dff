/*
 * emu/checkpoint/evict.h - device memory of a locked process leaves its addresses, and comes back.
 */
#ifndef CK_EMU_CHECKPOINT_EVICT_H
#define CK_EMU_CHECKPOINT_EVICT_H

#include <stdint.h>

#include "cuda/types.h"

/*
 * Move all device memory into host memory: nothing is left at its addresses, an access faults, and
 * the device counts no bytes of this process. Managed memory stays where it is, for the host.
 * NOT_SUPPORTED: some of it is shared with another process. OUT_OF_MEMORY: of addresses; nothing has
 * moved.
 */
CUresult ck_emu_evict(uint32_t unused);

/* The reverse. OUT_OF_MEMORY: a device has not so much left; nothing has moved. */
CUresult ck_emu_evict_undo(uint32_t unused);

#endif
