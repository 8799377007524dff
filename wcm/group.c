/*
 * wcm/group.c - groups of ranks: joining, collective steps, leaving.
 *
 * No call waits for a rank longer than the group's time-out. A rank that leaves does not wait for
 * the others' calls: it releases memory that it has lent when the meeting place reports that no
 * rank uses it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "util/env.h"
#include "util/log.h"
#include "util/util.h"
#include "wcm/lib.h"
#include "wcm/message.h"
#include "util/until.h"
#include "util/wait.h"

CK_LOG_DEFINE("wcm");

static pthread_mutex_t groups_lock = PTHREAD_MUTEX_INITIALIZER;
static wcm_group *groups;
static wcm_group *first; /* the process's current one */
static _Thread_local wcm_group *own;

/* --- which groups there are */

/* Lock held. */
static bool known(const wcm_group *g)
{
	const wcm_group *at = groups;

	while (at && at != g)
		at = at->next;
	return g && at;
}

bool ck_wcm_group_ok(const wcm_group *g)
{
	bool ok;

	pthread_mutex_lock(&groups_lock);
	ok = known(g);
	pthread_mutex_unlock(&groups_lock);
	return ok;
}

static void enlist(wcm_group *g)
{
	pthread_mutex_lock(&groups_lock);
	g->next = groups;
	groups = g;
	if (!first)
		first = g;
	pthread_mutex_unlock(&groups_lock);
	own = g;
}

/* False: it was none. */
static bool strike(wcm_group *g)
{
	wcm_group **at = &groups;
	bool found;

	pthread_mutex_lock(&groups_lock);
	found = known(g);
	if (found) {
		while (*at != g)
			at = &(*at)->next;
		*at = g->next;
		if (first == g)
			first = NULL;
	}
	pthread_mutex_unlock(&groups_lock);
	return found;
}

wcm_group *wcm_current(void)
{
	wcm_group *found;

	pthread_mutex_lock(&groups_lock);
	found = known(own) ? own : first;
	pthread_mutex_unlock(&groups_lock);
	return found;
}

void wcm_set_current(wcm_group *g)
{
	own = g;
}

int wcm_rank(const wcm_group *g)
{
	return ck_wcm_group_ok(g) ? g->rank : WCM_EINVAL;
}

int wcm_size(const wcm_group *g)
{
	return ck_wcm_group_ok(g) ? g->size : WCM_EINVAL;
}

int wcm_device(const wcm_group *g)
{
	return ck_wcm_group_ok(g) ? g->device : WCM_EINVAL;
}

int wcm_backing_of(const wcm_group *g)
{
	return ck_wcm_group_ok(g) ? g->backing : WCM_EINVAL;
}

/* --- contexts */

int ck_wcm_enter(const wcm_group *g)
{
	return ck_wcm_status_of(g->driver->cuCtxPushCurrent_v2(g->context), "cuCtxPushCurrent");
}

void ck_wcm_leave(const wcm_group *g)
{
	CUcontext context;

	g->driver->cuCtxPopCurrent_v2(&context);
}

static int choose_device(wcm_group *g, int wanted)
{
	CUdevice current;

	if (wanted != WCM_ANY_DEVICE)
		g->device = wanted;
	else if (g->driver->cuCtxGetDevice(&current) == CUDA_SUCCESS)
		g->device = current;
	else
		g->device = g->rank % g->driver->device_count;
	return g->device >= 0 && g->device < g->driver->device_count ? WCM_OK : WCM_EINVAL;
}

/* --- what the meeting place tells; in the link's thread */

static struct ck_wcm_kept *take_kept(wcm_group *g, uint64_t number)
{
	struct ck_wcm_kept **at = &g->kept, *k;

	pthread_mutex_lock(&g->lock);
	while (*at && (*at)->number != number)
		at = &(*at)->next;
	k = *at;
	if (k) {
		*at = k->next;
		g->busy++;
	}
	pthread_mutex_unlock(&g->lock);
	return k;
}

static void give_back(wcm_group *g, struct ck_wcm_kept *k)
{
	if (ck_wcm_enter(g) == WCM_OK) {
		ck_wcm_piece_close(g, &k->piece);
		ck_wcm_leave(g);
	}
	free(k);
	pthread_mutex_lock(&g->lock);
	g->busy--;
	ck_cond_broadcast(&g->changed);
	pthread_mutex_unlock(&g->lock);
}

static void on_released(void *data, uint64_t number, uint32_t lost)
{
	struct ck_wcm_kept *k = take_kept(data, number);

	if (lost)
		ck_info("memory is freed that ranks 0x%x had not released: they have ended", lost);
	if (k)
		give_back(data, k);
}

static void on_lost(void *data, uint32_t ranks)
{
	wcm_group *g = data;

	pthread_mutex_lock(&g->lock);
	if (ranks >> g->rank & 1)
		g->over = true;
	g->lost |= ranks & ~(1u << g->rank);
	ck_cond_broadcast(&g->changed);
	pthread_mutex_unlock(&g->lock);
}

static const struct ck_wcm_link_ops link_ops = {on_released, on_lost};

