/*
 * server/helpers/checkpoint_in.c - the way back to a GPU, the same one or another; see
 * checkpoint.h.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cuda/nvml.h"
#include "gen/driver.h"
#include "gen/nvml_server.h"
#include "server/helpers/checkpoint_part.h"
#include "server/helpers/gpu.h"
#include "server/nvml/nvml.h"
#include "server/policy/account.h"
#include "util/until.h"
#include "util/util.h"
#include "util/uuid.h"

#define CK_MAP_VERSION 13000 /* CUDA, from which on a restore takes a map */

/* --- where to */

static bool plan_gpus(struct cks_checkpoint_way *w, const char *goal, struct cks_why *why)
{
	const struct cks_gpu_wish wish = {.there = w->there, .marks = w->marks, .goal = goal};

	if (cks_gpu_plan_make(&w->here, &wish, &w->plan, why) < 0)
		return false;
	cks_gpu_plan_fill_map(&w->plan, &w->here, &w->map);
	return true;
}

void cks_checkpoint_bytes(const char *text, uint64_t bytes[CK_NOTE_GPUS])
{
	char *end;

	memset(bytes, 0, CK_NOTE_GPUS * sizeof(*bytes));
	for (size_t i = 0; i < CK_NOTE_GPUS && *text; i++) {
		bytes[i] = strtoull(text, &end, 10);
		text = *end == ',' ? end + 1 : "";
	}
}

void cks_checkpoint_marks(const char *text, uint32_t marks[CK_NOTE_GPUS])
{
	uint64_t numbers[CK_NOTE_GPUS];

	cks_checkpoint_bytes(text, numbers);
	for (size_t i = 0; i < CK_NOTE_GPUS; i++)
		marks[i] = (uint32_t)numbers[i];
}

bool cks_checkpoint_way(const char *driver, char *const *words, struct cks_checkpoint_way *w,
			struct cks_checkpoint_answer *a)
{
	struct cks_why why;
	bool needed;

	cks_gpu_room_parse(words[0], &w->need);
	cks_checkpoint_marks(words[1], w->marks);
	w->goal = words[2];
	w->there = words[3];
	w->allowed = words[4];
	w->anywhere = strcmp(words[5], "1") == 0;
	w->seat = atol(words[6]);
	w->room_ms = atoi(words[7]);
	needed = w->goal[0] || w->there[0];
	if (!needed && !w->anywhere) {
		unsetenv("CUDA_VISIBLE_DEVICES");
		return true;
	}
	w->planned = cks_gpu_machine(driver, w->allowed, &w->here, &why) == 0 &&
		     plan_gpus(w, w->goal, &why);
	if (!w->planned && needed)
		cks_checkpoint_fail(a, CK_CHECKPOINT_REFUSED, "%.199s", why.text);
	return w->planned || !needed;
}

/* --- conditions on the new GPUs */

static bool has_map(void)
{
	int version = 0;

	return ck_driver.cuDriverGetVersion && !ck_driver.cuDriverGetVersion(&version) &&
	       version >= CK_MAP_VERSION;
}

static bool gpu_reaches(const struct cks_checkpoint_way *w, int from, int to)
{
	int value = 0;

	return ck_driver.cuDeviceCanAccessPeer &&
	       !ck_driver.cuDeviceCanAccessPeer(&value, w->here.gpus[from].ordinal,
						w->here.gpus[to].ordinal) &&
	       value;
}

/* The program may have asked which of its GPUs reach each other. On another machine that is not
 * known. */
static bool keeps_peers(const struct cks_checkpoint_way *w, struct cks_checkpoint_answer *a)
{
	const struct cks_gpu_plan *p = &w->plan;

	for (size_t i = 0; !w->there[0] && i < p->count; i++) {
		for (size_t k = 0; k < p->count; k++) {
			if (i == k || !p->used[i] || !p->used[k] ||
			    gpu_reaches(w, (int)i, (int)k) ==
				    gpu_reaches(w, p->goal[i], p->goal[k]))
				continue;
			cks_checkpoint_fail(
				a, CK_CHECKPOINT_REFUSED,
				"GPUs %d and %d have another kind of peer access than its own",
				p->goal[i], p->goal[k]);
			return false;
		}
	}
	return true;
}

