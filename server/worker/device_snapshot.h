/*
 * server/worker/device_snapshot.h - all device facts for a client, in one structure.
 */
#ifndef CK_SERVER_WORKER_DEVICE_SNAPSHOT_H
#define CK_SERVER_WORKER_DEVICE_SNAPSHOT_H

#include "cricket.h"
#include "cuda/types.h"
#include "util/hash.h"

struct cks_modcache;

/*
 * Fill the driver version, devices and peer table of @res from the driver, after cuInit. Makes no
 * context. The memory belongs to @res (xdr_free).
 */
CUresult cks_snapshot_fill(ck_hello_res *res);

/* Add the names of the images that @cache lists, for the session of @res (rpc/image_alias.h).
 * -ENOMEM. */
int cks_snapshot_modules(ck_hello_res *res, struct cks_modcache *cache);

/*
 * The digest of all that could change the driver's answers about a kernel: its library, by the
 * file, and the devices in @res. On a failure it is like no other, so that nothing is recalled.
 */
void cks_snapshot_world(const ck_hello_res *res, struct ck_hash *world);

#endif
