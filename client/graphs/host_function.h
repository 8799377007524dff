/*
 * client/graphs/host_function.h - the application's functions in streams and graphs.
 */
#ifndef CK_CLIENT_GRAPHS_HOST_FUNCTION_H
#define CK_CLIENT_GRAPHS_HOST_FUNCTION_H

#include <stdbool.h>
#include <stdint.h>

#include "client/wire/client.h"

/* A host function. Persistent: may run any number of times and is kept; the same pair of function
 * and data then has the same id. Else it is forgotten when it has run. */
CUresult ck_host_function_register(CUhostFn fn, void *data, bool persistent, uint64_t *id);

#endif
