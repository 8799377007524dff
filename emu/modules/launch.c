/*
 * emu/modules/launch.c - kernel launches: checks at once, and the queued work.
 */
#include <stdlib.h>
#include <string.h>

#include "emu/core/emu.h"
#include "emu/modules/function.h"
#include "emu/objects/activity.h"
#include "emu/core/hooks.h"
#include "util/env.h"
#include "util/log.h"

CK_LOG_DEFINE("emu");

#define GRID_Y_MAX 65535u
#define BLOCK_Z_MAX 64u
#define THREADS_MAX 1024u

struct launch {
	struct ck_emu_command command;
	struct ck_emu_function *function; /* holds a reference: on its module */
	struct ck_ptx_grid grid;
	char params[];
};

static CUresult launch_run(struct ck_emu_command *command, struct ck_emu_context *context)
{
	struct launch *launch = (struct launch *)command;
	struct ck_ptx_host host;

	ck_emu_grid_host(context, &host);
	return ck_ptx_run(launch->function->kernel, &launch->grid, launch->params, &host);
}

static void launch_describe(const struct ck_emu_command *command, union ck_cupti_record *record)
{
	const struct launch *launch = (const struct launch *)command;
	const struct ck_ptx_kernel_info *info = &launch->function->info;

	record->kernel = (struct ck_cupti_kernel){
		.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
		.registers_per_thread = (uint16_t)info->registers,
		.static_shared = (int32_t)info->shared_bytes,
		.dynamic_shared = (int32_t)launch->grid.dynamic_shared,
		.local_per_thread = info->local_bytes,
		.correlation = command->correlation,
		.name = info->name,
	};
	for (int i = 0; i < 3; i++) {
		record->kernel.grid[i] = (int32_t)launch->grid.grid[i];
		record->kernel.block[i] = (int32_t)launch->grid.block[i];
		record->kernel.cluster[i] = launch->grid.cluster[i];
	}
}

static void launch_free(struct ck_emu_command *command)
{
	ck_emu_object_put(&((struct launch *)command)->function->base);
	free(command);
}

CUresult ck_emu_cluster_check(const struct ck_emu_function *function, struct ck_ptx_grid *grid)
{
	const uint32_t *required = function->info.cluster;
	uint64_t size = 1;

	if (!grid->cluster[0] && !grid->cluster[1] && !grid->cluster[2]) {
		if (function->info.must_cluster && !required[0])
			return CUDA_ERROR_INVALID_CLUSTER_SIZE;
		memcpy(grid->cluster, required, sizeof(grid->cluster));
		if (!required[0])
			return CUDA_SUCCESS;
	}
	for (int i = 0; i < 3; i++) {
		if (!grid->cluster[i] || grid->grid[i] % grid->cluster[i])
			return CUDA_ERROR_INVALID_VALUE;
		if (required[0] && grid->cluster[i] != required[i])
			return CUDA_ERROR_INVALID_CLUSTER_SIZE;
		size = ck_min(size * grid->cluster[i], (uint64_t)UINT32_MAX);
	}
	return size > ck_emu_function_max_cluster(function) ? CUDA_ERROR_INVALID_CLUSTER_SIZE
							    : CUDA_SUCCESS;
}

/* Dimensions and shared memory, as a driver checks them before it queues anything. */
static CUresult grid_check(const struct ck_emu_function *function, const struct ck_ptx_grid *grid)
{
	uint64_t threads = (uint64_t)grid->block[0] * grid->block[1], blocks;

	for (int i = 0; i < 3; i++) {
		if (!grid->grid[i] || !grid->block[i] || grid->block[i] > THREADS_MAX)
			return CUDA_ERROR_INVALID_VALUE;
	}
	threads *= grid->block[2];
	if (grid->grid[0] > INT32_MAX || grid->grid[1] > GRID_Y_MAX || grid->grid[2] > GRID_Y_MAX ||
	    grid->block[2] > BLOCK_Z_MAX || threads > THREADS_MAX ||
	    threads > function->info.max_threads)
		return CUDA_ERROR_INVALID_VALUE;
	if (grid->dynamic_shared > ck_emu_function_max_dynamic(function) ||
	    (uint64_t)grid->dynamic_shared + function->info.shared_bytes > CK_EMU_SHARED_OPTIN)
		return CUDA_ERROR_INVALID_VALUE;
	if (!grid->cooperative)
		return CUDA_SUCCESS;
	/* all blocks of a cooperative grid are on the device at the same time */
	blocks = (uint64_t)CK_EMU_SM_COUNT *
		 ck_emu_occupancy(function, (uint32_t)threads, grid->dynamic_shared);
	return (uint64_t)grid->grid[0] * grid->grid[1] * grid->grid[2] > blocks
		       ? CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE
		       : CUDA_SUCCESS;
}

