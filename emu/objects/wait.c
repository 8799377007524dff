/*
 * emu/objects/wait.c - waits: of a command, and of the host for a stream or a context.
 *
 * Points always lie before a command in time, so the waits form no cycle. The legacy stream's rule
 * is made of them: its commands wait for the last command of each blocking stream of the context,
 * and a blocking stream's commands for the last one of the legacy stream.
 */
#include <errno.h>
#include <stdlib.h>

#include "emu/core/emu.h"
#include "emu/objects/engine.h"
#include "util/until.h"

#define DRAIN_MS 5000 /* the end of a context waits so long for its work */

int ck_emu_points_add(struct ck_emu_points *points, struct ck_emu_stream *stream, uint64_t number)
{
	if (stream->completed >= number)
		return 0;
	if (points->count == points->room) {
		unsigned int room = points->room ? 2 * points->room : 4;
		void *bigger = realloc(points->list, room * sizeof(*points->list));

		if (!bigger)
			return -ENOMEM;
		points->list = bigger;
		points->room = room;
	}
	ck_emu_object_ref(&stream->base);
	points->list[points->count++] = (struct ck_emu_point){stream, number};
	return 0;
}

int ck_emu_points_add_order(struct ck_emu_points *points, struct ck_emu_stream *stream)
{
	struct ck_emu_context *context = stream->base.context;
	struct ck_emu_stream *legacy = context->legacy, *other;

	if (stream->flags & CK_EMU_STREAM_AFTER_ALL) {
		for (other = ck_emu_engine_streams; other; other = other->next) {
			if (other->base.context == context && other != stream &&
			    ck_emu_points_add(points, other, other->submitted) < 0)
				return -ENOMEM;
		}
	}
	if (stream->flags & CU_STREAM_NON_BLOCKING || !legacy)
		return 0;
	if (stream != legacy)
		return ck_emu_points_add(points, legacy, legacy->submitted);
	for (other = ck_emu_engine_streams; other; other = other->next) {
		if (other->base.context == context && other != legacy &&
		    !(other->flags & CU_STREAM_NON_BLOCKING) &&
		    ck_emu_points_add(points, other, other->submitted) < 0)
			return -ENOMEM;
	}
	return 0;
}

void ck_emu_points_fini(struct ck_emu_point *list, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++)
		ck_emu_object_put(&list[i].stream->base);
	free(list);
}

int ck_emu_points_add_gate(struct ck_emu_points *points, struct ck_emu_stream *stream)
{
	struct ck_emu_stream *gate = stream->base.context->gate;

	return gate && gate != stream ? ck_emu_points_add(points, gate, gate->submitted) : 0;
}

bool ck_emu_point_reached(const struct ck_emu_point *point)
{
	bool reached;

	ck_lock(&ck_emu_engine_lock);
	reached = ck_emu_point_reached_locked(point);
	ck_unlock(&ck_emu_engine_lock);
	return reached;
}

void ck_emu_point_wait(const struct ck_emu_point *point)
{
	ck_lock(&ck_emu_engine_lock);
	ck_emu_point_wait_locked(point);
	ck_unlock(&ck_emu_engine_lock);
}

void ck_emu_point_ref(const struct ck_emu_point *point)
{
	if (point->stream)
		ck_emu_object_ref(&point->stream->base);
}

void ck_emu_point_put(struct ck_emu_point *point)
{
	if (point->stream)
		ck_emu_object_put(&point->stream->base);
	point->stream = NULL;
}

/* --- waiting for many --- */

