/*
 * emu/objects/event.c - events: the place of the last record in its stream, and the time it was reached.
 *
 * A waiter copies the place, so recording the event again does not change what it waits for.
 */
#include <stdlib.h>
#include <time.h>

#include "emu/emu.h"
#include "emu/locks.h"
#include "emu/graphs/graph_run.h"
#include "emu/memory/ipc.h"

struct event {
	struct ck_emu_object base;
	unsigned int flags;
	struct ck_emu_capture_place place; /* of a newest record that was captured; capture.c's */
	/* the rest under the lock */
	struct ck_emu_point point;	 /* of the newest record; no stream: never recorded */
	uint64_t records, placed;	 /* how many there were; which one point belongs to */
	int64_t time;			 /* ns, when the newest record was reached */
	struct ck_emu_ipc_event *shared; /* with other processes, which record it too; NULL: not */
	int shared_fd;
};

struct record {
	struct ck_emu_command command;
	struct event *event; /* holds a reference */
	uint64_t number;
	uint64_t shared; /* number of the record among those of all processes */
};

/* A wait; for a shared event it is for a record that may be another process's. */
struct wait {
	struct ck_emu_command command;
	struct event *event; /* holds a reference; NULL: the command's `after` is all */
	uint64_t number;
};

static struct ck_mutex events_lock = CK_MUTEX(CK_RANK_EVENTS);

static int64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static void event_free(struct ck_emu_object *object)
{
	struct event *event = (struct event *)object;

	ck_emu_point_put(&event->point);
	ck_emu_capture_place_fini(&event->place);
	ck_emu_ipc_event_close(event->shared, event->shared_fd);
	free(event);
}

static CUresult record_run(struct ck_emu_command *command, struct ck_emu_context *context)
{
	struct record *record = (struct record *)command;

	(void)context;
	ck_lock(&events_lock);
	if (record->number == record->event->records)
		record->event->time = now();
	ck_unlock(&events_lock);
	if (record->event->shared)
		ck_emu_ipc_event_reach(record->event->shared, record->shared);
	return CUDA_SUCCESS;
}

static void record_free(struct ck_emu_command *command)
{
	ck_emu_object_put(&((struct record *)command)->event->base);
	free(command);
}