/* The parameter block that `extra` names: INVALID_VALUE when it is not all there. */
static CUresult extra_read(void **extra, size_t need, const void **block)
{
	const void *buffer = NULL;
	size_t size = 0;

	for (; extra[0] != CU_LAUNCH_PARAM_END; extra += 2) {
		if (extra[0] == CU_LAUNCH_PARAM_BUFFER_POINTER)
			buffer = extra[1];
		else if (extra[0] == CU_LAUNCH_PARAM_BUFFER_SIZE && extra[1])
			size = *(const size_t *)extra[1];
		else
			return CUDA_ERROR_INVALID_VALUE;
	}
	if (need && (!buffer || size < need))
		return CUDA_ERROR_INVALID_VALUE;
	*block = buffer;
	return CUDA_SUCCESS;
}

CUresult ck_emu_launch_params(const struct ck_ptx_kernel_info *info, void **params, void **extra,
			      char *block)
{
	const void *buffer = NULL;
	CUresult result;

	if (params && extra)
		return CUDA_ERROR_INVALID_VALUE;
	if (extra) {
		result = extra_read(extra, info->param_bytes, &buffer);
		if (result == CUDA_SUCCESS && info->param_bytes)
			memcpy(block, buffer, info->param_bytes);
		return result;
	}
	if (!params && info->param_count)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned int i = 0; i < info->param_count; i++) {
		if (!params[i])
			return CUDA_ERROR_INVALID_VALUE;
		memcpy(block + info->params[i].offset, params[i], info->params[i].size);
	}
	return CUDA_SUCCESS;
}

/* Queue a launch of @function; its reference goes over to the command, also on error. */
static CUresult launch_queue(struct ck_emu_function *function, struct ck_ptx_grid *grid,
			     struct ck_emu_stream *stream, void **params, void **extra)
{
	struct launch *launch = NULL;
	CUresult result = CUDA_ERROR_INVALID_HANDLE;

	if (function->info.refusal) {
		if (!atomic_exchange(&function->refused, true))
			ck_err("launch of %s: %s", function->info.name, function->info.refusal);
		result = CUDA_ERROR_NOT_SUPPORTED;
		goto put_function;
	}
	/* a stream takes only kernels of its own context */
	if (function->base.context != stream->base.context)
		goto put_function;
	result = grid_check(function, grid);
	if (result == CUDA_SUCCESS)
		result = ck_emu_cluster_check(function, grid);
	if (result != CUDA_SUCCESS)
		goto put_function;
	launch = calloc(1, sizeof(*launch) + function->info.param_bytes);
	result = launch ? ck_emu_launch_params(&function->info, params, extra, launch->params)
			: CUDA_ERROR_OUT_OF_MEMORY;
	if (result != CUDA_SUCCESS)
		goto free_launch;
	launch->command.run = launch_run;
	launch->command.free = launch_free;
	launch->command.describe = launch_describe;
	launch->function = function;
	launch->grid = *grid;
	return ck_emu_stream_submit(stream, &launch->command, NULL, NULL);
free_launch:
	free(launch);
put_function:
	ck_emu_object_put(&function->base);
	return result;
}

/* Whether CUDA_LAUNCH_BLOCKING asks to wait for each kernel; looked up once. */
static bool launch_blocking(void)
{
	static atomic_int known = -1;
	int value = atomic_load_explicit(&known, memory_order_relaxed);

	if (unlikely(value < 0)) {
		value = ck_env_long("CUDA_LAUNCH_BLOCKING") != 0;
		atomic_store(&known, value);
	}
	return value;
}

/* The effect of an attribute on a launch; hints have none. */
static CUresult attribute_apply(const CUlaunchAttribute *attribute, struct ck_ptx_grid *grid,
				CUevent *done)
{
	const CUlaunchAttributeValue *value = &attribute->value;

	switch (attribute->id) {
	case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
		grid->cooperative = value->cooperative != 0;
		return CUDA_SUCCESS;
	case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
		grid->cluster[0] = value->clusterDim.x;
		grid->cluster[1] = value->clusterDim.y;
		grid->cluster[2] = value->clusterDim.z;
		return CUDA_SUCCESS;
	/* both may be recorded later than asked for, and the end of the kernel is later */
	case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT:
		*done = value->programmaticEvent.event;
		return *done ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
	case CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT:
		*done = value->launchCompletionEvent.event;
		return *done ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
	case CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE:
		return value->deviceUpdatableKernelNode.deviceUpdatable ? CUDA_ERROR_NOT_SUPPORTED
									: CUDA_SUCCESS;
	case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY: /* for streams */
		return CUDA_ERROR_INVALID_VALUE;
	case CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING:
		return CUDA_SUCCESS;
	default:
		return attribute->id <= CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT
			       ? CUDA_SUCCESS
			       : CUDA_ERROR_INVALID_VALUE;
	}
}