/* Lock held at the call and released in it. */
static CUresult points_wait_unlock(struct ck_emu_points *points, int error)
{
	for (unsigned int i = 0; error == 0 && i < points->count; i++)
		ck_emu_point_wait_locked(&points->list[i]);
	ck_unlock(&ck_emu_engine_lock);
	ck_emu_points_fini(points->list, points->count);
	return error ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

CUresult ck_emu_stream_wait(struct ck_emu_stream *stream, bool order)
{
	struct ck_emu_context *context = stream->base.context;
	struct ck_emu_points points = {0};
	CUresult result;
	int error;

	ck_lock(&ck_emu_engine_lock);
	error = ck_emu_points_add(&points, stream, stream->submitted);
	if (error == 0 && (order || stream == context->legacy))
		error = ck_emu_points_add_order(&points, stream);
	result = points_wait_unlock(&points, error);
	ck_emu_print_flush(context);
	return result == CUDA_SUCCESS ? ck_emu_context_state(context) : result;
}

bool ck_emu_stream_idle(struct ck_emu_stream *stream)
{
	struct ck_emu_points points = {0};
	bool idle;

	ck_lock(&ck_emu_engine_lock);
	idle = stream->completed == stream->submitted;
	if (idle && stream == stream->base.context->legacy)
		idle = ck_emu_points_add_order(&points, stream) == 0 && points.count == 0;
	ck_unlock(&ck_emu_engine_lock);
	ck_emu_points_fini(points.list, points.count);
	return idle;
}

/* Wait for the work of one context, or of all for NULL. */
static CUresult streams_wait(const struct ck_emu_context *context)
{
	struct ck_emu_stream *stream;
	struct ck_emu_points points = {0};
	int error = 0;

	ck_lock(&ck_emu_engine_lock);
	for (stream = ck_emu_engine_streams; stream && error == 0; stream = stream->next) {
		if (!context || stream->base.context == context)
			error = ck_emu_points_add(&points, stream, stream->submitted);
	}
	return points_wait_unlock(&points, error);
}

CUresult ck_emu_context_wait(struct ck_emu_context *context)
{
	CUresult result = streams_wait(context);

	ck_emu_print_flush(context);
	return result == CUDA_SUCCESS ? ck_emu_context_state(context) : result;
}

/* Lock held. */
static bool context_idle(const struct ck_emu_context *context)
{
	struct ck_emu_stream *stream;

	for (stream = ck_emu_engine_streams; stream; stream = stream->next) {
		if (stream->base.context == context && stream->completed != stream->submitted)
			return false;
	}
	return true;
}

void ck_emu_context_then(struct ck_emu_context *context, struct ck_emu_command *command)
{
	struct ck_emu_stream *stream = NULL;
	bool idle;

	ck_lock(&ck_emu_engine_lock);
	idle = context_idle(context);
	ck_unlock(&ck_emu_engine_lock);
	if (!idle && ck_emu_context_state(context) == CUDA_SUCCESS)
		stream = ck_emu_stream_create(context,
					      CU_STREAM_NON_BLOCKING | CK_EMU_STREAM_AFTER_ALL, 0);
	if (!stream) {
		ck_emu_context_wait(context); /* idle, after a fault, or short of memory */
		command->free(command);
		return;
	}
	ck_emu_stream_submit(stream, command, NULL, NULL);
	ck_emu_stream_close(stream);
	ck_emu_object_put(&stream->base);
}

CUresult ck_emu_all_wait(void)
{
	return streams_wait(NULL);
}

/* Of @context, or of all for NULL. */
static bool wait_until_idle(const struct ck_emu_context *context, const struct timespec *until)
{
	struct ck_emu_stream *stream;
	int ret = 0;

	ck_lock(&ck_emu_engine_lock);
	do {
		stream = ck_emu_engine_streams;
		while (stream && (stream->completed == stream->submitted ||
				  (context && stream->base.context != context)))
			stream = stream->next;
		if (!stream)
			break;
		ck_emu_object_ref(&stream->base);
		if (until)
			ret = ck_cond_timedwait(&stream->done, &ck_emu_engine_lock, until);
		else
			ck_cond_wait(&stream->done, &ck_emu_engine_lock);
		ck_unlock(&ck_emu_engine_lock);
		ck_emu_object_put(&stream->base); /* the last reference may go here */
		ck_lock(&ck_emu_engine_lock);
	} while (ret == 0);
	ck_unlock(&ck_emu_engine_lock);
	return ret == 0;
}

bool ck_emu_all_wait_until(const struct timespec *until)
{
	return wait_until_idle(NULL, until);
}

void ck_emu_context_drain(const struct ck_emu_context *context)
{
	const struct timespec until = ck_until(DRAIN_MS * CK_NS_PER_MS);

	wait_until_idle(context, &until);
}
