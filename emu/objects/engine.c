/*
 * emu/objects/engine.c - the order of work: a queue and, at need, a thread for each stream.
 *
 * A command waits for its predecessor in the stream and for the points in its `after` list
 * (wait.c).
 */
#include <errno.h>
#include <stdlib.h>

#include "emu/core/emu.h"
#include "emu/core/locks.h"
#include "emu/objects/activity.h"
#include "emu/objects/engine.h"
#include "emu/core/hooks.h"
#include "emu/core/usage.h"
#include "util/until.h"
#include "util/wait.h"

struct ck_mutex ck_emu_engine_lock = CK_MUTEX(CK_RANK_ENGINE);
struct ck_emu_stream *ck_emu_engine_streams;
static struct ck_cond worker_ended;
static struct ck_cond all_rest;
static unsigned int running; /* commands that are being carried out */

/* --- the thread of a stream --- */

static void stream_unlink(struct ck_emu_stream *stream)
{
	struct ck_emu_stream **link = &ck_emu_engine_streams;

	if (!stream->listed)
		return;
	while (*link != stream)
		link = &(*link)->next;
	*link = stream->next;
	stream->listed = false;
}

/* Run @command and record it. */
static CUresult command_record(struct ck_emu_command *command, struct ck_emu_stream *stream)
{
	struct ck_emu_context *context = stream->base.context;
	union ck_cupti_record record = {0};
	uint64_t start = ck_emu_activity_clock();
	CUresult result;

	command->describe(command, &record);
	result = command->run(command, context);
	if (result == CUDA_SUCCESS)
		ck_emu_activity_add(&record, context, stream, start);
	return result;
}

/* Carry out one command, without the lock. */
static void command_run(struct ck_emu_command *command, struct ck_emu_stream *stream)
{
	struct ck_emu_context *context = stream->base.context;
	bool cancelled = atomic_load(&context->cancelled) || ck_emu_exiting();
	int none = CUDA_SUCCESS;
	uint64_t begin;
	CUresult result;

	if (!command->always && (cancelled || atomic_load(&context->fault) != CUDA_SUCCESS))
		return;
	begin = ck_emu_activity_clock();
	result = command->describe && ck_emu_activity_on() ? command_record(command, stream)
							   : command->run(command, context);
	ck_emu_usage_busy(context->device->number, ck_emu_activity_clock() - begin);
	/* stopping a grid on request is no fault */
	if (result != CUDA_SUCCESS && !atomic_load(&context->cancelled) && !ck_emu_exiting())
		atomic_compare_exchange_strong(&context->fault, &none, (int)result);
}

/* The next command, with all before it done; NULL when the stream is to end. Lock held. */
static struct ck_emu_command *command_next(struct ck_emu_stream *stream)
{
	while (!stream->head && !stream->closing)
		ck_cond_wait(&stream->work, &ck_emu_engine_lock);
	if (stream->head) {
		for (unsigned int i = 0; i < stream->head->after_count; i++)
			ck_emu_point_wait_locked(&stream->head->after[i]);
	}
	return stream->head;
}

static void *run_stream_worker(void *arg)
{
	struct ck_emu_stream *stream = arg;
	struct ck_emu_context *context = stream->base.context;
	struct ck_emu_command *command;
	uint64_t number;

	ck_lock(&ck_emu_engine_lock);
	while ((command = command_next(stream))) {
		running++;
		ck_unlock(&ck_emu_engine_lock);
		command_run(command, stream);
		ck_lock(&ck_emu_engine_lock);
		if (--running == 0)
			ck_cond_broadcast(&all_rest);
		number = command->number;
		stream->head = command->next;
		if (!stream->head)
			stream->tail = &stream->head;
		ck_unlock(&ck_emu_engine_lock);
		/* free first: a waiter may rely on the module being unloaded once this completes */
		ck_emu_points_fini(command->after, command->after_count);
		command->free(command);
		ck_lock(&ck_emu_engine_lock);
		stream->completed = number;
		ck_cond_broadcast(&stream->done);
	}
	stream_unlink(stream);
	context->workers--;
	ck_cond_broadcast(&worker_ended);
	ck_unlock(&ck_emu_engine_lock);
	ck_emu_object_put(&stream->base);
	return NULL;
}

