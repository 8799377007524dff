/*
 * server/objects/context.h - the end of a context.
 */
#ifndef CK_SERVER_OBJECTS_CONTEXT_H
#define CK_SERVER_OBJECTS_CONTEXT_H

#include <stdint.h>

#include "cuda/types.h"

struct cks_session;

/* Before the driver destroys @context, the client's @id: wait for its work, and drop all references
 * to it. */
void cks_context_retire(struct cks_session *session, uint64_t id, CUcontext context);

/* The session's devices are on other GPUs (device_map.h): note that for the supervisor. */
void cks_context_moved(struct cks_session *session);

#endif
