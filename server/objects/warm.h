/*
 * server/objects/warm.h - primary contexts that stand before a client asks for them.
 */
#ifndef CK_SERVER_OBJECTS_WARM_H
#define CK_SERVER_OBJECTS_WARM_H

#include <stdbool.h>

#include "cuda/types.h"

/* Make the primary contexts of @devices, "0,1" or "none", and hold them. A device that is not
 * there, has no room, or is in a compute mode of one process, is left out. */
void ck_warm_up(const char *devices);

/* Whether all that is held still works. */
bool ck_warm_sound(void);

/* The context that is held of @device becomes the caller's, as if it had retained it; false:
 * none is. */
bool ck_warm_take(CUdevice device, CUcontext *context);

/* Give up what is held of @device, or of all with CK_WARM_ALL; false: nothing was. */
#define CK_WARM_ALL (-1)
bool ck_warm_drop(CUdevice device);

/* Give up after a while what the client has not taken, in a thread. -errno. */
int ck_warm_expire(void);

#endif
