/*
 * server/processes/snapshot.h - what a client wants to know of the devices, in one piece.
 */
#ifndef CK_SERVER_PROCESSES_SNAPSHOT_H
#define CK_SERVER_PROCESSES_SNAPSHOT_H

#include "cricket.h"
#include "cuda/types.h"

struct ck_modcache;

/*
 * Fill the driver's version, devices and peer table of @res from the driver, which cuInit has
 * been called for. No context is made. The memory belongs to @res (xdr_free).
 */
CUresult ck_snapshot_fill(ck_hello_res *res);

/* Add the names of the images that @cache lists, for the session of @res (rpc/alias.h). -ENOMEM. */
int ck_snapshot_modules(ck_hello_res *res, struct ck_modcache *cache);

#endif
