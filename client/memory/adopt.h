/*
 * client/memory/adopt.h - share registered memory of the program with the worker. Its pages are
 * exchanged for pages of the shared file with the same contents, and back.
 */
#ifndef CK_CLIENT_MEMORY_ADOPT_H
#define CK_CLIENT_MEMORY_ADOPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuda/types.h"

/*
 * Exchange the pages of [address, address+size), and have the worker register these bytes in
 * context @ctx. NOT_SUPPORTED, with nothing changed: the memory is not private to the program, the
 * address is in use in the worker, or there is no shared file.
 */
CUresult ckc_adopt(uint64_t ctx, uint64_t address, size_t size);

/* Make the pages private to the program again. The device must not use them any more. */
void ckc_adopt_end(uint64_t ctx, uint64_t address);

#endif
