/*
 * emu/engine.c - what runs when: a queue and, at need, a thread for each stream.
 *
 * A command waits for its predecessor in the stream and for the points in its `after` list. They
 * always lie before it in time, so the waits form no cycle. The legacy stream's rule is made of
 * such points: its commands wait for the last command of each blocking stream of the context,
 * and a blocking stream's commands for the last one of the legacy stream.
 *
 * One lock for all queues: a command is a kernel or a copy, dear against the lock.
 */
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "emu/emu.h"
#include "emu/graph.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t worker_ended = PTHREAD_COND_INITIALIZER;
static pthread_cond_t all_rest = PTHREAD_COND_INITIALIZER;
static struct ck_emu_stream *streams; /* all that are open or still working */
static unsigned int running;	      /* commands that are being carried out */

/* --- points; the lock is held --- */

static bool point_reached(const struct ck_emu_point *point)
{
	return !point->stream || point->stream->completed >= point->number;
}

static void point_wait(const struct ck_emu_point *point)
{
	while (!point_reached(point))
		pthread_cond_wait(&point->stream->done, &lock);
}

/* A list of points that grows; each holds a reference. */
struct points {
	struct ck_emu_point *list;
	unsigned int count, room;
};

/* Add the end of a stream's queue, unless it is reached: 0 or -ENOMEM. */
static int points_add(struct points *points, struct ck_emu_stream *stream, uint64_t number)
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

/* Add what the legacy rule makes a command of @stream wait for. */
static int points_add_order(struct points *points, struct ck_emu_stream *stream)
{
	struct ck_emu_context *context = stream->base.context;
	struct ck_emu_stream *legacy = context->legacy, *other;

	if (stream->flags & CK_EMU_STREAM_AFTER_ALL) {
		for (other = streams; other; other = other->next) {
			if (other->base.context == context && other != stream &&
			    points_add(points, other, other->submitted) < 0)
				return -ENOMEM;
		}
	}
	if (stream->flags & CU_STREAM_NON_BLOCKING || !legacy)
		return 0;
	if (stream != legacy)
		return points_add(points, legacy, legacy->submitted);
	for (other = streams; other; other = other->next) {
		if (other->base.context == context && other != legacy &&
		    !(other->flags & CU_STREAM_NON_BLOCKING) &&
		    points_add(points, other, other->submitted) < 0)
			return -ENOMEM;
	}
	return 0;
}

/* Without the lock: the last reference of a stream may go here. */
static void points_fini(struct ck_emu_point *list, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++)
		ck_emu_object_put(&list[i].stream->base);
	free(list);
}

