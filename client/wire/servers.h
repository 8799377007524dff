/*
 * client/wire/servers.h - connecting to the servers of REMOTE_GPU_ADDRESS.
 */
#ifndef CK_CLIENT_WIRE_SERVERS_H
#define CK_CLIENT_WIRE_SERVERS_H

#include "cuda/types.h"

/* Connect to all servers, or to those that CRICKET_POOL asks for. Returns 0 or the error for
 * cuInit. */
CUresult ckc_servers_open(void);

#endif
