/*
 * emu/graphs/graph_condition.c - the values that conditional nodes ask for.
 */
#include <stdlib.h>

#include "emu/graphs/graph.h"
#include "emu/core/locks.h"
#include "emu/graphs/graph_run.h"
#include "util/map.h"

struct ck_emu_condition {
	struct ck_emu_condition *next; /* in the list of its graph */
	CUgraphConditionalHandle id;
	unsigned int refs; /* under the lock */
	bool used;	   /* by a node; under the lock of the graphs */
	atomic_uint value;
	unsigned int start;
	bool starts; /* every launch starts with @start */
};

static struct ck_mutex conditions_lock = CK_MUTEX(CK_RANK_CONDITIONS);
static struct ck_map *table; /* id -> condition */
static CUgraphConditionalHandle last_id;

static struct ck_emu_condition *get_condition(CUgraphConditionalHandle id)
{
	struct ck_emu_condition *condition;

	ck_lock(&conditions_lock);
	condition = table ? ck_map_find(table, &id, sizeof(id)) : NULL;
	if (condition)
		condition->refs++;
	ck_unlock(&conditions_lock);
	return condition;
}

void ck_emu_condition_put(struct ck_emu_condition *condition)
{
	bool last;

	ck_lock(&conditions_lock);
	last = --condition->refs == 0;
	if (last)
		ck_map_remove(table, &condition->id, sizeof(condition->id));
	ck_unlock(&conditions_lock);
	if (last)
		free(condition);
}

void ck_emu_condition_start(struct ck_emu_condition *condition)
{
	if (condition->starts)
		atomic_store(&condition->value, condition->start);
}

unsigned int ck_emu_condition_value(const struct ck_emu_condition *condition)
{
	return atomic_load(&condition->value);
}

void ck_emu_condition_set(CUgraphConditionalHandle id, unsigned int value)
{
	struct ck_emu_condition *condition = get_condition(id);

	if (!condition)
		return;
	atomic_store(&condition->value, value);
	ck_emu_condition_put(condition);
}

bool ck_emu_condition_use(struct ck_emu_condition *condition, bool use)
{
	if (use && condition->used)
		return false;
	condition->used = use;
	return true;
}

bool ck_emu_conditions_used(const struct ck_emu_condition *list)
{
	while (list && list->used)
		list = list->next;
	return !list;
}

void ck_emu_conditions_drop(struct ck_emu_condition **list)
{
	while (*list) {
		struct ck_emu_condition *condition = *list;

		*list = condition->next;
		ck_emu_condition_put(condition);
	}
}

CUresult ck_emu_condition_take(struct ck_emu_step *step)
{
	const CUDA_CONDITIONAL_NODE_PARAMS *params = &step->params.conditional;
	unsigned int most = params->type == CU_GRAPH_COND_TYPE_WHILE ? 1
			    : params->type == CU_GRAPH_COND_TYPE_IF  ? 2
								     : 1024;

	if ((unsigned int)params->type > CU_GRAPH_COND_TYPE_SWITCH || !params->size ||
	    params->size > most)
		return CUDA_ERROR_INVALID_VALUE;
	if (!params->ctx)
		return CUDA_ERROR_INVALID_CONTEXT;
	step->condition = get_condition(params->handle);
	return step->condition ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* A condition in the table, with one reference; NULL: out of memory. */
static struct ck_emu_condition *create_condition(unsigned int start, bool starts)
{
	struct ck_emu_condition *condition = calloc(1, sizeof(*condition));
	bool entered;

	if (!condition)
		return NULL;
	condition->refs = 1;
	condition->start = start;
	condition->starts = starts;
	ck_lock(&conditions_lock);
	if (!table)
		table = ck_map_create();
	condition->id = ++last_id;
	entered = table &&
		  ck_map_insert(table, &condition->id, sizeof(condition->id), condition) == 0;
	ck_unlock(&conditions_lock);
	if (entered)
		return condition;
	free(condition);
	return NULL;
}

CUresult cuGraphConditionalHandleCreate(CUgraphConditionalHandle *pHandle_out, CUgraph hGraph,
					CUcontext ctx, unsigned int defaultLaunchValue,
					unsigned int flags)
{
	struct ck_emu_condition *condition;
	struct ck_emu_graph *graph;
	CUresult result = ck_emu_graph_begin(hGraph, &graph);

	if (result != CUDA_SUCCESS)
		return result;
	if (!pHandle_out || flags & ~(unsigned int)CU_GRAPH_COND_ASSIGN_DEFAULT)
		result = CUDA_ERROR_INVALID_VALUE;
	else if (!ctx)
		result = CUDA_ERROR_INVALID_CONTEXT;
	if (result != CUDA_SUCCESS)
		goto unlock;
	condition = create_condition(defaultLaunchValue, flags & CU_GRAPH_COND_ASSIGN_DEFAULT);
	if (!condition) {
		result = CUDA_ERROR_OUT_OF_MEMORY;
		goto unlock;
	}
	condition->next = graph->conditions;
	graph->conditions = condition;
	*pHandle_out = condition->id;
unlock:
	ck_emu_graph_unlock();
	return result;
}