void ck_wcm_give_up(wcm_group *g, uint64_t number, uint32_t mask, struct ck_wcm_piece *piece)
{
	struct ck_wcm_kept *k = calloc(1, sizeof(*k));

	if (k) { /* else the piece is never given back, which harms no other rank */
		k->number = number;
		k->piece = *piece;
		pthread_mutex_lock(&g->lock);
		k->next = g->kept;
		g->kept = k;
		pthread_mutex_unlock(&g->lock);
	}
	piece->how = CK_WCM_NONE;
	ck_wcm_link_done(g->link, number, mask);
}

/* --- coming and going */

static unsigned int wanted_timeout(const wcm_opts *opts)
{
	long seconds = ck_env_long("CRICKET_WCM_TIMEOUT");

	if (opts->timeout_ms)
		return opts->timeout_ms;
	return (unsigned int)ck_min(ck_max(seconds, 1l), 1000000l) * 1000;
}

/* The device, its context, and the meeting place. */
static int join(wcm_group *g, const wcm_opts *opts)
{
	char name[WCM_GROUP_NAME_MAX];
	int status = choose_device(g, opts->device), ret;

	if (status == WCM_OK)
		status = ck_wcm_place(opts->group, name);
	if (status == WCM_OK)
		status = ck_wcm_status_of(
			g->driver->cuDevicePrimaryCtxRetain(&g->context, g->device),
			"cuDevicePrimaryCtxRetain");
	if (status != WCM_OK)
		return status;
	if (g->rank == 0) {
		ret = ck_wcm_meet_open(name, g->size, g->timeout_ms, &g->meet);
		if (ret < 0) {
			ck_err("group %s: %s", name, strerror(-ret));
			return ret == -EADDRINUSE ? WCM_EBUSY : WCM_EIO;
		}
	}
	return ck_wcm_link_open(name, g->rank, g->size, g->timeout_ms, &link_ops, g, &g->link);
}

static void group_free(wcm_group *g)
{
	ck_wcm_link_close(g->link);
	if (g->context)
		g->driver->cuDevicePrimaryCtxRelease_v2(g->device);
	ck_cond_destroy(&g->changed);
	pthread_mutex_destroy(&g->lock);
	free(g);
}

static wcm_group *group_new(const struct ck_wcm_driver *driver, int rank, int size,
			    unsigned int timeout_ms)
{
	wcm_group *g = calloc(1, sizeof(*g));

	if (!g)
		return NULL;
	g->driver = driver;
	g->rank = rank;
	g->size = size;
	g->timeout_ms = timeout_ms;
	pthread_mutex_init(&g->lock, NULL);
	return g;
}

/* Until nothing of ours is with other ranks any more, or the time is up. */
static void wait_for_kept(wcm_group *g)
{
	const struct timespec until =
		ck_until((uint64_t)(g->timeout_ms / 1000 + 1) * 1000 * CK_NS_PER_MS);

	pthread_mutex_lock(&g->lock);
	while (g->busy || (g->kept && !g->over)) {
		if (ck_cond_timedwait_with(&g->changed, &g->lock, &until) == ETIMEDOUT)
			break;
	}
	pthread_mutex_unlock(&g->lock);
}

/*
 * Without the meeting place there is no report that memory is unused. Release the memory of this
 * rank now, and never the memory that other ranks use.
 */
static void end_kept(wcm_group *g)
{
	struct ck_wcm_kept *k;
	bool inside = g->kept && ck_wcm_enter(g) == WCM_OK;

	while ((k = g->kept) != NULL) {
		g->kept = k->next;
		if (!g->over)
			ck_warn("a chunk is left allocated: other ranks have not freed it");
		else if (inside)
			ck_wcm_piece_close(g, &k->piece);
		free(k);
	}
	if (inside)
		ck_wcm_leave(g);
}

int wcm_init(const wcm_opts *given, int rank, int size, wcm_group **group)
{
	const struct ck_wcm_driver *driver;
	wcm_opts opts = {.device = WCM_ANY_DEVICE};
	wcm_group *g;
	int status, wanted;

	if (given)
		opts = *given;
	wanted = ck_wcm_backing_wanted(&opts);
	status = rank == -1 && size == 0 ? ck_wcm_place_rank(&rank, &size) : WCM_OK;
	if (!group || status != WCM_OK || wanted < 0 || size < 1 || size > WCM_RANKS_MAX ||
	    rank < 0 || rank >= size)
		return WCM_EINVAL;
	driver = ck_wcm_driver();
	if (!driver)
		return WCM_ENODRIVER;
	g = group_new(driver, rank, size, wanted_timeout(&opts));
	if (!g)
		return WCM_ENOMEM;
	status = join(g, &opts);
	if (status == WCM_OK)
		status = ck_wcm_backing_choose(g, wanted);
	if (g->meet && status == WCM_OK)
		ck_wcm_meet_leave(g->meet);
	else if (g->meet)
		ck_wcm_meet_stop(g->meet);
	if (status != WCM_OK) {
		if (g->link)
			wait_for_kept(g);
		end_kept(g);
		group_free(g);
		return status;
	}
	enlist(g);
	*group = g;
	return WCM_OK;
}

int wcm_finalize(wcm_group *g)
{
	if (!g)
		return WCM_OK;
	if (!strike(g))
		return WCM_EINVAL;
	ck_wcm_memory_free_all(g);
	wait_for_kept(g);
	ck_wcm_kernels_free(g);
	end_kept(g);
	group_free(g);
	return WCM_OK;
}