/* Give the stream its thread, which holds a reference: 0 or -errno. Lock held. */
static int worker_start(struct ck_emu_stream *stream)
{
	pthread_attr_t attr;
	pthread_t thread;
	int ret;

	if (stream->threaded)
		return 0;
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	ret = pthread_create(&thread, &attr, run_stream_worker, stream);
	pthread_attr_destroy(&attr);
	if (ret)
		return -ret;
	ck_emu_object_ref(&stream->base);
	stream->threaded = true;
	stream->base.context->workers++;
	return 0;
}

/* --- streams --- */

static void stream_free(struct ck_emu_object *object)
{
	struct ck_emu_stream *stream = (struct ck_emu_stream *)object;

	ck_cond_destroy(&stream->work);
	ck_cond_destroy(&stream->done);
	free(stream);
}

struct ck_emu_stream *ck_emu_stream_create(struct ck_emu_context *context, unsigned int flags,
					   int priority)
{
	static uint64_t last_id;
	struct ck_emu_stream *stream = calloc(1, sizeof(*stream));
	bool live;

	if (!stream)
		return NULL;
	ck_emu_object_init(&stream->base, CK_EMU_STREAM, context, stream_free);
	stream->tail = &stream->head;
	stream->flags = flags;
	atomic_init(&stream->priority, priority);
	ck_lock(&ck_emu_engine_lock);
	stream->id = ++last_id;
	/* a context that ends closes the streams that it finds: add none after that */
	live = atomic_load(&context->live);
	if (live) {
		stream->next = ck_emu_engine_streams;
		ck_emu_engine_streams = stream;
		stream->listed = true;
	}
	ck_unlock(&ck_emu_engine_lock);
	if (!live) {
		ck_emu_object_put(&stream->base);
		return NULL;
	}
	return stream;
}

/* Lock held. */
static void stream_close(struct ck_emu_stream *stream)
{
	stream->closing = true;
	if (stream->threaded)
		ck_cond_signal(&stream->work);
	else
		stream_unlink(stream);
}

void ck_emu_stream_close(struct ck_emu_stream *stream)
{
	ck_lock(&ck_emu_engine_lock);
	stream_close(stream);
	ck_unlock(&ck_emu_engine_lock);
}

bool ck_emu_stream_closing(struct ck_emu_stream *stream)
{
	bool closing;

	ck_lock(&ck_emu_engine_lock);
	closing = stream->closing;
	ck_unlock(&ck_emu_engine_lock);
	return closing;
}

bool ck_emu_stream_is_legacy(CUstream handle)
{
	return handle == CU_STREAM_LEGACY || (!handle && !ck_emu_thread_default());
}

CUresult ck_emu_stream_get(CUstream handle, struct ck_emu_context *context,
			   struct ck_emu_stream **stream)
{
	struct ck_emu_stream *found;

	if (!handle)
		handle = ck_emu_thread_default();
	if (handle == CU_STREAM_PER_THREAD) {
		*stream = ck_emu_thread_stream(context);
		return *stream ? CUDA_SUCCESS : ck_emu_context_refusal(context);
	}
	if (handle && handle != CU_STREAM_LEGACY) {
		*stream = ck_emu_object_get(handle, CK_EMU_STREAM);
		if (!*stream)
			return CUDA_ERROR_INVALID_HANDLE;
		return CUDA_SUCCESS;
	}
	ck_lock(&ck_emu_engine_lock);
	found = context->legacy;
	if (found)
		ck_emu_object_ref(&found->base);
	ck_unlock(&ck_emu_engine_lock);
	*stream = found;
	return found ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

/* The context's stream of waits, made at need; NULL: out of memory. */
struct ck_emu_stream *ck_emu_context_gate(struct ck_emu_context *context)
{
	struct ck_emu_stream *made = ck_emu_stream_create(context, CU_STREAM_NON_BLOCKING, 0);
	struct ck_emu_stream *gate;