/* Lock held at the call and released in it. */
static CUresult points_wait_unlock(struct points *points, int error)
{
	for (unsigned int i = 0; error == 0 && i < points->count; i++)
		point_wait(&points->list[i]);
	pthread_mutex_unlock(&lock);
	points_fini(points->list, points->count);
	return error ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

bool ck_emu_point_reached(const struct ck_emu_point *point)
{
	bool reached;

	pthread_mutex_lock(&lock);
	reached = point_reached(point);
	pthread_mutex_unlock(&lock);
	return reached;
}

void ck_emu_point_wait(const struct ck_emu_point *point)
{
	pthread_mutex_lock(&lock);
	point_wait(point);
	pthread_mutex_unlock(&lock);
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

/* --- the thread of a stream --- */

static void stream_unlink(struct ck_emu_stream *stream)
{
	struct ck_emu_stream **link = &streams;

	if (!stream->listed)
		return;
	while (*link != stream)
		link = &(*link)->next;
	*link = stream->next;
	stream->listed = false;
}

/* Carry out one command, without the lock. */
static void command_run(struct ck_emu_command *command, struct ck_emu_context *context)
{
	bool cancelled = atomic_load(&context->cancelled) || ck_emu_exiting();
	int none = CUDA_SUCCESS;
	CUresult result;

	if (!command->always && (cancelled || atomic_load(&context->fault) != CUDA_SUCCESS))
		return;
	result = command->run(command, context);
	/* a grid that was told to stop is no fault */
	if (result != CUDA_SUCCESS && !atomic_load(&context->cancelled) && !ck_emu_exiting())
		atomic_compare_exchange_strong(&context->fault, &none, (int)result);
}

/* The next command, with all before it done; NULL when the stream is to end. Lock held. */
static struct ck_emu_command *command_next(struct ck_emu_stream *stream)
{
	while (!stream->head && !stream->closing)
		pthread_cond_wait(&stream->work, &lock);
	if (stream->head) {
		for (unsigned int i = 0; i < stream->head->after_count; i++)
			point_wait(&stream->head->after[i]);
	}
	return stream->head;
}

static void *worker(void *arg)
{
	struct ck_emu_stream *stream = arg;
	struct ck_emu_context *context = stream->base.context;
	struct ck_emu_command *command;
	uint64_t number;

	pthread_mutex_lock(&lock);
	while ((command = command_next(stream))) {
		running++;
		pthread_mutex_unlock(&lock);
		command_run(command, context);
		pthread_mutex_lock(&lock);
		if (--running == 0)
			pthread_cond_broadcast(&all_rest);
		number = command->number;
		stream->head = command->next;
		if (!stream->head)
			stream->tail = &stream->head;
		pthread_mutex_unlock(&lock);
		/* before it counts as done: who waits for it may expect its module to be gone */
		points_fini(command->after, command->after_count);
		command->free(command);
		pthread_mutex_lock(&lock);
		stream->completed = number;
		pthread_cond_broadcast(&stream->done);
	}
	stream_unlink(stream);
	context->workers--;
	pthread_cond_broadcast(&worker_ended);
	pthread_mutex_unlock(&lock);
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
	ret = pthread_create(&thread, &attr, worker, stream);
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

	pthread_cond_destroy(&stream->work);
	pthread_cond_destroy(&stream->done);
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
	pthread_cond_init(&stream->work, NULL);
	pthread_cond_init(&stream->done, NULL);
	stream->tail = &stream->head;
	stream->flags = flags;
	atomic_init(&stream->priority, priority);
	pthread_mutex_lock(&lock);
	stream->id = ++last_id;
	/* a context that is going closes the streams it finds: do not slip in after that */
	live = atomic_load(&context->live);
	if (live) {
		stream->next = streams;
		streams = stream;
		stream->listed = true;
	}
	pthread_mutex_unlock(&lock);
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
		pthread_cond_signal(&stream->work);
	else
		stream_unlink(stream);
}

void ck_emu_stream_close(struct ck_emu_stream *stream)
{
	pthread_mutex_lock(&lock);
	stream_close(stream);
	pthread_mutex_unlock(&lock);
}

bool ck_emu_stream_closing(struct ck_emu_stream *stream)
{
	bool closing;

	pthread_mutex_lock(&lock);
	closing = stream->closing;
	pthread_mutex_unlock(&lock);
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
	pthread_mutex_lock(&lock);
	found = context->legacy;
	if (found)
		ck_emu_object_ref(&found->base);
	pthread_mutex_unlock(&lock);
	*stream = found;
	return found ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

/* What the whole context was told to wait for (cuCtxWaitEvent). */
static int points_add_gate(struct points *points, struct ck_emu_stream *stream)
{
	struct ck_emu_stream *gate = stream->base.context->gate;

	return gate && gate != stream ? points_add(points, gate, gate->submitted) : 0;
}

/* The context's stream of waits, made at need; NULL: out of memory. */
struct ck_emu_stream *ck_emu_context_gate(struct ck_emu_context *context)
{
	struct ck_emu_stream *made = ck_emu_stream_create(context, CU_STREAM_NON_BLOCKING, 0);
	struct ck_emu_stream *gate;

	pthread_mutex_lock(&lock);
	gate = context->gate;
	if (!gate && made && !made->closing) {
		gate = context->gate = made;
		made = NULL;
	}
	if (gate)
		ck_emu_object_ref(&gate->base);
	pthread_mutex_unlock(&lock);
	if (made) {
		ck_emu_stream_close(made);
		ck_emu_object_put(&made->base);
	}
	return gate;
}

CUresult ck_emu_stream_submit(struct ck_emu_stream *stream, struct ck_emu_command *command,
			      const struct ck_emu_point *after, struct ck_emu_point *point)
{
	struct points points = {0};
	CUresult result;

	if (ck_emu_step_recording())
		return ck_emu_step_take(stream, command);
	result = ck_emu_context_state(stream->base.context);
	if (result == CUDA_SUCCESS)
		result = ck_emu_capture_check(stream);
	pthread_mutex_lock(&lock);
	if (result == CUDA_SUCCESS && stream->closing)
		result = CUDA_ERROR_CONTEXT_IS_DESTROYED;
	if (result == CUDA_SUCCESS &&
	    (points_add_order(&points, stream) < 0 || points_add_gate(&points, stream) < 0 ||
	     (after && after->stream && points_add(&points, after->stream, after->number) < 0) ||
	     worker_start(stream) < 0))
		result = CUDA_ERROR_OUT_OF_MEMORY;
	if (result != CUDA_SUCCESS) {
		pthread_mutex_unlock(&lock);
		points_fini(points.list, points.count);
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
	pthread_cond_signal(&stream->work);
	pthread_mutex_unlock(&lock);
	return CUDA_SUCCESS;
}

/* --- waiting --- */

CUresult ck_emu_stream_wait(struct ck_emu_stream *stream, bool order)
{
	struct ck_emu_context *context = stream->base.context;
	struct points points = {0};
	CUresult result;
	int error;

	pthread_mutex_lock(&lock);
	error = points_add(&points, stream, stream->submitted);
	if (error == 0 && (order || stream == context->legacy))
		error = points_add_order(&points, stream);
	result = points_wait_unlock(&points, error);
	ck_emu_print_flush(context);
	return result == CUDA_SUCCESS ? ck_emu_context_state(context) : result;
}

bool ck_emu_stream_idle(struct ck_emu_stream *stream)
{
	struct points points = {0};
	bool idle;

	pthread_mutex_lock(&lock);
	idle = stream->completed == stream->submitted;
	if (idle && stream == stream->base.context->legacy)
		idle = points_add_order(&points, stream) == 0 && points.count == 0;
	pthread_mutex_unlock(&lock);
	points_fini(points.list, points.count);
	return idle;
}

/* Wait for the work of one context, or of all for NULL. */
static CUresult streams_wait(const struct ck_emu_context *context)
{
	struct ck_emu_stream *stream;
	struct points points = {0};
	int error = 0;

	pthread_mutex_lock(&lock);
	for (stream = streams; stream && error == 0; stream = stream->next) {
		if (!context || stream->base.context == context)
			error = points_add(&points, stream, stream->submitted);
	}
	return points_wait_unlock(&points, error);
}

CUresult ck_emu_context_wait(struct ck_emu_context *context)
{
	CUresult result = streams_wait(context);

	ck_emu_print_flush(context);
	return result == CUDA_SUCCESS ? ck_emu_context_state(context) : result;
}

CUresult ck_emu_all_wait(void)
{
	return streams_wait(NULL);
}

/* --- contexts --- */

int ck_emu_context_start(struct ck_emu_context *context)
{
	struct ck_emu_stream *stream = ck_emu_stream_create(context, CU_STREAM_DEFAULT, 0);

	if (!stream)
		return -ENOMEM;
	stream->is_legacy = true;
	pthread_mutex_lock(&lock);
	context->legacy = stream;
	pthread_mutex_unlock(&lock);
	return 0;
}

void ck_emu_context_stop(struct ck_emu_context *context)
{
	struct ck_emu_stream *stream, *next, *legacy, *gate;

	pthread_mutex_lock(&lock);
	for (stream = streams; stream; stream = next) {
		next = stream->next;
		if (stream->base.context == context)
			stream_close(stream);
	}
	while (context->workers)
		pthread_cond_wait(&worker_ended, &lock);
	legacy = context->legacy;
	context->legacy = NULL;
	gate = context->gate;
	context->gate = NULL;
	pthread_mutex_unlock(&lock);
	if (legacy)
		ck_emu_object_put(&legacy->base);
	if (gate)
		ck_emu_object_put(&gate->base);
}

void ck_emu_engine_exit(void)
{
	struct timespec end;

	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec++;
	pthread_mutex_lock(&lock);
	/* an exit() in a host callback waits here for itself: hence the limit */
	while (running && pthread_cond_timedwait(&all_rest, &lock, &end) == 0)
		;
	pthread_mutex_unlock(&lock);
}
