/*
 * emu/graphs/graph_memory.c - memory that allocation nodes give, and what devices say of it.
 *
 * The address of a node's memory is fixed when the node is made. So is the memory, here: what
 * launches and frees change is only whether it counts as allocated.
 */
#include <stdlib.h>

#include "emu/memory/arena.h"
#include "emu/graphs/graph.h"
#include "emu/graphs/graph_run.h"

struct ck_emu_graph_memory {
	struct ck_emu_graph_memory *next;
	uint64_t lo;
	size_t size;
	int device;
	bool allocated, claimed;
	unsigned int refs;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* inside that of the graphs */
static struct ck_emu_graph_memory *all;
/* bytes by device: what is allocated, what is reserved; now, at most */
static uint64_t used[CK_EMU_MAX_DEVICES], used_high[CK_EMU_MAX_DEVICES];
static uint64_t reserved[CK_EMU_MAX_DEVICES], reserved_high[CK_EMU_MAX_DEVICES];

static void count_up(uint64_t *now, uint64_t *high, uint64_t bytes)
{
	*now += bytes;
	*high = ck_max(*high, *now);
}

struct ck_emu_graph_memory *ck_emu_graph_memory_get(CUdeviceptr address)
{
	struct ck_emu_graph_memory *memory;

	pthread_mutex_lock(&lock);
	for (memory = all; memory && memory->lo != address; memory = memory->next)
		;
	if (memory)
		memory->refs++;
	pthread_mutex_unlock(&lock);
	return memory;
}

void ck_emu_graph_memory_put(struct ck_emu_graph_memory *memory)
{
	struct ck_emu_graph_memory **link = &all;
	struct ck_emu_memory range;

	pthread_mutex_lock(&lock);
	if (--memory->refs) {
		pthread_mutex_unlock(&lock);
		return;
	}
	while (*link != memory)
		link = &(*link)->next;
	*link = memory->next;
	if (memory->allocated)
		used[memory->device] -= memory->size;
	reserved[memory->device] -= memory->size;
	pthread_mutex_unlock(&lock);
	ck_emu_arena_remove(memory->lo, CK_EMU_MEMORY_GRAPH, &range);
	free(memory);
}

bool ck_emu_graph_memory_set(struct ck_emu_graph_memory *memory, bool allocated)
{
	bool changed;

	pthread_mutex_lock(&lock);
	changed = memory->allocated != allocated;
	memory->allocated = allocated;
	if (changed && allocated)
		count_up(&used[memory->device], &used_high[memory->device], memory->size);
	else if (changed)
		used[memory->device] -= memory->size;
	/* allocated memory stays, whatever becomes of the graph */
	if (changed)
		memory->refs += allocated ? 1 : -1u;
	pthread_mutex_unlock(&lock);
	return changed;
}

bool ck_emu_graph_memory_allocated(struct ck_emu_graph_memory *memory)
{
	bool allocated;

	pthread_mutex_lock(&lock);
	allocated = memory->allocated;
	pthread_mutex_unlock(&lock);
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
	bool freed;

	if (!memory)
		return CUDA_ERROR_NOT_FOUND;
	freed = ck_emu_graph_memory_set(memory, false);
	ck_emu_graph_memory_put(memory);
	return freed ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
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
	memory->refs = 1;
	memory->lo = ck_emu_arena_alloc(context, memory->size, CK_EMU_MEMORY_GRAPH, NULL);
	if (!memory->lo) {
		free(memory);
		return ck_emu_context_refusal(context);
	}
	params->dptr = memory->lo;
	pthread_mutex_lock(&lock);
	memory->next = all;
	all = memory;
	count_up(&reserved[memory->device], &reserved_high[memory->device], memory->size);
	pthread_mutex_unlock(&lock);
	step->memory = memory;
	return CUDA_SUCCESS;
}

/* --- what a device says of it --- */

static CUresult begin(CUdevice device)
{
	CUresult result = ck_emu_enter_bare();

	if (result != CUDA_SUCCESS)
		return result;
	return ck_emu_device_at(device) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

/* There is nothing to give back: memory that no graph has is free already. */
CUresult cuDeviceGraphMemTrim(CUdevice device)
{
	return begin(device);
}

CUresult cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attr, void *value)
{
	const uint64_t *const counts[] = {used, used_high, reserved, reserved_high};
	CUresult result = begin(device);

	if (result != CUDA_SUCCESS)
		return result;
	if (!value || (unsigned int)attr >= CK_ARRAY_SIZE(counts))
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&lock);
	*(cuuint64_t *)value = counts[attr][device];
	pthread_mutex_unlock(&lock);
	return CUDA_SUCCESS;
}

CUresult cuDeviceSetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attr, void *value)
{
	CUresult result = begin(device);

	if (result != CUDA_SUCCESS)
		return result;
	/* only the high marks can be set, and only back to what there is now */
	if (!value || *(const cuuint64_t *)value ||
	    (attr != CU_GRAPH_MEM_ATTR_USED_MEM_HIGH &&
	     attr != CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH))
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&lock);
	if (attr == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH)
		used_high[device] = used[device];
	else
		reserved_high[device] = reserved[device];
	pthread_mutex_unlock(&lock);
	return CUDA_SUCCESS;
}
