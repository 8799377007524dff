/*
 * server/objects/tpc.h - which GPC each TPC of a device belongs to, as cuBLASLt asks for it.
 */
#ifndef CK_SERVER_OBJECTS_TPC_H
#define CK_SERVER_OBJECTS_TPC_H

#include <stddef.h>

#include "cuda/types.h"

#define CK_TPC_MAX 4096

struct ck_tpc {
	size_t count; /* TPCs; 0: the driver does not tell */
	unsigned char gpc[CK_TPC_MAX];	 /* per TPC: its GPC */
	unsigned char index[CK_TPC_MAX]; /* per TPC: its place inside the GPC */
};

/*
 * The map of @device, a context of which is current in this thread. NOT_SUPPORTED: the driver (or
 * this build) does not tell; INVALID_CONTEXT: no context of that device is current.
 */
CUresult ck_tpc_map(CUdevice device, struct ck_tpc *out);

#endif
