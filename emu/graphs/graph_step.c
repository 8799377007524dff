/*
 * emu/graphs/graph_step.c - steps: the operations of nodes, checked and made ready to run.
 *
 * Most steps are a command of the kind that a stream would queue. The call that queues it makes it:
 * meanwhile this thread diverts the command that it queues, and it becomes the step's. So a node is
 * checked as its call is, and has the same effect.
 */
#include <stdlib.h>
#include <string.h>

#include "emu/memory/arena.h"
#include "emu/modules/function.h"
#include "emu/graphs/graph.h"
#include "emu/graphs/graph_run.h"
#include "emu/objects/activity.h"

/* The step that this thread is making. */
static _Thread_local struct ck_emu_step *recording;

/* Give that step its command. */
static CUresult command_take(struct ck_emu_command *command)
{
	if (recording->command) { /* a step is one command */
		command->free(command);
		return CUDA_ERROR_NOT_SUPPORTED;
	}
	recording->command = command;
	return CUDA_SUCCESS;
}

void ck_emu_step_ref(struct ck_emu_step *step)
{
	atomic_fetch_add_explicit(&step->refs, 1, memory_order_relaxed);
}

void ck_emu_step_put(struct ck_emu_step *step)
{
	if (!step || atomic_fetch_sub_explicit(&step->refs, 1, memory_order_acq_rel) != 1)
		return;
	if (step->command)
		step->command->free(step->command);
	if (step->event)
		ck_emu_object_put(step->event);
	if (step->condition)
		ck_emu_condition_put(step->condition);
	if (step->memory)
		ck_emu_graph_memory_put(step->memory);
	if (step->context)
		ck_emu_object_put(&step->context->base);
	free(step->attributes);
	free(step->storage);
	free(step);
}

/* --- parameters --- */

