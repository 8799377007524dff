/*
 * client/memory/adopt.h - memory that the program has registered becomes shared with the worker: its pages
 * are exchanged for pages of the shared file, with what is in them, and back.
 */
#ifndef CK_CLIENT_MEMORY_ADOPT_H
#define CK_CLIENT_MEMORY_ADOPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuda/types.h"

/*
 * Exchange the pages of [address, address+size) and have the worker register these bytes, in
 * context @ctx. NOT_SUPPORTED: it is not the program's own private memory, the address is in use
 * in the worker, or there is no file; nothing has changed then.
 */
CUresult ck_adopt(uint64_t ctx, uint64_t address, size_t size);

/* The pages are the program's alone again. Nothing of the device uses them any more. */
void ck_adopt_end(uint64_t ctx, uint64_t address);

/*
 * In the handler of a fault at @address: it may be due to pages that are being exchanged. True: to
 * be tried again, after a moment that has been waited here.
 */
bool ck_adopt_retry(uint64_t address);

#endif