/* The quota of the session's identity on GPU @goal, for its memory on @from. */
static bool has_quota_on(const struct cks_checkpoint_way *w, struct cks_account *account,
			 const unsigned char from[16], int goal, struct cks_checkpoint_answer *a)
{
	const struct cks_machine_gpu *gpu = &w->here.gpus[goal];
	uint64_t own, leaves, limit, used, ignored;
	size_t total = 0;

	if (!ck_driver.cuDeviceTotalMem_v2 || ck_driver.cuDeviceTotalMem_v2(&total, gpu->ordinal))
		return true;
	limit = cks_account_limit(account, total);
	cks_account_look(account, (uint32_t)w->seat, from, &own, &ignored);
	/* its own use there ends in exchange */
	cks_account_look(account, (uint32_t)w->seat, gpu->uuid, &leaves, &used);
	if (limit == CK_ACCOUNT_UNLIMITED || used + own <= limit)
		return true;
	cks_checkpoint_fail(a, CK_CHECKPOINT_REFUSED,
			    "the policy allows %llu MiB on GPU %d, of which %llu MiB are in use, "
			    "and it has %llu MiB",
			    (unsigned long long)limit >> 20, goal, (unsigned long long)used >> 20,
			    (unsigned long long)own >> 20);
	return false;
}

static bool has_quota(const struct cks_checkpoint_way *w, struct cks_checkpoint_answer *a)
{
	struct cks_account *account;
	bool ok = true;

	if (w->seat < 0 || cks_account_view(CK_ACCOUNT_FD, (uint32_t)w->seat, &account) < 0)
		return true;
	for (size_t i = 0; i < w->plan.count && ok; i++) {
		const unsigned char *from = w->plan.there[i];
		int goal = w->plan.goal[i];

		if (w->plan.used[i] && memcmp(from, w->here.gpus[goal].uuid, 16) != 0)
			ok = has_quota_on(w, account, from, goal, a);
	}
	cks_account_unmap(account);
	return ok;
}

/* --- room */

/* NVML's number of the GPU; -1: it does not know it. */
static int nvml_index(const unsigned char uuid[16])
{
	char text[CK_UUID_TEXT];
	unsigned int index;
	nvmlDevice_t device;
	int err;

	ck_uuid_print(uuid, text);
	if (!cks_nvml_begin((void **)&ck_nvml.nvmlDeviceGetHandleByUUID, &err) ||
	    !cks_nvml_begin((void **)&ck_nvml.nvmlDeviceGetIndex, &err) ||
	    ck_nvml.nvmlDeviceGetHandleByUUID(text, &device) ||
	    ck_nvml.nvmlDeviceGetIndex(device, &index) || index >= CK_ROOM_GPUS)
		return -1;
	return (int)index;
}

/* Its need of each GPU, with the map. */
static struct cks_gpu_room need_there(const struct cks_checkpoint_way *w)
{
	struct cks_gpu_room need = w->need;

	if (!w->planned || w->map.count == 0)
		return need;
	memset(need.bytes, 0, sizeof(need.bytes));
	for (uint32_t i = 0; i < w->map.count; i++) {
		int was = nvml_index(w->map.pairs[i].was), is = nvml_index(w->map.pairs[i].is);

		if (was >= 0 && is >= 0 && was < (int)need.count && is < (int)need.count)
			need.bytes[is] = w->need.bytes[was];
	}
	return need;
}

static bool has_room(struct cks_checkpoint_answer *a, const struct cks_checkpoint_way *w)
{
	struct cks_gpu_room room, need = need_there(w);
	char why[sizeof(a->why)];

	cks_gpu_room_read(&room);
	if (cks_gpu_room_suffices(&room, &need, why, sizeof(why)))
		return true;
	cks_checkpoint_fail(a, CK_CHECKPOINT_NO_ROOM, "%s", why);
	return false;
}

