/*
 * server/policy/meter.h - counts the device memory of this worker's session, in the account of its
 * identity, and refuses memory beyond the identity's quota.
 *
 * A client may ask for a smaller quota for itself; that one needs no account.
 *
 * The meter stands before the driver: it takes the place of those functions in ck_driver that
 * allocate, free and measure device memory. So it sees all memory, whoever asks for it, and the
 * worker has no other path to the driver. Not counted: contexts as they begin and code of modules,
 * memory that pools keep without need, memory that launches of a graph allocate, and memory that
 * another session has allocated.
 */
#ifndef CK_SERVER_POLICY_METER_H
#define CK_SERVER_POLICY_METER_H

#include <stdbool.h>
#include <stdint.h>

#include "cuda/types.h"

struct cks_terms;

/* Count in @seat of the account in file @fd, which is taken, from now on; charges so far move to
 * it. -errno. */
int cks_meter_account(int fd, uint32_t seat);

/* The session's devices are on other GPUs (device_map.h): its memory counts there, also if that is
 * more than the account allows. */
void cks_meter_moved(void);

/* The terms of the account; without one nothing is set. */
void cks_meter_terms(struct cks_terms *out);

/* Is @pid the process of a session of the same identity? Without an account none is known. */
bool cks_meter_is_own(unsigned int pid);

/* Wrap the driver's allocation calls if there is an account, or a limit @wish: the most bytes of
 * each device that the session itself wants; 0: none. Once the driver is open, and before the
 * session's threads run. */
void cks_meter_begin(uint64_t wish);

/* Bytes of the current device that the session can take without others making way. */
size_t cks_meter_free(void);

/* A context is about to be made; false: the identity may have no more. And one has ended, or was
 * not made. */
bool cks_meter_context_begin(void);
void cks_meter_context_end(void);
/* The same of the primary context of @device, which counts once however often it is retained. */
bool cks_meter_primary_begin(CUdevice device);
void cks_meter_primary_end(CUdevice device);

/* Context @context, which may have the handle of a later one, has ended: the memory for its limits
 * is free. */
void cks_meter_limits_end(CUcontext context);

/* From now on the session's memory leaves its devices for a while, or returns; or no longer. Its
 * part of the quota stays meanwhile. No other thread allocates. */
void cks_meter_hold(bool held);

/* The memory at @address has ended with its context. */
void cks_meter_lost(CUdeviceptr address);

#endif
