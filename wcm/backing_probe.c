/*
 * wcm/backing_probe.c - which backing works: found out when the ranks have come together, with a
 * small memory that each writes into and all read.
 */
#include <string.h>

#include "util/env.h"
#include "util/log.h"
#include "wcm/lib.h"

CK_LOG_DEFINE("wcm");

static int read_marks(const wcm_group *g, wcm_t m)
{
	uint32_t found = 0;
	int status = WCM_OK;

	for (uint32_t i = 0; i < (uint32_t)g->size && status == WCM_OK; i++) {
		status = ck_wcm_status_of(
			g->driver->cuMemcpyDtoH_v2(&found, m->pieces[i].address, sizeof(found)),
			"a copy");
		if (status == WCM_OK && found != i + 1) {
			ck_err("rank %d does not see the memory of rank %u", g->rank, i);
			status = WCM_EIO;
		}
	}
	return status;
}

/* Each rank writes its number into its chunk, and reads those of all. */
static int try_bytes(wcm_group *g, wcm_t m)
{
	uint32_t mark = (uint32_t)g->rank + 1;
	int status = ck_wcm_enter(g);
	bool inside = status == WCM_OK;

	if (inside)
		status = ck_wcm_status_of(
			g->driver->cuMemcpyHtoD_v2(m->pieces[g->rank].address, &mark, sizeof(mark)),
			"a copy");
	if (status == WCM_OK) /* a small copy may be under way still when it returns */
		status = ck_wcm_status_of(g->driver->cuCtxSynchronize(), "cuCtxSynchronize");
	status = ck_wcm_agree(g, ck_wcm_all_ranks(g), status);
	if (status == WCM_OK)
		status = ck_wcm_agree(g, ck_wcm_all_ranks(g), read_marks(g, m));
	if (inside)
		ck_wcm_leave(g);
	return status;
}

static int try_backing(wcm_group *g, int backing)
{
	struct ck_wcm_wish wish = {.backing = backing, .count = g->size, .granularity = 256};
	int status;
	wcm_t m;

	wish.size = 256u * (unsigned int)g->size;
	for (int i = 0; i < g->size; i++)
		wish.ranks[i] = i;
	status = ck_wcm_memory_make(g, &wish, &m);
	if (status != WCM_OK)
		return status;
	status = try_bytes(g, m);
	ck_wcm_memory_end(m);
	return status;
}

/* A loss is no fault of the backing. */
static bool is_about_ranks(int status)
{
	return status == WCM_EPEERLOST || status == WCM_ETIMEDOUT || status == WCM_EMISMATCH;
}

/* All ranks must want the same. */
static int compare_wanted(wcm_group *g, int wanted)
{
	int32_t mine = wanted, all[WCM_RANKS_MAX];
	int status = ck_wcm_exchange(g, ck_wcm_all_ranks(g), &mine, sizeof(mine), all, NULL);

	for (int i = 0; status == WCM_OK && i < g->size; i++) {
		if (all[i] != mine)
			status = WCM_EMISMATCH;
	}
	return status;
}

int ck_wcm_backing_choose(wcm_group *g, int wanted)
{
	int status = compare_wanted(g, wanted);

	if (status != WCM_OK)
		return status;
	status = try_backing(g, wanted == WCM_VMM ? WCM_VMM : WCM_IPC);

	g->backing = wanted == WCM_VMM ? WCM_VMM : WCM_IPC;
	if (status != WCM_OK && wanted == WCM_AUTO && !is_about_ranks(status)) {
		ck_info("no IPC handles (%s): descriptors", wcm_strerror(status));
		g->backing = WCM_VMM;
		status = try_backing(g, WCM_VMM);
	}
	return status;
}

int ck_wcm_backing_wanted(const wcm_opts *opts)
{
	char set[8] = "";

	if (opts->backing != WCM_AUTO)
		return opts->backing == WCM_IPC || opts->backing == WCM_VMM ? opts->backing : -1;
	if (ck_env_word("CRICKET_WCM", "backing", set, sizeof(set)) < 0)
		return -1;
	if (!*set || strcmp(set, "auto") == 0)
		return WCM_AUTO;
	return strcmp(set, "ipc") == 0 ? WCM_IPC : strcmp(set, "vmm") == 0 ? WCM_VMM : -1;
}