/* The context that runs a step: the one named, else @other; a reference goes to the step. */
static CUresult context_take(struct ck_emu_step *step, CUcontext named,
			     struct ck_emu_context *other)
{
	if (named) {
		step->context = ck_emu_object_get(named, CK_EMU_CONTEXT);
	} else if (other) {
		ck_emu_object_ref(&other->base);
		step->context = other;
	}
	return step->context ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

/* Copy a kernel's arguments into the step, in the form of pointers. */
static CUresult arguments_copy(struct ck_emu_step *step, const struct ck_emu_function *function)
{
	CUDA_KERNEL_NODE_PARAMS_v3 *kernel = &step->params.kernel;
	const struct ck_ptx_kernel_info *info = &function->info;
	size_t pointers = ck_max(info->param_count, 1u) * sizeof(void *);
	CUresult result;
	char *block;

	step->storage = calloc(1, pointers + info->param_bytes);
	if (!step->storage)
		return CUDA_ERROR_OUT_OF_MEMORY;
	block = (char *)step->storage + pointers;
	result = ck_emu_launch_params(info, kernel->kernelParams, kernel->extra, block);
	if (result != CUDA_SUCCESS)
		return result;
	kernel->kernelParams = step->storage;
	kernel->extra = NULL;
	for (unsigned int i = 0; i < info->param_count; i++)
		kernel->kernelParams[i] = block + info->params[i].offset;
	return CUDA_SUCCESS;
}

static CUresult kernel_begin(struct ck_emu_step *step, const struct ck_emu_step_source *source)
{
	CUDA_KERNEL_NODE_PARAMS_v3 *kernel = &step->params.kernel;
	const void *handle = kernel->func ? (const void *)kernel->func : (const void *)kernel->kern;
	struct ck_emu_function *function = ck_emu_object_get(handle, CK_EMU_FUNCTION);
	struct ck_emu_context *owner;
	CUresult result;

	if (!function)
		return CUDA_ERROR_INVALID_HANDLE;
	/* a function has a context, a kernel is loaded into one */
	owner = function->base.context ? function->base.context : source->context;
	result = context_take(step, kernel->ctx, owner);
	ck_emu_object_put(&function->base);
	if (result == CUDA_SUCCESS)
		result = ck_emu_function_get(handle, step->context, &function);
	if (result != CUDA_SUCCESS)
		return result;
	kernel->ctx = (CUcontext)step->context;
	result = arguments_copy(step, function);
	ck_emu_object_put(&function->base);
	return result;
}

static CUresult operations_copy(struct ck_emu_step *step)
{
	CUDA_BATCH_MEM_OP_NODE_PARAMS_v2 *batch = &step->params.memOp;

	if (!batch->count || !batch->paramArray || batch->count > CK_EMU_MEMORY_OPERATIONS)
		return CUDA_ERROR_INVALID_VALUE;
	step->storage = malloc(batch->count * sizeof(*batch->paramArray));
	if (!step->storage)
		return CUDA_ERROR_OUT_OF_MEMORY;
	memcpy(step->storage, batch->paramArray, batch->count * sizeof(*batch->paramArray));
	batch->paramArray = step->storage;
	return CUDA_SUCCESS;
}

static CUresult event_take(struct ck_emu_step *step, CUevent handle)
{
	step->event = ck_emu_object_get(handle, CK_EMU_EVENT);
	return step->event ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

/* Take over the targets of pointers in the parameters of a step. */
static CUresult params_take(struct ck_emu_step *step, const struct ck_emu_step_source *source)
{
	CUgraphNodeParams *params = &step->params;
	CUresult result;

	switch (params->type) {
	case CU_GRAPH_NODE_TYPE_KERNEL:
		return kernel_begin(step, source);
	case CU_GRAPH_NODE_TYPE_MEMCPY:
		if (!params->memcpy.copyParams.WidthInBytes || !params->memcpy.copyParams.Height ||
		    !params->memcpy.copyParams.Depth)
			return CUDA_ERROR_INVALID_VALUE;
		return context_take(step, params->memcpy.copyCtx, source->context);
	case CU_GRAPH_NODE_TYPE_MEMSET:
		if (!params->memset.width || !params->memset.height)
			return CUDA_ERROR_INVALID_VALUE;
		return context_take(step, params->memset.ctx, source->context);
	case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
		result = context_take(step, params->memOp.ctx, source->context);
		return result == CUDA_SUCCESS ? operations_copy(step) : result;
	case CU_GRAPH_NODE_TYPE_HOST:
		return params->host.fn ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
		return event_take(step, params->eventWait.event);
	case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
		return event_take(step, params->eventRecord.event);
	case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
		return ck_emu_graph_memory_create(step, source->context);
	case CU_GRAPH_NODE_TYPE_MEM_FREE:
		step->memory = ck_emu_graph_memory_get(params->free.dptr);
		return step->memory ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	case CU_GRAPH_NODE_TYPE_CONDITIONAL:
		return ck_emu_condition_take(step);
	case CU_GRAPH_NODE_TYPE_GRAPH:
	case CU_GRAPH_NODE_TYPE_EMPTY:
		return CUDA_SUCCESS;
	case CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL:
	case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT:
		return CUDA_ERROR_NOT_SUPPORTED;
	}
	return CUDA_ERROR_INVALID_VALUE;
}

/* --- commands --- */

static CUresult kernel_make(const struct ck_emu_step *step)
{
	const CUDA_KERNEL_NODE_PARAMS_v3 *kernel = &step->params.kernel;
	const CUlaunchConfig config = {
		.gridDimX = kernel->gridDimX,
		.gridDimY = kernel->gridDimY,
		.gridDimZ = kernel->gridDimZ,
		.blockDimX = kernel->blockDimX,
		.blockDimY = kernel->blockDimY,
		.blockDimZ = kernel->blockDimZ,
		.sharedMemBytes = kernel->sharedMemBytes,
		.hStream = CU_STREAM_LEGACY,
		.attrs = step->attributes,
		.numAttrs = step->attribute_count,
	};
	CUfunction function = kernel->func ? kernel->func : (CUfunction)kernel->kern;

	return cuLaunchKernelEx(&config, function, kernel->kernelParams, NULL);
}

static CUresult memset_make(const CUDA_MEMSET_NODE_PARAMS_v2 *fill)
{
	CUstream stream = CU_STREAM_LEGACY;

	switch (fill->elementSize) {
	case 1:
		return cuMemsetD2D8Async(fill->dst, fill->pitch, (unsigned char)fill->value,
					 fill->width, fill->height, stream);
	case 2:
		return cuMemsetD2D16Async(fill->dst, fill->pitch, (unsigned short)fill->value,
					  fill->width, fill->height, stream);
	case 4:
		return cuMemsetD2D32Async(fill->dst, fill->pitch, fill->value, fill->width,
					  fill->height, stream);
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

static CUresult command_make(const struct ck_emu_step *step)
{
	const CUgraphNodeParams *params = &step->params;

	switch (params->type) {
	case CU_GRAPH_NODE_TYPE_KERNEL:
		return kernel_make(step);
	case CU_GRAPH_NODE_TYPE_MEMCPY:
		return cuMemcpy3DAsync_v2(&params->memcpy.copyParams, CU_STREAM_LEGACY);
	case CU_GRAPH_NODE_TYPE_MEMSET:
		return memset_make(&params->memset);
	case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
		return cuStreamBatchMemOp_v2(CU_STREAM_LEGACY, params->memOp.count,
					     params->memOp.paramArray, params->memOp.flags);
	default:
		return CUDA_SUCCESS;
	}
}

/* Make the command with the step's context current. */
static CUresult command_record(struct ck_emu_step *step)
{
	CUresult result;

	if (ck_emu_thread_push(step->context, (CUcontext)step->context) < 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	recording = step;
	ck_emu_thread_redirect(command_take);
	result = command_make(step);
	ck_emu_thread_redirect(NULL);
	recording = NULL;
	ck_emu_object_put(&ck_emu_thread_pop()->base);
	return result;
}

static bool fills_nothing(const struct ck_emu_step *step)
{
	return step->params.type == CU_GRAPH_NODE_TYPE_MEMSET &&
	       !ck_emu_arena_covers(step->params.memset.dst, 1);
}

CUresult ck_emu_step_create(const struct ck_emu_step_source *source, struct ck_emu_step **out)
{
	struct ck_emu_step *step = calloc(1, sizeof(*step));
	CUresult result = CUDA_ERROR_OUT_OF_MEMORY;

	if (!step)
		return result;
	atomic_init(&step->refs, 1);
	step->params = *source->params;
	if (source->attribute_count) {
		step->attributes = calloc(source->attribute_count, sizeof(*step->attributes));
		if (!step->attributes)
			goto put_step;
		memcpy(step->attributes, source->attributes,
		       source->attribute_count * sizeof(*step->attributes));
		step->attribute_count = source->attribute_count;
	}
	result = params_take(step, source);
	if (result == CUDA_SUCCESS && step->context)
		result = command_record(step);
	if (result == CUDA_ERROR_INVALID_VALUE && source->captured && fills_nothing(step)) {
		step->astray = true;
		result = CUDA_SUCCESS;
	}
	if (result != CUDA_SUCCESS)
		goto put_step;
	*out = step;
	return CUDA_SUCCESS;
put_step:
	ck_emu_step_put(step);
	return result;
}

/* Run a step's command and record it. */
static CUresult run_recorded(struct ck_emu_step *step, uint64_t node,
			     const struct ck_emu_running *running)
{
	struct ck_emu_activity_node at = {node, running->graph, running->correlation};
	union ck_cupti_record record = {0};
	uint64_t start = ck_emu_activity_clock();
	CUresult result;

	step->command->describe(step->command, &record);
	result = step->command->run(step->command, step->context);
	if (result == CUDA_SUCCESS)
		ck_emu_activity_add_node(&record, step->context, running->stream, start, &at);
	return result;
}

CUresult ck_emu_step_run(struct ck_emu_step *step, uint64_t node,
			 const struct ck_emu_running *running)
{
	const CUDA_HOST_NODE_PARAMS_v2 *host = &step->params.host;

	if (step->astray)
		return CUDA_ERROR_ILLEGAL_ADDRESS;
	if (step->params.type == CU_GRAPH_NODE_TYPE_HOST)
		ck_emu_callback_call(host->fn, host->userData, running->context);
	else if (step->command && atomic_load(&step->context->live))
		return step->command->describe && ck_emu_activity_on()
			       ? run_recorded(step, node, running)
			       : step->command->run(step->command, step->context);
	return CUDA_SUCCESS;
}