	ck_lock(&ck_emu_engine_lock);
	gate = context->gate;
	if (!gate && made && !made->closing) {
		gate = context->gate = made;
		made = NULL;
	}
	if (gate)
		ck_emu_object_ref(&gate->base);
	ck_unlock(&ck_emu_engine_lock);
	if (made) {
		ck_emu_stream_close(made);
		ck_emu_object_put(&made->base);
	}
	return gate;
}

/* The points for which a command of @stream waits: the stream's order, its gate, and @after. The
 * lock is held. */
static CUresult collect_wait_points(struct ck_emu_stream *stream, const struct ck_emu_point *after,
				    struct ck_emu_points *points)
{
	if (stream->closing)
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	if (ck_emu_points_add_order(points, stream) < 0 ||
	    ck_emu_points_add_gate(points, stream) < 0 ||
	    (after && after->stream &&
	     ck_emu_points_add(points, after->stream, after->number) < 0) ||
	    worker_start(stream) < 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	return CUDA_SUCCESS;
}

CUresult ck_emu_stream_submit(struct ck_emu_stream *stream, struct ck_emu_command *command,
			      const struct ck_emu_point *after, struct ck_emu_point *point)
{
	ck_emu_take_fn *take = ck_emu_thread_redirected();
	struct ck_emu_points points = {0};
	CUresult result;

	if (take)
		return take(command);
	if (command->describe && ck_emu_activity_on())
		command->correlation = ck_emu_activity_number();
	result = ck_emu_context_state(stream->base.context);
	if (result == CUDA_SUCCESS)
		result = ck_emu_hooks->capture_check(stream);
	ck_lock(&ck_emu_engine_lock);
	if (result == CUDA_SUCCESS)
		result = collect_wait_points(stream, after, &points);
	if (result != CUDA_SUCCESS) {
		ck_unlock(&ck_emu_engine_lock);
		ck_emu_points_fini(points.list, points.count);
		command->free(command);
		return result;
	}
	command->after = points.list;
	command->after_count = points.count;
	command->next = NULL;
	command->number = ++stream->submitted;
	*stream->tail = command;
	stream->tail = &command->next;
	if (point) {
		ck_emu_object_ref(&stream->base);
		*point = (struct ck_emu_point){stream, stream->submitted};
	}
	ck_cond_signal(&stream->work);
	ck_unlock(&ck_emu_engine_lock);
	return CUDA_SUCCESS;
}

/* --- contexts --- */

int ck_emu_context_start(struct ck_emu_context *context)
{
	struct ck_emu_stream *stream = ck_emu_stream_create(context, CU_STREAM_DEFAULT, 0);

	if (!stream)
		return -ENOMEM;
	stream->is_legacy = true;
	ck_lock(&ck_emu_engine_lock);
	context->legacy = stream;
	ck_unlock(&ck_emu_engine_lock);
	return 0;
}

void ck_emu_context_stop(struct ck_emu_context *context)
{
	struct ck_emu_stream *stream, *next, *legacy, *gate;

	ck_lock(&ck_emu_engine_lock);
	for (stream = ck_emu_engine_streams; stream; stream = next) {
		next = stream->next;
		if (stream->base.context == context)
			stream_close(stream);
	}
	while (context->workers)
		ck_cond_wait(&worker_ended, &ck_emu_engine_lock);
	legacy = context->legacy;
	context->legacy = NULL;
	gate = context->gate;
	context->gate = NULL;
	ck_unlock(&ck_emu_engine_lock);
	if (legacy)
		ck_emu_object_put(&legacy->base);
	if (gate)
		ck_emu_object_put(&gate->base);
}

void ck_emu_engine_exit(void)
{
	struct timespec end = ck_until(1000 * CK_NS_PER_MS);

	ck_lock(&ck_emu_engine_lock);
	/* an exit() in a host callback waits here for itself: hence the limit */
	while (running && ck_cond_timedwait(&all_rest, &ck_emu_engine_lock, &end) == 0)
		;
	ck_unlock(&ck_emu_engine_lock);
}
