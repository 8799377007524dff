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
 * NOT_SUPPORTED: some of it is shared with another process. OUT_OF_MEMORY: of addresses; nothing
 * has moved.
 */
CUresult ck_emu_evict(void);

/*
 * The reverse, on the devices that @pairs lead to, of @gpus in this machine; @count 0: on the same.
 * OUT_OF_MEMORY: a device has not so much left; INVALID_VALUE: the pairs are no map of all devices.
 * Nothing has moved then.
 */
CUresult ck_emu_evict_undo(const CUcheckpointGpuPair *pairs, unsigned int count, unsigned int gpus);

#endif
