/*
 * client/objects/state.c - the objects' part of a session; see client/objects/state.h.
 */
#include "client/objects/state.h"
#include "client/link/hooks.h"

static void init_objects(void *part)
{
	*(struct ckc_objects *)part = (struct ckc_objects){
		.devices_lock = CK_MUTEX(CK_RANK_DEVICES),
		.primary_lock = CK_MUTEX(CK_RANK_PRIMARY),
		.usage_lock = CK_MUTEX(CK_RANK_USAGE),
		.callbacks = {.lock = CK_MUTEX(CK_RANK_CALLBACKS), .round = 1},
		.captures = {.lock = CK_MUTEX(CK_RANK_CAPTURES)},
		.times = {.lock = CK_MUTEX(CK_RANK_ELAPSED)},
	};
}
CK_CLIENT_PART(objects, struct ckc_objects, init_objects);
