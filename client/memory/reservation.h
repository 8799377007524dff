/*
 * client/memory/reservation.h - addresses that the program has reserved.
 */
#ifndef CK_CLIENT_MEMORY_RESERVATION_H
#define CK_CLIENT_MEMORY_RESERVATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuda/types.h"

/* May memory be mapped at [address, address+size)? It must lie within one reservation, as far as
 * the client knows. */
bool ckc_reservation_holds(uint64_t address, size_t size);

/*
 * Reserve @size bytes, whole units of 2 MiB, here and in the worker, for the memory of @device that
 * the client lays out; 0: no room. *@offered: they begin with the lease that the server offered.
 */
uint64_t ckc_reservation_heap(uint64_t ctx, CUdevice device, size_t size, bool *offered);

#endif
