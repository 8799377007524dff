/*
 * emu/copy/box.c - carrying out copies: checking both ends, then at once or as a queued command.
 */
#include <stdlib.h>
#include <string.h>

#include "emu/memory/arena.h"
#include "emu/copy/box.h"
#include "emu/core/emu.h"
#include "emu/core/hooks.h"
#include "emu/objects/activity.h"

#define STAGE_MAX (1ul << 20) /* pageable sources up to this many bytes are taken over */

struct copy {
	struct ck_emu_command command;
	struct ck_emu_box box;
	char stage[]; /* the source's bytes, packed, when they were taken over */
};

bool ck_emu_box_extent(const struct ck_emu_box *box, size_t pitch, size_t slice, size_t *extent)
{
	size_t rows, slices;

	return !ck_mul_overflow(box->height - 1, pitch, &rows) &&
	       !ck_mul_overflow(box->depth - 1, slice, &slices) &&
	       !ck_add_overflow(rows, slices, &rows) && !ck_add_overflow(rows, box->width, extent);
}

static void box_move(const struct ck_emu_box *box)
{
	size_t width = box->width, height = box->height;

	/* rows that lie back to back are one long row */
	if (box->dst_pitch == width && box->src_pitch == width) {
		width *= height;
		height = 1;
	}
	for (size_t z = 0; z < box->depth; z++) {
		for (size_t y = 0; y < height; y++)
			memmove((char *)box->dst + z * box->dst_slice + y * box->dst_pitch,
				(const char *)box->src + z * box->src_slice + y * box->src_pitch,
				width);
	}
}

static CUresult copy_run(struct ck_emu_command *command, struct ck_emu_context *context)
{
	(void)context;
	box_move(&((struct copy *)command)->box);
	return CUDA_SUCCESS;
}

/* The memory of an end, as a profiler sees it. */
static uint8_t memory_kind(uint64_t address)
{
	struct ck_emu_memory memory;

	if (!ck_emu_arena_find(address, &memory))
		return CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE;
	if (ck_emu_memory_in_host(&memory))
		return CUPTI_ACTIVITY_MEMORY_KIND_PINNED;
	return CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
}

/* A copy from one device to another has a record of its own, if that is wanted. */
static bool is_between(const struct ck_emu_box *box, struct ck_emu_memory *src,
		       struct ck_emu_memory *dst)
{
	return ck_emu_activity_wants(CUPTI_ACTIVITY_KIND_MEMCPY2) &&
	       ck_emu_arena_find(box->src, src) && ck_emu_arena_find(box->dst, dst) &&
	       src->device != dst->device;
}

/* The kind of a copy, by the memory of its ends. @taken: its source was taken over from ordinary
 * memory. */
static void box_describe(const struct ck_emu_box *box, bool taken, uint32_t correlation,
			 uint8_t flags, union ck_cupti_record *record)
{
	uint8_t src = taken ? CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE : memory_kind(box->src);
	uint8_t dst = memory_kind(box->dst);
	bool from = src == CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
	bool to = dst == CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
	struct ck_emu_memory a, b;

	if (from && to && is_between(box, &a, &b)) {
		record->peer = (struct ck_cupti_peer){
			.kind = CUPTI_ACTIVITY_KIND_MEMCPY2,
			.copy_kind = CUPTI_ACTIVITY_MEMCPY_KIND_PTOP,
			.src_kind = src,
			.dst_kind = dst,
			.flags = flags,
			.bytes = box->width * box->height * box->depth,
			.src_device = (uint32_t)a.device,
			.dst_device = (uint32_t)b.device,
			.correlation = correlation,
		};
		return;
	}
	record->copy = (struct ck_cupti_memcpy){
		.kind = CUPTI_ACTIVITY_KIND_MEMCPY,
		.copy_kind = from ? (to ? CUPTI_ACTIVITY_MEMCPY_KIND_DTOD
					: CUPTI_ACTIVITY_MEMCPY_KIND_DTOH)
				  : (to ? CUPTI_ACTIVITY_MEMCPY_KIND_HTOD
					: CUPTI_ACTIVITY_MEMCPY_KIND_HTOH),
		.src_kind = src,
		.dst_kind = dst,
		.flags = flags,
		.bytes = box->width * box->height * box->depth,
		.copies = 1,
		.correlation = correlation,
	};
}

static void copy_describe(const struct ck_emu_command *command, union ck_cupti_record *record)
{
	const struct copy *copy = (const struct copy *)command;

	box_describe(&copy->box, copy->box.src == (uint64_t)copy->stage, command->correlation,
		     1 /* asynchronous */, record);
}

/* A copy that the caller's thread carries out. */
static void box_move_recorded(const struct ck_emu_box *box, const struct ck_emu_stream *stream)
{
	union ck_cupti_record record;
	uint64_t start;

	if (!ck_emu_activity_on()) {
		box_move(box);
		return;
	}
	start = ck_emu_activity_clock();
	box_describe(box, false, ck_emu_activity_number(), 0, &record);
	box_move(box);
	ck_emu_activity_add(&record, stream->base.context, stream, start);
}

