/*
 * emu/modules/multi_launch.c - one cooperative launch on several devices: a launch on each, and
 * before and after it all streams meet. Blocks of different devices cannot wait for each other
 * here.
 */
#include <stdlib.h>
#include <string.h>

#include "emu/core/emu.h"
#include "emu/modules/function.h"
#include "emu/core/hooks.h"

#define FLAGS                                                                                      \
	(CUDA_COOPERATIVE_LAUNCH_MULTI_DEVICE_NO_PRE_LAUNCH_SYNC |                                 \
	 CUDA_COOPERATIVE_LAUNCH_MULTI_DEVICE_NO_POST_LAUNCH_SYNC)

static CUresult mark_run(struct ck_emu_command *command, struct ck_emu_context *context)
{
	(void)command;
	(void)context;
	return CUDA_SUCCESS;
}

static void mark_free(struct ck_emu_command *command)
{
	free(command);
}

/* A command that does nothing, after @after. */
static CUresult submit_marker(struct ck_emu_stream *stream, const struct ck_emu_point *after,
			      struct ck_emu_point *point)
{
	struct ck_emu_command *command = calloc(1, sizeof(*command));

	if (!command)
		return CUDA_ERROR_OUT_OF_MEMORY;
	command->run = mark_run;
	command->free = mark_free;
	return ck_emu_stream_submit(stream, command, after, point);
}

/* Later work waits for all work that is queued in any of the streams. */
static CUresult join_streams(struct ck_emu_stream **streams, unsigned int n)
{
	struct ck_emu_point points[CK_EMU_MAX_DEVICES] = {0};
	CUresult result = CUDA_SUCCESS;

	for (unsigned int i = 0; i < n && result == CUDA_SUCCESS; i++)
		result = submit_marker(streams[i], NULL, &points[i]);
	for (unsigned int i = 0; i < n; i++) {
		for (unsigned int k = 0; k < n && result == CUDA_SUCCESS; k++) {
			if (k != i)
				result = submit_marker(streams[i], &points[k], NULL);
		}
	}
	for (unsigned int i = 0; i < n; i++)
		ck_emu_point_put(&points[i]);
	return result;
}

static bool same_shape(const CUDA_LAUNCH_PARAMS *a, const CUDA_LAUNCH_PARAMS *b)
{
	return a->gridDimX == b->gridDimX && a->gridDimY == b->gridDimY &&
	       a->gridDimZ == b->gridDimZ && a->blockDimX == b->blockDimX &&
	       a->blockDimY == b->blockDimY && a->blockDimZ == b->blockDimZ &&
	       a->sharedMemBytes == b->sharedMemBytes;
}

/* The kernel of a launch and its parameters; *@name is the first one's, which all have. */
static CUresult function_check(const CUDA_LAUNCH_PARAMS *launch, struct ck_emu_stream *stream,
			       const char **name)
{
	struct ck_emu_function *function;
	CUresult result = ck_emu_function_get(launch->function, stream->base.context, &function);

	if (result != CUDA_SUCCESS)
		return result;
	if (function->base.context != stream->base.context)
		result = CUDA_ERROR_INVALID_HANDLE;
	else if (*name && strcmp(*name, function->info.name) != 0)
		result = CUDA_ERROR_INVALID_VALUE;
	else if (function->info.param_count && !launch->kernelParams)
		result = CUDA_ERROR_INVALID_VALUE;
	for (unsigned int i = 0; result == CUDA_SUCCESS && i < function->info.param_count; i++) {
		if (!launch->kernelParams[i])
			result = CUDA_ERROR_INVALID_VALUE;
	}
	*name = function->info.name; /* as long as the module, which the caller's launch needs */
	ck_emu_object_put(&function->base);
	return result;
}

/* The @i-th launch, whose stream is in @streams: a created one, on a device of its own. */
static CUresult check_launch(const CUDA_LAUNCH_PARAMS *list, struct ck_emu_stream **streams,
			     unsigned int i, const char **name)
{
	if (!same_shape(&list[0], &list[i]))
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned int k = 0; k < i; k++) {
		if (streams[k]->base.context->device == streams[i]->base.context->device)
			return CUDA_ERROR_INVALID_VALUE;
	}
	if (ck_emu_capturing(streams[i])) {
		ck_emu_hooks->capture_lose(streams[i]);
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	}
	return function_check(&list[i], streams[i], name);
}

static CUresult stream_of(CUstream handle, struct ck_emu_context *context,
			  struct ck_emu_stream **stream)
{
	if (!handle || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD)
		return CUDA_ERROR_INVALID_HANDLE;
	return ck_emu_stream_get(handle, context, stream);
}

static CUresult launch_all(const CUDA_LAUNCH_PARAMS *list, struct ck_emu_stream **streams,
			   unsigned int n, unsigned int flags)
{
	CUresult result = CUDA_SUCCESS;

	if (!(flags & CUDA_COOPERATIVE_LAUNCH_MULTI_DEVICE_NO_PRE_LAUNCH_SYNC))
		result = join_streams(streams, n);
	for (unsigned int i = 0; i < n && result == CUDA_SUCCESS; i++) {
		const CUDA_LAUNCH_PARAMS *l = &list[i];

		result = cuLaunchCooperativeKernel(
			l->function, l->gridDimX, l->gridDimY, l->gridDimZ, l->blockDimX,
			l->blockDimY, l->blockDimZ, l->sharedMemBytes, l->hStream, l->kernelParams);
	}
	if (result == CUDA_SUCCESS &&
	    !(flags & CUDA_COOPERATIVE_LAUNCH_MULTI_DEVICE_NO_POST_LAUNCH_SYNC))
		result = join_streams(streams, n);
	return result;
}

CUresult cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS *launchParamsList,
					      unsigned int numDevices, unsigned int flags)
{
	struct ck_emu_stream *streams[CK_EMU_MAX_DEVICES];
	struct ck_emu_context *context;
	CUresult result = ck_emu_enter(&context);
	const char *name = NULL;
	unsigned int got = 0;

	if (result != CUDA_SUCCESS)
		return result;
	if (!launchParamsList || !numDevices || numDevices > CK_EMU_MAX_DEVICES || flags & ~FLAGS)
		return CUDA_ERROR_INVALID_VALUE;
	while (result == CUDA_SUCCESS && got < numDevices) {
		result = stream_of(launchParamsList[got].hStream, context, &streams[got]);
		if (result != CUDA_SUCCESS)
			break;
		got++;
		result = check_launch(launchParamsList, streams, got - 1, &name);
	}
	if (result == CUDA_SUCCESS)
		result = launch_all(launchParamsList, streams, numDevices, flags);
	for (unsigned int i = 0; i < got; i++)
		ck_emu_object_put(&streams[i]->base);
	return result;
}
