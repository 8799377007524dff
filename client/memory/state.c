/*
 * client/memory/state.c - the memory of a session; see client/memory/state.h.
 */
#include "client/memory/state.h"
#include "client/link/hooks.h"
#include "util/env.h"

static void init_memory(void *part)
{
	*(struct ckc_memory *)part = (struct ckc_memory){
		.busy = {.lock = CK_MUTEX(CK_RANK_BUSY)},
		.allocations = {.lock = CK_MUTEX(CK_RANK_ALLOCATIONS)},
		.host_map_lock = CK_MUTEX(CK_RANK_HOST_MAP),
		.pinned = {.lock = CK_MUTEX(CK_RANK_PINNED), .file = {.fd = -1}},
		.reservations = {.lock = CK_MUTEX(CK_RANK_RESERVATIONS)},
		.arena = {.off = ck_env_word_number("CRICKET_DEBUG", "arena") == 0,
			  .lock = CK_MUTEX(CK_RANK_ARENA)},
		.host_pools = {.lock = CK_MUTEX(CK_RANK_HOST_POOLS)},
		.ipc = {.lock = CK_MUTEX(CK_RANK_IPC)},
		.textures = {.lock = CK_MUTEX(CK_RANK_TEXTURES)},
		.tensor_maps = {.lock = CK_MUTEX(CK_RANK_TENSOR_MAPS)},
	};
}
CK_CLIENT_PART(memory, struct ckc_memory, init_memory);
