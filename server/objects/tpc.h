/*
 * server/objects/tpc.h - the GPC of each TPC of a device, which cuBLASLt queries.
 */
#ifndef CK_SERVER_OBJECTS_TPC_H
#define CK_SERVER_OBJECTS_TPC_H

#include <stddef.h>

#include "cuda/types.h"

#define CK_TPC_MAX 4096

struct cks_tpc {
	size_t count;			 /* TPCs; 0: the driver does not report them */
	unsigned char gpc[CK_TPC_MAX];	 /* per TPC: its GPC */
	unsigned char index[CK_TPC_MAX]; /* per TPC: its index in the GPC */
};

/*
 * The map of @device, which must have a context current in this thread. NOT_SUPPORTED: the driver
 * or this build cannot report it; INVALID_CONTEXT: no context of that device is current.
 */
CUresult cks_tpc_map(CUdevice device, struct cks_tpc *out);

#endif