static void copy_free(struct ck_emu_command *command)
{
	free(command);
}

/* Make @box read from a packed copy of its source, which this function makes in @copy. */
static void source_take(struct copy *copy, const struct ck_emu_box *box)
{
	struct ck_emu_box stage = *box;

	stage.dst = (uint64_t)copy->stage;
	stage.dst_pitch = box->width;
	stage.dst_slice = box->width * box->height;
	box_move(&stage);
	copy->box.src = stage.dst;
	copy->box.src_pitch = stage.dst_pitch;
	copy->box.src_slice = stage.dst_slice;
}

/*
 * One end of a copy: INVALID_VALUE when it leaves the range it starts in, is not in one and has to
 * be, or @context (NULL: any) has no access. *@pageable: ordinary host memory; *@device: memory
 * that is the devices' alone.
 */
static CUresult end_check(const struct ck_emu_context *context, uint64_t address, size_t extent,
			  enum ck_emu_side side, bool *pageable, bool *device)
{
	struct ck_emu_memory memory;
	bool known = ck_emu_arena_find(address, &memory);

	if (side == CK_EMU_SIDE_ARRAY) {
		*pageable = false;
		*device = true;
		return CUDA_SUCCESS;
	}
	*pageable = !known;
	*device = known && !ck_emu_memory_in_host(&memory) && memory.kind != CK_EMU_MEMORY_MANAGED;
	if (!address || (known && context && !ck_emu_memory_copyable(&memory, context)))
		return CUDA_ERROR_INVALID_VALUE;
	/* a device pointer on the host's side is refused, as the host could not follow it */
	if (side == CK_EMU_SIDE_HOST && *device)
		return CUDA_ERROR_INVALID_VALUE;
	/* host memory may go on beyond its registered part */
	if (side == CK_EMU_SIDE_HOST || (side == CK_EMU_SIDE_ANY && !known))
		return CUDA_SUCCESS;
	return ck_emu_arena_covers(address, extent) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Queue the copy; a pageable source is read, and a pageable target written, before the return. */
static CUresult copy_queue(const struct ck_emu_box *box, struct ck_emu_stream *stream,
			   bool pageable_src, bool pageable_dst)
{
	size_t bytes = box->width * box->height * box->depth; /* fits: the extents do */
	/* a graph reads and writes host memory when it runs */
	bool recording = ck_emu_thread_redirected();
	bool take = pageable_src && bytes <= STAGE_MAX && !recording;
	struct copy *copy = calloc(1, sizeof(*copy) + (take ? bytes : 0));
	CUresult result;

	if (!copy)
		return CUDA_ERROR_OUT_OF_MEMORY;
	copy->command.run = copy_run;
	copy->command.free = copy_free;
	copy->command.describe = copy_describe;
	copy->box = *box;
	if (take)
		source_take(copy, box);
	result = ck_emu_stream_submit(stream, &copy->command, NULL, NULL);
	if (result == CUDA_SUCCESS && !recording && (pageable_dst || (pageable_src && !take)))
		result = ck_emu_stream_wait(stream, false);
	return result;
}

CUresult ck_emu_box_copy(const struct ck_emu_box *box, enum ck_emu_side dst, enum ck_emu_side src,
			 CUstream handle, bool sync)
{
	bool pageable_dst, pageable_src, device_dst, device_src;
	struct ck_emu_stream *stream;
	struct ck_emu_context *context;
	CUresult result = ck_emu_enter(&context);
	size_t dst_extent, src_extent;

	if (result != CUDA_SUCCESS)
		return result;
	result = ck_emu_stream_get(handle, context, &stream);
	if (result != CUDA_SUCCESS)
		return result;
	if (!box->width || !box->height || !box->depth)
		goto put_stream;
	result = CUDA_ERROR_INVALID_VALUE;
	if (!ck_emu_box_extent(box, box->dst_pitch, box->dst_slice, &dst_extent) ||
	    !ck_emu_box_extent(box, box->src_pitch, box->src_slice, &src_extent))
		goto put_stream;
	if (box->peer)
		context = NULL;
	result = end_check(context, box->dst, dst_extent, dst, &pageable_dst, &device_dst);
	if (result == CUDA_SUCCESS)
		result = end_check(context, box->src, src_extent, src, &pageable_src, &device_src);
	if (result != CUDA_SUCCESS)
		goto put_stream;
	if (!sync || (device_dst && device_src)) {
		result = copy_queue(box, stream, pageable_src, pageable_dst);
		goto put_stream;
	}
	/* here rather than in the stream's thread: the caller would only wait for it */
	result = ck_emu_hooks->capture_check(stream);
	if (result == CUDA_SUCCESS)
		result = ck_emu_stream_wait(stream, true);
	if (result == CUDA_SUCCESS)
		box_move_recorded(box, stream);
put_stream:
	ck_emu_object_put(&stream->base);
	return result;
}