/* Find another GPU with room for it. @answer says why its own has none, and still does if there is
 * no other. */
static bool find_elsewhere(struct cks_checkpoint_answer *a, struct cks_checkpoint_way *w)
{
	struct cks_checkpoint_answer try = *a;
	struct cks_why why;
	char goal[24];

	if (!w->anywhere || !w->planned || w->goal[0] || w->need.count == 0 || !has_map())
		return false;
	for (size_t i = 0; i < w->here.visible; i++) {
		snprintf(goal, sizeof(goal), "%zu", i);
		if (plan_gpus(w, goal, &why) && w->map.count > 0 && has_quota(w, &try) &&
		    has_room(&try, w))
			return true;
	}
	plan_gpus(w, "", &why);
	return false;
}

/* The others take no memory meanwhile, and may return some. */
static bool await_room(struct cks_checkpoint_answer *a, struct cks_checkpoint_way *w)
{
	const struct timespec pause = {.tv_nsec = CK_ROOM_PAUSE_MS * CK_NS_PER_MS};
	int64_t until = ck_now_ms() + w->room_ms;

	while (!has_room(a, w) && !find_elsewhere(a, w)) {
		if (ck_now_ms() >= until)
			return false;
		nanosleep(&pause, NULL);
	}
	return true;
}

/* --- the move */

static void restore_process(struct cks_checkpoint_answer *a, int pid,
			    const struct cks_device_map *map)
{
	CUcheckpointGpuPair pairs[CK_MAP_GPUS];
	CUcheckpointRestoreArgs args = {.gpuPairs = pairs, .gpuPairsCount = map->count};
	CUresult err;

	for (uint32_t i = 0; i < map->count; i++) {
		memcpy(pairs[i].oldUuid.bytes, map->pairs[i].was, 16);
		memcpy(pairs[i].newUuid.bytes, map->pairs[i].is, 16);
	}
	/* an older driver goes by the numbers of GPUs */
	err = cks_checkpoint_calls.restore(pid, map->count > 0 && has_map() ? &args : NULL);
	if (!cks_checkpoint_check(a, "cuCheckpointProcessRestore", err) &&
	    err == CUDA_ERROR_OUT_OF_MEMORY)
		a->status = CK_CHECKPOINT_TOO_LATE;
}

static bool may_move(const struct cks_checkpoint_way *w, struct cks_checkpoint_answer *a)
{
	if (!w->planned || w->map.count == 0)
		return true;
	if (w->goal[0] && !has_map()) {
		cks_checkpoint_fail(a, CK_CHECKPOINT_REFUSED,
				    "the driver is too old to move it to another GPU (CUDA 13.0)");
		return false;
	}
	return keeps_peers(w, a) && has_quota(w, a);
}

void cks_checkpoint_in(struct cks_checkpoint_answer *a, int pid, struct cks_checkpoint_way *w)
{
	CUprocessState state;

	a->device = -1;
	if (!cks_checkpoint_state(a, pid, &state))
		return;
	if (state == CU_PROCESS_STATE_CHECKPOINTED) {
		if (!may_move(w, a) || !await_room(a, w))
			return;
		a->status = CK_CHECKPOINT_DONE;
		restore_process(a, pid, &w->map);
		if (a->status != CK_CHECKPOINT_DONE)
			return;
		a->map = w->map;
		if (w->planned && (w->map.count > 0 || w->goal[0]))
			a->device = cks_gpu_plan_place(&w->plan, &w->here);
		state = CU_PROCESS_STATE_LOCKED;
	}
	if (state == CU_PROCESS_STATE_LOCKED)
		cks_checkpoint_check(a, "cuCheckpointProcessUnlock",
				     cks_checkpoint_calls.unlock(pid, NULL));
}