/* The event behind a handle, with a reference; a call with no need of a current context. */
static CUresult begin(CUevent handle, struct event **event)
{
	CUresult result = ck_emu_enter_bare();

	if (result != CUDA_SUCCESS)
		return result;
	*event = ck_emu_object_get(handle, CK_EMU_EVENT);
	return *event ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

/* The place of an event's last record, with a reference. */
static void point_copy(struct event *event, struct ck_emu_point *point)
{
	ck_lock(&events_lock);
	*point = event->point;
	ck_emu_point_ref(point);
	ck_unlock(&events_lock);
}

/* A wait for an event that never was recorded waits for nothing. */
static bool recorded(struct event *event)
{
	bool once;

	ck_lock(&events_lock);
	once = event->records > 0;
	ck_unlock(&events_lock);
	return once || ck_emu_capture_marked(&event->place);
}

/* An event; it takes over @shared and @fd, even on failure. */
static CUresult event_new(struct ck_emu_context *context, unsigned int flags,
			  struct ck_emu_ipc_event *shared, int fd, CUevent *out)
{
	struct event *event = calloc(1, sizeof(*event));
	CUresult result;

	if (!event) {
		ck_emu_ipc_event_close(shared, fd);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	ck_emu_object_init(&event->base, CK_EMU_EVENT, context, event_free);
	event->flags = flags;
	event->shared = shared;
	event->shared_fd = fd;
	result = ck_emu_object_publish(&event->base);
	if (result == CUDA_SUCCESS)
		*out = (CUevent)event;
	else
		ck_emu_object_put(&event->base);
	return result;
}

CUresult cuEventCreate(CUevent *phEvent, unsigned int Flags)
{
	const unsigned int known =
		CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;
	struct ck_emu_context *context;
	CUresult result = ck_emu_enter(&context);
	struct ck_emu_ipc_event *shared = NULL;
	int fd = -1;

	if (result != CUDA_SUCCESS)
		return result;
	if (!phEvent || Flags & ~known ||
	    (Flags & CU_EVENT_INTERPROCESS && !(Flags & CU_EVENT_DISABLE_TIMING)))
		return CUDA_ERROR_INVALID_VALUE;
	if (Flags & CU_EVENT_INTERPROCESS) {
		shared = ck_emu_ipc_event_create(&fd);
		if (!shared)
			return CUDA_ERROR_OUT_OF_MEMORY;
	}
	return event_new(context, Flags, shared, fd, phEvent);
}

CUresult ck_emu_event_import(struct ck_emu_context *context, struct ck_emu_ipc_event *shared,
			     int fd, CUevent *event)
{
	return event_new(context, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS, shared, fd,
			 event);
}

struct ck_emu_ipc_event *ck_emu_event_shared(struct ck_emu_object *event, int *fd)
{
	*fd = ((struct event *)event)->shared_fd;
	return ((struct event *)event)->shared;
}

CUresult cuEventDestroy_v2(CUevent hEvent)
{
	struct event *event;
	CUresult result = begin(hEvent, &event);

	if (result != CUDA_SUCCESS)
		return result;
	if (ck_emu_object_retract(&event->base))
		ck_emu_object_put(&event->base);
	else
		result = CUDA_ERROR_INVALID_HANDLE;
	ck_emu_object_put(&event->base);
	return result;
}

/* Queue a record of @event, whose reference goes over to the command. */
static CUresult record_submit(struct event *event, struct ck_emu_stream *stream)
{
	struct record *record = calloc(1, sizeof(*record));
	struct ck_emu_point point, old = {0};
	CUresult result;

	if (!record) {
		ck_emu_object_put(&event->base);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	record->command.run = record_run;
	record->command.free = record_free;
	record->command.always = true;
	record->event = event;
	ck_emu_object_ref(&event->base); /* the command may be done before we are */
	ck_lock(&events_lock);
	record->number = ++event->records;
	ck_unlock(&events_lock);
	if (event->shared)
		record->shared = atomic_fetch_add(&event->shared->recorded, 1) + 1;

	uint64_t number = record->number;

	result = ck_emu_stream_submit(stream, &record->command, NULL, &point);
	if (result == CUDA_SUCCESS) {
		ck_lock(&events_lock);
		old = point;
		if (number > event->placed) { /* no newer record has overtaken us */
			old = event->point;
			event->point = point;
			event->placed = number;
		}
		ck_unlock(&events_lock);
	}
	ck_emu_point_put(&old);
	ck_emu_object_put(&event->base);
	return result;
}

CUresult ck_emu_event_record(CUevent handle, struct ck_emu_stream *stream)
{
	struct event *event = ck_emu_object_get(handle, CK_EMU_EVENT);

	if (!event)
		return CUDA_ERROR_INVALID_HANDLE;
	/* an event is recorded in its own context only */
	if (event->base.context != stream->base.context) {
		ck_emu_object_put(&event->base);
		return CUDA_ERROR_INVALID_HANDLE;
	}
	if (ck_emu_capturing(stream)) {
		CUresult result = ck_emu_capture_mark(stream, &event->place);

		ck_emu_object_put(&event->base);
		return result;
	}
	if (ck_emu_capture_marked(&event->place))
		ck_emu_capture_unmark(&event->place);
	return record_submit(event, stream);
}

CUresult ck_emu_event_record_object(struct ck_emu_object *event, struct ck_emu_stream *stream)
{
	ck_emu_object_ref(event);
	return record_submit((struct event *)event, stream);
}

CUresult cuEventRecordWithFlags(CUevent hEvent, CUstream hStream, unsigned int flags)
{
	const CUgraphNodeParams node = {.type = CU_GRAPH_NODE_TYPE_EVENT_RECORD,
					.eventRecord.event = hEvent};
	struct ck_emu_context *context;
	struct ck_emu_stream *stream;
	CUresult result = ck_emu_enter(&context);

	if (result != CUDA_SUCCESS)
		return result;
	if (flags & ~(unsigned int)CU_EVENT_RECORD_EXTERNAL)
		return CUDA_ERROR_INVALID_VALUE;
	result = ck_emu_stream_get(hStream, context, &stream);
	if (result != CUDA_SUCCESS)
		return result;
	if (!flags)
		result = ck_emu_event_record(hEvent, stream);
	else if (ck_emu_capturing(stream))
		result = ck_emu_capture_node(stream, &node, NULL, 0);
	else
		result = CUDA_ERROR_ILLEGAL_STATE; /* an external record belongs to graphs only */
	ck_emu_object_put(&stream->base);
	return result;
}

CUresult cuEventRecord(CUevent hEvent, CUstream hStream)
{
	return cuEventRecordWithFlags(hEvent, hStream, CU_EVENT_RECORD_DEFAULT);
}

/* Whether the host may ask for an event: not for one of a capture. */
static CUresult event_ask(struct event *event)
{
	CUresult result = ck_emu_context_state(event->base.context);

	if (result == CUDA_SUCCESS && ck_emu_capture_marked(&event->place))
		result = ck_emu_capture_asked(&event->place);
	return result == CUDA_SUCCESS ? ck_emu_capture_unsafe() : result;
}

/* Whether all records of all processes are reached, of an event that is not shared: yes. */
static bool shared_reached(const struct event *event)
{
	return !event->shared ||
	       atomic_load(&event->shared->reached) >= atomic_load(&event->shared->recorded);
}

CUresult cuEventQuery(CUevent hEvent)
{
	struct ck_emu_point point;
	struct event *event;
	CUresult result = begin(hEvent, &event);

	if (result != CUDA_SUCCESS)
		return result;
	point_copy(event, &point);
	result = event_ask(event);
	if (result == CUDA_SUCCESS && (!ck_emu_point_reached(&point) || !shared_reached(event)))
		result = CUDA_ERROR_NOT_READY;
	ck_emu_point_put(&point);
	ck_emu_object_put(&event->base);
	return result;
}

CUresult cuEventSynchronize(CUevent hEvent)
{
	struct ck_emu_point point;
	struct event *event;
	CUresult result = begin(hEvent, &event);

	if (result != CUDA_SUCCESS)
		return result;
	result = event_ask(event);
	if (result != CUDA_SUCCESS)
		goto put_event;
	point_copy(event, &point);
	ck_emu_point_wait(&point);
	ck_emu_point_put(&point);
	if (event->shared)
		ck_emu_ipc_event_wait(event->shared, atomic_load(&event->shared->recorded),
				      event->base.context);
	ck_emu_print_flush(event->base.context);
	result = ck_emu_context_state(event->base.context);
put_event:
	ck_emu_object_put(&event->base);
	return result;
}

/* Has it been recorded, and with a time? */
static bool is_timed(struct event *event)
{
	struct ck_emu_point point;
	bool recorded;

	point_copy(event, &point);
	recorded = point.stream;
	ck_emu_point_put(&point);
	return recorded && !(event->flags & CU_EVENT_DISABLE_TIMING);
}

/* The time of a timed event's last record, or NOT_READY. */
static CUresult event_time(struct event *event, int64_t *time)
{
	struct ck_emu_point point;
	bool reached;

	point_copy(event, &point);
	reached = ck_emu_point_reached(&point);
	ck_emu_point_put(&point);
	ck_lock(&events_lock);
	*time = event->time;
	ck_unlock(&events_lock);
	return reached ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult cuEventElapsedTime(float *pMilliseconds, CUevent hStart, CUevent hEnd)
{
	struct event *start, *end;
	CUresult result = begin(hStart, &start);
	int64_t from, to;

	if (result != CUDA_SUCCESS)
		return result;
	result = begin(hEnd, &end);
	if (result != CUDA_SUCCESS)
		goto put_start;
	result = ck_emu_context_state(start->base.context);
	if (result == CUDA_SUCCESS && !pMilliseconds)
		result = CUDA_ERROR_INVALID_VALUE;
	if (result == CUDA_SUCCESS && start->base.context != end->base.context)
		result = CUDA_ERROR_INVALID_HANDLE;
	if (result == CUDA_SUCCESS && ck_emu_capture_marked(&start->place))
		result = ck_emu_capture_timed(&start->place);
	if (result == CUDA_SUCCESS && ck_emu_capture_marked(&end->place))
		result = ck_emu_capture_timed(&end->place);
	if (result == CUDA_SUCCESS && (!is_timed(start) || !is_timed(end)))
		result = CUDA_ERROR_INVALID_HANDLE;
	if (result == CUDA_SUCCESS)
		result = event_time(start, &from);
	if (result == CUDA_SUCCESS)
		result = event_time(end, &to);
	if (result == CUDA_SUCCESS)
		*pMilliseconds = (float)((double)(to - from) / 1e6);
	ck_emu_object_put(&end->base);
put_start:
	ck_emu_object_put(&start->base);
	return result;
}

CUresult cuEventElapsedTime_v2(float *pMilliseconds, CUevent hStart, CUevent hEnd)
{
	return cuEventElapsedTime(pMilliseconds, hStart, hEnd);
}

static CUresult wait_run(struct ck_emu_command *command, struct ck_emu_context *context)
{
	const struct wait *wait = (struct wait *)command;

	if (wait->event) /* else the wait was for its `after` */
		ck_emu_ipc_event_wait(wait->event->shared, wait->number, context);
	return CUDA_SUCCESS;
}

static void wait_free(struct ck_emu_command *command)
{
	struct wait *wait = (struct wait *)command;

	if (wait->event)
		ck_emu_object_put(&wait->event->base);
	free(wait);
}

CUresult ck_emu_event_wait_object(struct ck_emu_object *object, struct ck_emu_stream *stream)
{
	struct event *event = (struct event *)object;
	struct ck_emu_point point;
	struct wait *wait;
	CUresult result;

	point_copy(event, &point);
	wait = calloc(1, sizeof(*wait));
	if (wait) {
		wait->command.run = wait_run;
		wait->command.free = wait_free;
		if (event->shared) {
			ck_emu_object_ref(object);
			wait->event = event;
			wait->number = atomic_load(&event->shared->recorded);
		}
		result = ck_emu_stream_submit(stream, &wait->command, &point, NULL);
	} else {
		result = CUDA_ERROR_OUT_OF_MEMORY;
	}
	ck_emu_point_put(&point);
	return result;
}

CUresult ck_emu_event_wait(CUevent handle, struct ck_emu_stream *stream)
{
	struct event *event;
	CUresult result = begin(handle, &event);

	if (result != CUDA_SUCCESS)
		return result;
	result = ck_emu_event_wait_object(&event->base, stream);
	ck_emu_object_put(&event->base);
	return result;
}

CUresult cuStreamWaitEvent(CUstream hStream, CUevent hEvent, unsigned int Flags)
{
	const CUgraphNodeParams node = {.type = CU_GRAPH_NODE_TYPE_WAIT_EVENT,
					.eventWait.event = hEvent};
	struct ck_emu_context *context;
	struct ck_emu_stream *stream;
	struct event *event;
	CUresult result = ck_emu_enter(&context);

	if (result != CUDA_SUCCESS)
		return result;
	if (Flags & ~(unsigned int)CU_EVENT_WAIT_EXTERNAL)
		return CUDA_ERROR_INVALID_VALUE;
	result = ck_emu_stream_get(hStream, context, &stream);
	if (result != CUDA_SUCCESS)
		return result;
	result = begin(hEvent, &event);
	if (result != CUDA_SUCCESS)
		goto put_stream;
	if (Flags)
		result = ck_emu_capturing(stream) ? ck_emu_capture_node(stream, &node, NULL, 0)
						  : CUDA_ERROR_ILLEGAL_STATE;
	else if (ck_emu_capturing(stream) && !recorded(event))
		result = ck_emu_capture_nothing(stream);
	else if (ck_emu_capturing(stream) || ck_emu_capture_marked(&event->place))
		result = ck_emu_capture_join(stream, &event->place);
	else
		result = ck_emu_event_wait_object(&event->base, stream);
	ck_emu_object_put(&event->base);
put_stream:
	ck_emu_object_put(&stream->base);
	return result;
}
