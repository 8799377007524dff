/*
 * client/memory/reservation.h - addresses that the program has reserved.
 */
#ifndef CK_CLIENT_MEMORY_RESERVATION_H
#define CK_CLIENT_MEMORY_RESERVATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* May memory be mapped at [address, address+size)? It must lie within one reservation, as far as
 * the client knows. */
bool ckc_reservation_holds(uint64_t address, size_t size);

#endif
