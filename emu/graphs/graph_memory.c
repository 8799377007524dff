/*
 * emu/graphs/graph_memory.c - the memory of allocation nodes.
 *
 * The address of a node's memory is fixed when the node is made. The memory is taken by the first
 * launch or upload, of the device's memory then (graph_pool.c); launches and frees change whether
 * it is allocated.
 */
#include <stdlib.h>

#include "emu/memory/arena.h"
#include "emu/core/locks.h"
#include "emu/graphs/graph.h"
#include "emu/graphs/graph_run.h"
#include "emu/graphs/graph_pool.h"

struct ck_emu_graph_memory {
	struct ck_emu_graph_memory *next;
	uint64_t lo;
	size_t size;
	int device;
	const struct ck_emu_context *context; /* to compare with */
	bool allocated, claimed;
	bool held; /* a launch has left it allocated: it has physical memory of its own */
	unsigned int refs;
};

static struct ck_mutex memory_lock = CK_MUTEX(CK_RANK_GRAPH_MEMORY);
static struct ck_emu_graph_memory *all;

struct ck_emu_graph_memory *ck_emu_graph_memory_get(CUdeviceptr address)
{
	struct ck_emu_graph_memory *memory;

	ck_lock(&memory_lock);
	for (memory = all; memory && memory->lo != address; memory = memory->next)
		;
	if (memory)
		memory->refs++;
	ck_unlock(&memory_lock);
	return memory;
}

void ck_emu_graph_memory_put(struct ck_emu_graph_memory *memory)
{
	struct ck_emu_graph_memory **link = &all;
	struct ck_emu_memory range;

	ck_lock(&memory_lock);
	if (--memory->refs) {
		ck_unlock(&memory_lock);
		return;
	}
	while (*link != memory)
		link = &(*link)->next;
	*link = memory->next;
	ck_unlock(&memory_lock);
	ck_emu_arena_remove(memory->lo, CK_EMU_MEMORY_GRAPH, &range);
	free(memory);
}

/* Hold the physical memory of the allocation for @exec if it exists, or return it. Lock held. */
static void update_held_memory(struct ck_emu_graph_memory *memory, const struct ck_emu_exec *exec)
{
	if (memory->held == memory->allocated)
		return;
	memory->held = memory->allocated;
	if (memory->held)
		ck_emu_graph_pool_hold(memory->device, exec, memory->size);
	else
		ck_emu_graph_pool_give(memory->device, memory->size);
}

/* Lock held. */
static bool allocated_set(struct ck_emu_graph_memory *memory, bool allocated)
{
	bool changed = memory->allocated != allocated;

	memory->allocated = allocated;
	/* allocated memory outlives the graph */
	if (changed)
		memory->refs += allocated ? 1 : -1u;
	return changed;
}

