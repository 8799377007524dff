/*
 * command/servers/route.h - which way a connection takes from this host.
 */
#ifndef CK_COMMAND_SERVERS_ROUTE_H
#define CK_COMMAND_SERVERS_ROUTE_H

#include <stdbool.h>
#include <stddef.h>

/* Describe connected socket @fd in @out of @size bytes, as in "10.0.0.2 to 10.0.0.9 by eth0, MTU
 * 1500". Returns whether both ends are on this host. */
bool ckx_route(int fd, char *out, size_t size);

#endif
