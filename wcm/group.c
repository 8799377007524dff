/*
 * wcm/group.c - groups of ranks: joining, collective steps, leaving.
 *
 * No call waits for a rank longer than the group's time-out. A rank that leaves does not wait for
 * the others' calls: it releases memory that it has lent when the meeting place reports that no
 * rank uses it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "util/env.h"
#include "util/log.h"
#include "util/util.h"
#include "wcm/lib.h"
#include "wcm/message.h"

CK_LOG_DEFINE("wcm");

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

/* --- coming and going */

static unsigned int wanted_timeout(const wcm_opts *opts)
{
	long seconds = ck_env_word_number("CRICKET_WCM", "timeout");

	if (opts->timeout_ms)
		return opts->timeout_ms;
	return (unsigned int)ck_min(ck_max(seconds, 1l), 1000000l) * 1000;
}

/* The device, its context, and the meeting place. */
static int join_group(wcm_group *g, const wcm_opts *opts)
{
	char name[WCM_GROUP_NAME_MAX];
	int status = choose_device(g, opts->device), ret;

	if (status == WCM_OK)
		status = ck_wcm_rank_address(opts->group, name);
	if (status == WCM_OK)
		status = ck_wcm_status_of(
			g->driver->cuDevicePrimaryCtxRetain(&g->context, g->device),
			"cuDevicePrimaryCtxRetain");
	if (status != WCM_OK)
		return status;
	if (g->rank == 0) {
		ret = ck_wcm_rendezvous_open(name, g->size, g->timeout_ms, &g->meet);
		if (ret < 0) {
			ck_err("group %s: %s", name, strerror(-ret));
			return ret == -EADDRINUSE ? WCM_EBUSY : WCM_EIO;
		}
	}
	return ck_wcm_link_open(name, g->rank, g->size, g->timeout_ms, &ck_wcm_released_ops, g,
				&g->link);
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

static void log_warning(const char *line)
{
	ck_warn("%s", line);
}

static void check_environment(void)
{
	ck_env_check_lists(CK_ENV_WCM, log_warning);
}

int wcm_init(const wcm_opts *given, int rank, int size, wcm_group **group)
{
	static pthread_once_t checked = PTHREAD_ONCE_INIT;
	const struct ck_wcm_driver *driver;
	wcm_opts opts = {.device = WCM_ANY_DEVICE};
	wcm_group *g;
	int status, wanted;

	pthread_once(&checked, check_environment);
	if (given)
		opts = *given;
	wanted = ck_wcm_backing_wanted(&opts);
	status = rank == -1 && size == 0 ? ck_wcm_rank_address_rank(&rank, &size) : WCM_OK;
	if (!group || status != WCM_OK || wanted < 0 || size < 1 || size > WCM_RANKS_MAX ||
	    rank < 0 || rank >= size)
		return WCM_EINVAL;
	driver = ck_wcm_driver();
	if (!driver)
		return WCM_ENODRIVER;
	g = group_new(driver, rank, size, wanted_timeout(&opts));
	if (!g)
		return WCM_ENOMEM;
	status = join_group(g, &opts);
	if (status == WCM_OK)
		status = ck_wcm_backing_choose(g, wanted);
	if (g->meet && status == WCM_OK)
		ck_wcm_rendezvous_leave(g->meet);
	else if (g->meet)
		ck_wcm_rendezvous_stop(g->meet);
	if (status != WCM_OK) {
		if (g->link)
			ck_wcm_released_wait(g);
		ck_wcm_released_end(g);
		group_free(g);
		return status;
	}
	ck_wcm_group_register(g);
	*group = g;
	return WCM_OK;
}

int wcm_finalize(wcm_group *g)
{
	if (!g)
		return WCM_OK;
	if (!ck_wcm_group_unregister(g))
		return WCM_EINVAL;
	ck_wcm_memory_free_all(g);
	ck_wcm_released_wait(g);
	ck_wcm_kernels_free(g);
	ck_wcm_released_end(g);
	group_free(g);
	return WCM_OK;
}
