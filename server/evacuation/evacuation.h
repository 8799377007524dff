/*
 * server/evacuation/evacuation.h - the session's device memory moves into host memory, and back to
 * the same addresses.
 *
 * Only memory that the session owns moves: units of leases, and memory that its program has mapped
 * as a whole. The addresses stay reserved. The rest is the driver's, which moves it by its
 * checkpoint.
 *
 * While memory is away, the gate is closed, and no work is on the GPU.
 */
#ifndef CK_SERVER_EVACUATION_EVACUATION_H
#define CK_SERVER_EVACUATION_EVACUATION_H

#include <stddef.h>
#include <stdint.h>

#include "cuda/types.h"
#include "server/session/session.h"

struct cks_evacuation;
struct cks_pool_saved;
struct cks_pool_table;

int cks_evacuation_create(struct cks_evacuation **evacuation);
void cks_evacuation_destroy(struct cks_evacuation *evacuation); /* accepts NULL */

/* Move as much memory as fits into @room bytes of host memory. Memory that cannot move stays.
 * @begins: called before the first of so many bytes moves; the GPU gets its memory back batch by
 * batch. @saves: the session is written into files and goes on, so only changed bytes are copied,
 * and the rest is in host memory from the last time. */
void cks_evacuate(struct cks_session *session, uint64_t room, bool saves,
		  void (*begins)(uint64_t bytes));
/* Before that, while the program runs: copy most of the changed bytes. Returns the records of the
 * pool, until memory moves the next time; NULL: nothing. */
const struct cks_pool_saved *cks_evacuation_round(struct cks_session *session, uint64_t room);

/* Move all of it back. After an error all of it is still away: OUT_OF_MEMORY: try again later.
 * @leaving: bytes of memory that another session gives back meanwhile, which this one takes as soon
 * as they are free; 0: it takes memory only if all of it is free. */
CUresult cks_evacuation_return(struct cks_session *session, uint64_t leaving);

/* Bytes that are away, by device. No other thread moves memory. */
void cks_evacuation_by_device(const struct cks_session *session, uint64_t bytes[CK_NOTED_GPUS]);
/* Bytes that are away, and bytes of host memory that the session has for such memory, which it
 * keeps for the next time. From any thread. */
uint64_t cks_evacuation_away(const struct cks_session *session);
uint64_t cks_evacuation_pool(const struct cks_session *session);

/* Where another process finds the moved memory; NULL: there is none. When it has saved it: drop the
 * pages. Until it has filled them again, memory cannot return. */
const struct cks_pool_table *cks_evacuation_table(struct cks_session *session);
void cks_evacuation_drop(struct cks_session *session);
/* Its records, if it was saved, else NULL. Its file, which came back, or, @shared, which the
 * sessions have whose copy this one is: it is given back when the memory has returned. */
const struct cks_pool_saved *cks_evacuation_saved(struct cks_session *session);
void cks_evacuation_take(struct cks_session *session, int fd, bool shared);

/* Give the host memory back, if no memory is away. The caller is inside of the gate. */
void cks_evacuation_trim(struct cks_session *session);

#endif
