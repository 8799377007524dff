/*
 * server/evacuation/pieces.h - shared by the files of evacuation.h: which memory can move.
 */
#ifndef CK_SERVER_EVACUATION_PIECES_H
#define CK_SERVER_EVACUATION_PIECES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuda/types.h"

struct cks_session;

/* A piece of device memory that moves, with all that it needs to be made again. */
struct cks_evacuated {
	CUdeviceptr at;
	size_t size;
	CUdevice device;
	uint64_t writers, readers; /* a bit per device: who may use it */
	CUmemAllocationProp prop;
	CUmemGenericAllocationHandle handle; /* 0: released, only the mapping keeps it */
	uint64_t id;   /* under which its program has the handle; 0: none, or a lease's */
	size_t offset; /* in the pool */
	bool leased;
};

/* All that can move, by address; the caller frees it. -ENOMEM. If a thread is inside of the gate,
 * only leased memory stays as it is, while the leases' lock is held. */
int cks_evacuation_list(struct cks_session *session, struct cks_evacuated **list, size_t *count);

/* @piece has new memory: note its handle, or release that if the program has released it. */
void cks_evacuated_renew(struct cks_session *session, const struct cks_evacuated *piece);

#endif