/* A launch into a capturing stream: a node, with the attributes that are not events. */
static CUresult launch_capture(CUfunction function, const CUlaunchConfig *config,
			       struct ck_emu_stream *stream, void **params, void **extra)
{
	const CUgraphNodeParams node = {
		.type = CU_GRAPH_NODE_TYPE_KERNEL,
		.kernel = {.func = function,
			   .gridDimX = config->gridDimX,
			   .gridDimY = config->gridDimY,
			   .gridDimZ = config->gridDimZ,
			   .blockDimX = config->blockDimX,
			   .blockDimY = config->blockDimY,
			   .blockDimZ = config->blockDimZ,
			   .sharedMemBytes = config->sharedMemBytes,
			   .kernelParams = params,
			   .extra = extra},
	};

	CUresult result =
		ck_emu_hooks->capture_node(stream, &node, config->attrs, config->numAttrs);

	if (result != CUDA_SUCCESS)
		ck_emu_hooks->capture_lose(stream);
	return result;
}

/* All launches. */
static CUresult launch_kernel(CUfunction handle, const CUlaunchConfig *config, void **params,
			      void **extra)
{
	struct ck_ptx_grid grid = {
		.grid = {config->gridDimX, config->gridDimY, config->gridDimZ},
		.block = {config->blockDimX, config->blockDimY, config->blockDimZ},
		.dynamic_shared = config->sharedMemBytes,
	};
	struct ck_emu_function *function;
	struct ck_emu_context *context;
	struct ck_emu_stream *stream;
	CUresult result = ck_emu_enter(&context);
	CUevent done = NULL;

	for (unsigned int i = 0; result == CUDA_SUCCESS && i < config->numAttrs; i++)
		result = attribute_apply(&config->attrs[i], &grid, &done);
	if (result != CUDA_SUCCESS)
		return result;
	result = ck_emu_stream_get(config->hStream, context, &stream);
	if (result != CUDA_SUCCESS)
		return result;
	if (ck_emu_capturing(stream)) {
		result = launch_capture(handle, config, stream, params, extra);
	} else {
		/* a kernel is loaded into the context of the stream that runs it */
		result = ck_emu_function_get(handle, stream->base.context, &function);
		if (result == CUDA_SUCCESS)
			result = launch_queue(function, &grid, stream, params, extra);
	}
	if (ck_emu_thread_redirected())
		goto put_stream;
	if (result == CUDA_SUCCESS && done)
		result = ck_emu_event_record(done, stream);
	if (result == CUDA_SUCCESS && launch_blocking() && !ck_emu_capturing(stream))
		result = ck_emu_stream_wait(stream, false);
put_stream:
	ck_emu_object_put(&stream->base);
	return result;
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction f, void **kernelParams,
			  void **extra)
{
	CUresult result = ck_emu_enter_bare();

	if (result != CUDA_SUCCESS)
		return result;
	if (!config || (config->numAttrs && !config->attrs))
		return CUDA_ERROR_INVALID_VALUE;
	return launch_kernel(f, config, kernelParams, extra);
}

CUresult cuLaunchKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
			unsigned int gridDimZ, unsigned int blockDimX, unsigned int blockDimY,
			unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream hStream,
			void **kernelParams, void **extra)
{
	const CUlaunchConfig config = {.gridDimX = gridDimX,
				       .gridDimY = gridDimY,
				       .gridDimZ = gridDimZ,
				       .blockDimX = blockDimX,
				       .blockDimY = blockDimY,
				       .blockDimZ = blockDimZ,
				       .sharedMemBytes = sharedMemBytes,
				       .hStream = hStream};

	return launch_kernel(f, &config, kernelParams, extra);
}

CUresult cuLaunchCooperativeKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
				   unsigned int gridDimZ, unsigned int blockDimX,
				   unsigned int blockDimY, unsigned int blockDimZ,
				   unsigned int sharedMemBytes, CUstream hStream,
				   void **kernelParams)
{
	CUlaunchAttribute cooperative = {.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE,
					 .value.cooperative = 1};
	const CUlaunchConfig config = {.gridDimX = gridDimX,
				       .gridDimY = gridDimY,
				       .gridDimZ = gridDimZ,
				       .blockDimX = blockDimX,
				       .blockDimY = blockDimY,
				       .blockDimZ = blockDimZ,
				       .sharedMemBytes = sharedMemBytes,
				       .hStream = hStream,
				       .attrs = &cooperative,
				       .numAttrs = 1};

	return launch_kernel(f, &config, kernelParams, NULL);
}
