/*
 * client/graphs/host_function.h - host functions of the application in streams and graphs.
 */
#ifndef CK_CLIENT_GRAPHS_HOST_FUNCTION_H
#define CK_CLIENT_GRAPHS_HOST_FUNCTION_H

#include <stdbool.h>
#include <stdint.h>

#include "client/link/client.h"

/* Register a host function. A persistent one may run any number of times and is kept; an equal pair
 * of function and data gets the same id. Otherwise it is forgotten after it has run. */
CUresult ckc_host_function_register(CUhostFn fn, void *data, bool persistent, uint64_t *id);

#endif