/* The most bytes of a device that a launch has allocated at one time. */
static uint64_t compute_peak_memory(const struct ck_emu_exec *exec, int device)
{
	uint64_t now = 0, most = 0;

	for (size_t i = 0; i < exec->count; i++) {
		const struct ck_emu_step *step = exec->order[i]->step;

		if (!step->memory || step->memory->device != device)
			continue;
		if (step->params.type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
			now += CK_ALIGN_UP((uint64_t)step->memory->size, CK_EMU_GRAPH_PAGE);
		else if (!step->memory->held) /* else it is of an earlier launch */
			now -= ck_min(now,
				      CK_ALIGN_UP((uint64_t)step->memory->size, CK_EMU_GRAPH_PAGE));
		most = ck_max(most, now);
	}
	return most;
}

/* Lock held. */
static bool reserve_peak_memory(const struct ck_emu_exec *exec, const struct ck_emu_point *point)
{
	bool reserved = true;

	for (int d = 0; reserved && d < ck_emu_device_count(); d++) {
		uint64_t bytes = compute_peak_memory(exec, d);

		if (bytes)
			reserved = ck_emu_graph_pool_take(d, exec, bytes, point);
	}
	return reserved;
}

void ck_emu_graph_memory_relaunch(const struct ck_emu_exec *exec)
{
	ck_lock(&memory_lock);
	for (size_t i = 0; i < exec->count; i++) {
		const struct ck_emu_step *step = exec->order[i]->step;

		if (step->memory && step->params.type == CU_GRAPH_NODE_TYPE_MEM_ALLOC &&
		    allocated_set(step->memory, false))
			update_held_memory(step->memory, exec);
	}
	ck_unlock(&memory_lock);
}

CUresult ck_emu_graph_memory_reserve(const struct ck_emu_exec *exec, struct ck_emu_stream *stream)
{
	bool reserved;

	ck_lock(&memory_lock);
	reserved = reserve_peak_memory(exec, &(struct ck_emu_point){stream, 0});
	ck_unlock(&memory_lock);
	return reserved ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

void ck_emu_graph_memory_launched(const struct ck_emu_exec *exec)
{
	ck_lock(&memory_lock);
	reserve_peak_memory(exec, &exec->last); /* its memory, for longer */
	for (size_t i = 0; i < exec->count; i++) {
		const struct ck_emu_step *step = exec->order[i]->step;

		if (step->memory)
			allocated_set(step->memory,
				      step->params.type == CU_GRAPH_NODE_TYPE_MEM_ALLOC);
	}
	for (size_t i = 0; i < exec->count; i++) {
		if (exec->order[i]->step->memory)
			update_held_memory(exec->order[i]->step->memory, exec);
	}
	ck_unlock(&memory_lock);
}

bool ck_emu_graph_memory_release(struct ck_emu_graph_memory *memory)
{
	bool changed;

	ck_lock(&memory_lock);
	changed = allocated_set(memory, false);
	update_held_memory(memory, NULL);
	ck_unlock(&memory_lock);
	return changed;
}

/* With a reference, or NULL. */
static struct ck_emu_graph_memory *allocated_in(const struct ck_emu_context *context)
{
	struct ck_emu_graph_memory *memory;

	ck_lock(&memory_lock);
	for (memory = all; memory && !(memory->allocated && memory->context == context);
	     memory = memory->next)
		;
	if (memory)
		memory->refs++;
	ck_unlock(&memory_lock);
	return memory;
}

void ck_emu_graph_memory_end(const struct ck_emu_context *context)
{
	struct ck_emu_graph_memory *memory;

	while ((memory = allocated_in(context))) {
		ck_emu_graph_memory_release(memory);
		ck_emu_graph_memory_put(memory);
	}
	ck_emu_graph_pool_trim(context->device->ordinal);
}

bool ck_emu_graph_memory_allocated(struct ck_emu_graph_memory *memory)
{
	bool allocated;

	ck_lock(&memory_lock);
	allocated = memory->allocated;
	ck_unlock(&memory_lock);
	return allocated;
}

/* Whether a node's memory is, or is not, claimed. */
static bool claimed_is(const struct ck_emu_graph *graph, bool claimed)
{
	for (size_t i = 0; i < graph->count; i++) {
		const struct ck_emu_node *node = graph->nodes[i];

		if (node->child && !claimed_is(node->child, claimed))
			return false;
		if (node->step->params.type == CU_GRAPH_NODE_TYPE_MEM_ALLOC &&
		    node->step->memory->claimed != claimed)
			return false;
	}
	return true;
}

static void claimed_set(const struct ck_emu_graph *graph, bool claimed)
{
	for (size_t i = 0; i < graph->count; i++) {
		const struct ck_emu_node *node = graph->nodes[i];

		if (node->child)
			claimed_set(node->child, claimed);
		if (node->step->params.type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
			node->step->memory->claimed = claimed;
	}
}

bool ck_emu_graph_memory_claim(const struct ck_emu_graph *graph, bool claim)
{
	if (claim && !claimed_is(graph, false))
		return false;
	claimed_set(graph, claim);
	return true;
}

CUresult ck_emu_graph_memory_free(CUdeviceptr address)
{
	struct ck_emu_graph_memory *memory = ck_emu_graph_memory_get(address);
	CUresult result;

	if (!memory)
		return CUDA_ERROR_NOT_FOUND;
	result = ck_emu_all_wait();
	if (result == CUDA_SUCCESS && !ck_emu_graph_memory_release(memory))
		result = CUDA_ERROR_INVALID_VALUE;
	ck_emu_graph_memory_put(memory);
	return result;
}

/* Pinned memory of a device, for that device and others that may reach it. */
static CUresult params_check(const CUDA_MEM_ALLOC_NODE_PARAMS_v2 *params)
{
	const CUmemPoolProps *pool = &params->poolProps;

	if (!params->bytesize || (params->accessDescCount && !params->accessDescs) ||
	    pool->allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
	    pool->location.type != CU_MEM_LOCATION_TYPE_DEVICE || pool->location.id < 0 ||
	    pool->location.id >= ck_emu_device_count())
		return CUDA_ERROR_INVALID_VALUE;
	/* graphs share no memory with other processes */
	return pool->handleTypes ? CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS;
}

CUresult ck_emu_graph_memory_create(struct ck_emu_step *step, struct ck_emu_context *context)
{
	CUDA_MEM_ALLOC_NODE_PARAMS_v2 *params = &step->params.alloc;
	CUresult result = params_check(params);
	struct ck_emu_graph_memory *memory;

	if (result != CUDA_SUCCESS)
		return result;
	if (!context || context->device->ordinal != params->poolProps.location.id)
		return CUDA_ERROR_NOT_SUPPORTED;
	params->accessDescs = NULL;
	params->accessDescCount = 0;
	memory = calloc(1, sizeof(*memory));
	if (!memory)
		return CUDA_ERROR_OUT_OF_MEMORY;
	memory->size = params->bytesize;
	memory->device = params->poolProps.location.id;
	memory->context = context;
	memory->refs = 1;
	memory->lo = ck_emu_arena_alloc(context, memory->size, CK_EMU_MEMORY_GRAPH, NULL);
	if (!memory->lo) {
		free(memory);
		return ck_emu_context_refusal(context);
	}
	params->dptr = memory->lo;
	ck_lock(&memory_lock);
	memory->next = all;
	all = memory;
	ck_unlock(&memory_lock);
	step->memory = memory;
	return CUDA_SUCCESS;
}
