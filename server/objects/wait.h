/*
 * server/objects/wait.h - waits of the program.
 */
#ifndef CK_SERVER_OBJECTS_WAIT_H
#define CK_SERVER_OBJECTS_WAIT_H

#include <stdbool.h>
#include <stdint.h>

#include "cuda/types.h"

struct cks_request;

/* Wait for all work of the stream with id @stream, or of the current context if @whole. */
CUresult cks_wait_for_work(struct cks_request *q, uint64_t stream, bool whole);

#endif
