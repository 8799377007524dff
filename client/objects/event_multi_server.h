/*
 * client/objects/event_multi_server.h - a stream of one server waits for an event of another.
 */
#ifndef CK_CLIENT_OBJECTS_EVENT_MULTI_SERVER_H
#define CK_CLIENT_OBJECTS_EVENT_MULTI_SERVER_H

#include "client/link/client.h"

/* Have @stream (NULL: legacy) of @context wait for the last record of @e, which is another
 * server's. */
CUresult ckc_event_wait_between(struct ckc_context *context, struct ckc_stream *stream,
				struct ckc_event *e);

#endif
