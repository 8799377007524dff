/*
 * emu/copy/memset.c - filling memory; always queued, as on a device.
 */
#include <stdlib.h>
#include <string.h>

#include "emu/memory/arena.h"
#include "emu/copy/box.h"
#include "emu/core/emu.h"
#include "emu/core/hooks.h"
#include "emu/objects/activity.h"

struct fill {
	struct ck_emu_command command;
	uint64_t dst;
	size_t pitch, width, height; /* bytes, bytes, rows */
	unsigned int element;	     /* bytes: 1, 2 or 4 */
	uint32_t value;
};

static void row_fill(char *row, const struct fill *fill)
{
	if (fill->element == 1) {
		memset(row, (int)fill->value, fill->width);
		return;
	}
	for (size_t i = 0; i < fill->width; i += fill->element)
		memcpy(row + i, &fill->value, fill->element); /* little-endian */
}

static CUresult fill_run(struct ck_emu_command *command, struct ck_emu_context *context)
{
	const struct fill *fill = (struct fill *)command;

	(void)context;
	for (size_t y = 0; y < fill->height; y++)
		row_fill((char *)fill->dst + y * fill->pitch, fill);
	return CUDA_SUCCESS;
}

static void fill_describe(const struct ck_emu_command *command, union ck_cupti_record *record)
{
	const struct fill *fill = (const struct fill *)command;

	record->fill = (struct ck_cupti_memset){
		.kind = CUPTI_ACTIVITY_KIND_MEMSET,
		.value = fill->value,
		.bytes = fill->width * fill->height,
		.memory_kind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE,
		.correlation = command->correlation,
	};
}

static void fill_free(struct ck_emu_command *command)
{
	free(command);
}

