/*
 * server/session/device_map.c - see device_map.h.
 */
#include <string.h>

#include "cricket.h"
#include "gen/driver.h"
#include "server/session/driver.h"
#include "server/session/locks.h"
#include "server/session/device_map.h"
#include "util/util.h"

/* Of the process, which has one session. */
static struct {
	struct ck_mutex lock;
	bool known[CK_MAX_DEVICES];
	unsigned char first[CK_MAX_DEVICES][16]; /* before all moves */
	struct cks_device_map all;		 /* moves, together */
} state = {.lock = CK_MUTEX(CK_RANK_DEVICE_MAP)};

/* Where @map lead from @uuid; NULL: nowhere. */
static const unsigned char *goal_of(const struct cks_device_map *map, const unsigned char uuid[16])
{
	for (uint32_t i = 0; i < ck_min(map->count, (uint32_t)CK_MAP_GPUS); i++) {
		if (memcmp(map->pairs[i].was, uuid, 16) == 0)
			return map->pairs[i].is;
	}
	return NULL;
}

void cks_device_map_note(int device, const unsigned char uuid[16])
{
	if (device < 0 || device >= CK_MAX_DEVICES)
		return;
	ck_lock(&state.lock);
	if (!state.known[device] && state.all.count == 0) {
		memcpy(state.first[device], uuid, sizeof(state.first[device]));
		state.known[device] = true;
	}
	ck_unlock(&state.lock);
}

static bool get_uuid(int device, unsigned char uuid[16])
{
	CUuuid answer;

	if ((!ck_driver.cuDeviceGetUuid_v2 || ck_driver.cuDeviceGetUuid_v2(&answer, device)) &&
	    (!ck_driver.cuDeviceGetUuid || ck_driver.cuDeviceGetUuid(&answer, device)))
		return false;
	memcpy(uuid, answer.bytes, 16);
	return true;
}

bool cks_device_map_find(int device, unsigned char uuid[16])
{
	const unsigned char *goal;
	bool known;

	if (device < 0 || device >= CK_MAX_DEVICES)
		return false;
	ck_lock(&state.lock);
	known = state.known[device];
	if (known) {
		goal = goal_of(&state.all, state.first[device]);
		memcpy(uuid, goal ? goal : state.first[device], 16);
	}
	ck_unlock(&state.lock);
	if (known)
		return true;
	if (!get_uuid(device, uuid))
		return false;
	cks_device_map_note(device, uuid);
	return true;
}

void cks_device_map_move(const struct cks_device_map *step)
{
	ck_lock(&state.lock);
	if (state.all.count == 0) {
		state.all = *step;
		state.all.count = ck_min(step->count, (uint32_t)CK_MAP_GPUS);
	} else {
		for (uint32_t i = 0; i < state.all.count; i++) {
			const unsigned char *goal = goal_of(step, state.all.pairs[i].is);

			if (goal)
				memcpy(state.all.pairs[i].is, goal, 16);
		}
	}
	ck_unlock(&state.lock);
}

bool cks_device_map_now(const unsigned char uuid[16], unsigned char now[16])
{
	const unsigned char *goal;

	ck_lock(&state.lock);
	goal = goal_of(&state.all, uuid);
	if (goal)
		memcpy(now, goal, 16);
	ck_unlock(&state.lock);
	return goal && memcmp(now, uuid, 16) != 0;
}

bool cks_device_map_before(const unsigned char uuid[16], unsigned char was[16])
{
	bool found = false;

	ck_lock(&state.lock);
	for (uint32_t i = 0; i < state.all.count && !found; i++) {
		found = memcmp(state.all.pairs[i].is, uuid, 16) == 0;
		if (found)
			memcpy(was, state.all.pairs[i].was, 16);
	}
	ck_unlock(&state.lock);
	return found && memcmp(was, uuid, 16) != 0;
}

uint32_t cks_uuid_mark(const unsigned char uuid[16])
{
	uint32_t mark = 2166136261u; /* FNV-1a */

	for (size_t i = 0; i < 16; i++)
		mark = (mark ^ uuid[i]) * 16777619u;
	return mark ? mark : 1;
}
