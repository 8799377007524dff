/*
 * server/objects/warm.h - primary contexts made before a client needs them.
 */
#ifndef CK_SERVER_OBJECTS_WARM_H
#define CK_SERVER_OBJECTS_WARM_H

#include <stdbool.h>

#include "cuda/types.h"
#include "server/session/gate.h"

/* Make and hold the primary contexts of @devices, "0,1" or "none". Skips a device that does not
 * exist, has no memory left, or is in exclusive mode. */
void cks_warm_up(const char *devices);

/* Do all held contexts still work? */
bool cks_warm_sound(void);

/* Hand the held context of @device to the caller, as if it had retained it; false: none is held. */
bool cks_warm_take(CUdevice device, CUcontext *context);

/* Give up the held context of @device, or all with CK_WARM_ALL; false: none was held. */
#define CK_WARM_ALL (-1)
bool cks_warm_drop(CUdevice device);

/* After a while, give up the contexts that the client has not taken, in a thread. -errno. */
int cks_warm_expire(struct cks_gate *gate);

#endif