/* Check the target of @fill, whose width still counts elements, and convert that to bytes. */
static CUresult fill_check(struct fill *fill, const struct ck_emu_context *context)
{
	struct ck_emu_box box = {.height = fill->height, .depth = 1};
	struct ck_emu_memory memory;
	size_t extent;

	if (fill->dst % fill->element ||
	    ck_mul_overflow(fill->width, (size_t)fill->element, &fill->width))
		return CUDA_ERROR_INVALID_VALUE;
	if (fill->height > 1 && (fill->pitch < fill->width || fill->pitch % fill->element))
		return CUDA_ERROR_INVALID_VALUE;
	box.width = fill->width;
	if (!ck_emu_box_extent(&box, fill->pitch, 0, &extent) ||
	    !ck_emu_arena_covers(fill->dst, extent) || !ck_emu_arena_find(fill->dst, &memory) ||
	    !ck_emu_memory_fillable(&memory, context))
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

/* @what counts its width in elements. */
static CUresult submit_fill(struct ck_emu_stream *stream, const CUDA_MEMSET_NODE_PARAMS_v2 *what)
{
	struct fill *fill = calloc(1, sizeof(*fill));
	CUresult result;

	if (!fill)
		return CUDA_ERROR_OUT_OF_MEMORY;
	fill->command.run = fill_run;
	fill->command.free = fill_free;
	fill->command.describe = fill_describe;
	fill->dst = what->dst;
	fill->pitch = what->pitch;
	fill->width = what->width;
	fill->height = what->height;
	fill->element = what->elementSize;
	fill->value = what->value;
	result = fill_check(fill, stream->base.context);
	if (result == CUDA_SUCCESS)
		return ck_emu_stream_submit(stream, &fill->command, NULL, NULL);
	free(fill);
	return result;
}

/*
 * Memory that the host reads as it is: by CUDA's reference a synchronous fill of it is over when
 * it returns.
 */
static bool is_of_host(CUdeviceptr address)
{
	struct ck_emu_memory memory;

	return ck_emu_arena_find(address, &memory) &&
	       (ck_emu_memory_in_host(&memory) || memory.kind == CK_EMU_MEMORY_MANAGED);
}

static CUresult fill_memory(CUdeviceptr dst, size_t pitch, unsigned int element, uint32_t value,
			    size_t width, size_t height, CUstream handle, bool async)
{
	const CUgraphNodeParams node = {
		.type = CU_GRAPH_NODE_TYPE_MEMSET,
		.memset = {.dst = dst,
			   .pitch = pitch,
			   .value = value,
			   .elementSize = element,
			   .width = width,
			   .height = height},
	};
	struct ck_emu_stream *stream;
	struct ck_emu_context *context;
	CUresult result = ck_emu_enter(&context);

	if (result == CUDA_SUCCESS)
		result = ck_emu_stream_get(handle, context, &stream);
	if (result != CUDA_SUCCESS)
		return result;
	if (ck_emu_capturing(stream)) {
		result = width && height ? ck_emu_hooks->capture_node(stream, &node, NULL, 0)
					 : ck_emu_hooks->capture_nothing(stream);
	} else if (width && height) {
		result = submit_fill(stream, &node.memset);
		if (result == CUDA_SUCCESS && !async && is_of_host(dst))
			result = ck_emu_stream_wait(stream, false);
	}
	ck_emu_object_put(&stream->base);
	return result;
}

CUresult cuMemsetD8_v2(CUdeviceptr dstDevice, unsigned char uc, size_t N)
{
	return fill_memory(dstDevice, 0, 1, uc, N, 1, NULL, false);
}

CUresult cuMemsetD16_v2(CUdeviceptr dstDevice, unsigned short us, size_t N)
{
	return fill_memory(dstDevice, 0, 2, us, N, 1, NULL, false);
}

CUresult cuMemsetD32_v2(CUdeviceptr dstDevice, unsigned int ui, size_t N)
{
	return fill_memory(dstDevice, 0, 4, ui, N, 1, NULL, false);
}

CUresult cuMemsetD2D8_v2(CUdeviceptr dstDevice, size_t dstPitch, unsigned char uc, size_t Width,
			 size_t Height)
{
	return fill_memory(dstDevice, dstPitch, 1, uc, Width, Height, NULL, false);
}

CUresult cuMemsetD2D16_v2(CUdeviceptr dstDevice, size_t dstPitch, unsigned short us, size_t Width,
			  size_t Height)
{
	return fill_memory(dstDevice, dstPitch, 2, us, Width, Height, NULL, false);
}

CUresult cuMemsetD2D32_v2(CUdeviceptr dstDevice, size_t dstPitch, unsigned int ui, size_t Width,
			  size_t Height)
{
	return fill_memory(dstDevice, dstPitch, 4, ui, Width, Height, NULL, false);
}

CUresult cuMemsetD8Async(CUdeviceptr dstDevice, unsigned char uc, size_t N, CUstream hStream)
{
	return fill_memory(dstDevice, 0, 1, uc, N, 1, hStream, true);
}

CUresult cuMemsetD16Async(CUdeviceptr dstDevice, unsigned short us, size_t N, CUstream hStream)
{
	return fill_memory(dstDevice, 0, 2, us, N, 1, hStream, true);
}

CUresult cuMemsetD32Async(CUdeviceptr dstDevice, unsigned int ui, size_t N, CUstream hStream)
{
	return fill_memory(dstDevice, 0, 4, ui, N, 1, hStream, true);
}

CUresult cuMemsetD2D8Async(CUdeviceptr dstDevice, size_t dstPitch, unsigned char uc, size_t Width,
			   size_t Height, CUstream hStream)
{
	return fill_memory(dstDevice, dstPitch, 1, uc, Width, Height, hStream, true);
}

CUresult cuMemsetD2D16Async(CUdeviceptr dstDevice, size_t dstPitch, unsigned short us, size_t Width,
			    size_t Height, CUstream hStream)
{
	return fill_memory(dstDevice, dstPitch, 2, us, Width, Height, hStream, true);
}

CUresult cuMemsetD2D32Async(CUdeviceptr dstDevice, size_t dstPitch, unsigned int ui, size_t Width,
			    size_t Height, CUstream hStream)
{
	return fill_memory(dstDevice, dstPitch, 4, ui, Width, Height, hStream, true);
}
