/*
 * command/check/probe.h - try a server through the client library, as a program would.
 */
#ifndef CK_COMMAND_CHECK_PROBE_H
#define CK_COMMAND_CHECK_PROBE_H

#include <jansson.h>

#include "command/config/server.h"

/*
 * In a process of its own: load the client, initialise, and copy to and from the first GPU. The
 * result has "error", a CUresult; "said", the client's log; and if there is no error "driver",
 * "devices" (name, memory, free), "up" and "down" (bytes/s). NULL: the process failed.
 */
json_t *ckx_probe(const struct ckx_server *server);

#endif
