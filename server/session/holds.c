/*
 * server/session/holds.c - see server/session/holds.h.
 */
#include "gen/numbers.h"
#include "server/session/holds.h"
#include "server/session/locks.h"

void cks_holds_init(struct cks_holds *h)
{
	*h = (struct cks_holds){.lock = CK_MUTEX(CK_RANK_HOLDS)};
	pthread_cond_init(&h->changed, NULL);
}

void cks_holds_fini(struct cks_holds *h)
{
	pthread_cond_destroy(&h->changed);
	ck_mutex_destroy(&h->lock);
}

/* Count in *@mine when *@others is 0. */
static void begin(struct cks_holds *h, unsigned int *mine, const unsigned int *others)
{
	ck_lock(&h->lock);
	while (*others > 0)
		ck_cond_wait(&h->changed, &h->lock);
	++*mine;
	ck_unlock(&h->lock);
}

static void end(struct cks_holds *h, unsigned int *mine)
{
	ck_lock(&h->lock);
	if (--*mine == 0)
		pthread_cond_broadcast(&h->changed);
	ck_unlock(&h->lock);
}

void cks_holds_begin(struct cks_holds *h)
{
	begin(h, &h->holding, &h->waiting);
}

void cks_holds_over(struct cks_holds *h)
{
	end(h, &h->holding);
}

/* Code that is loaded or unloaded, memory that is freed or mapped, contexts that begin or end. */
static bool may_wait_for_work(uint32_t proc)
{
	switch (proc) {
	case CK_PROC_module_load:
	case CK_PROC_module_build:
	case CK_PROC_function:
	case CK_PROC_library_module:
	case CK_PROC_global:
	case CK_PROC_managed_global:
	case CK_PROC_set_attribute:
	case CK_PROC_cluster:
	case CK_PROC_cuModuleUnload:
	case CK_PROC_cuModuleGetTexRef:
	case CK_PROC_cuModuleGetSurfRef:
	case CK_PROC_cuFuncGetAttribute:
	case CK_PROC_cuFuncSetAttribute:
	case CK_PROC_cuKernelGetAttribute:
	case CK_PROC_cuKernelSetAttribute:
	case CK_PROC_cuOccupancyAvailableDynamicSMemPerBlock:
	case CK_PROC_cuOccupancyMaxActiveBlocksPerMultiprocessor:
	case CK_PROC_cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags:
	case CK_PROC_graph_instantiate:
	case CK_PROC_context_create:
	case CK_PROC_context_destroy:
	case CK_PROC_primary_retain:
	case CK_PROC_primary_release:
	case CK_PROC_primary_reset:
	case CK_PROC_lease:
	case CK_PROC_lease_end:
	case CK_PROC_lease_settle:
	case CK_PROC_cuMemAlloc_v2:
	case CK_PROC_cuMemAllocPitch_v2:
	case CK_PROC_cuMemFree_v2:
	case CK_PROC_cuMemUnmap:
	case CK_PROC_set_access:
	case CK_PROC_pinned_map:
	case CK_PROC_pinned_unmap:
	case CK_PROC_map:
	case CK_PROC_unmap:
		return true;
	default:
		return false;
	}
}

bool cks_holds_enter(struct cks_holds *h, uint32_t proc)
{
	if (!may_wait_for_work(proc))
		return false;
	begin(h, &h->waiting, &h->holding);
	return true;
}

void cks_holds_leave(struct cks_holds *h)
{
	end(h, &h->waiting);
}
