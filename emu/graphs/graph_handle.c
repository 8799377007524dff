/*
 * emu/graphs/graph_handle.c - the lock of all graphs, and the objects of their handles.
 */
#include "emu/core/locks.h"
#include "emu/graphs/graph.h"
#include "emu/graphs/user_object.h"

static struct ck_mutex graphs_lock = CK_MUTEX(CK_RANK_GRAPHS);
static _Thread_local bool locked; /* by this thread */

void ck_emu_graph_lock(void)
{
	ck_lock(&graphs_lock);
	locked = true;
}

bool ck_emu_graph_locked(void)
{
	return locked;
}

void ck_emu_graph_unlock(void)
{
	locked = false;
	ck_unlock(&graphs_lock);
	ck_emu_user_objects_run();
}

/* An object that something else holds for as long as the lock is held. */
static void *handle_find(const void *handle, enum ck_emu_kind kind)
{
	struct ck_emu_object *object = ck_emu_object_get(handle, kind);

	if (object)
		ck_emu_object_put(object);
	return object;
}

struct ck_emu_graph *ck_emu_graph_find(CUgraph handle)
{
	return handle_find(handle, CK_EMU_GRAPH);
}

struct ck_emu_node *ck_emu_node_find(CUgraphNode handle)
{
	return handle_find(handle, CK_EMU_NODE);
}

/* An object to work on: NULL is a bad value, anything else that is none a bad handle. */
static CUresult handle_begin(const void *handle, enum ck_emu_kind kind, void *object)
{
	CUresult result = ck_emu_enter_bare();
	void *found;

	if (result != CUDA_SUCCESS)
		return result;
	if (!handle)
		return CUDA_ERROR_INVALID_VALUE;
	ck_emu_graph_lock();
	found = handle_find(handle, kind);
	if (!found) {
		ck_emu_graph_unlock();
		return CUDA_ERROR_INVALID_HANDLE;
	}
	*(void **)object = found;
	return CUDA_SUCCESS;
}

CUresult ck_emu_graph_begin(CUgraph handle, struct ck_emu_graph **graph)
{
	return handle_begin(handle, CK_EMU_GRAPH, graph);
}

CUresult ck_emu_node_begin(CUgraphNode handle, struct ck_emu_node **node)
{
	return handle_begin(handle, CK_EMU_NODE, node);
}
