/*
 * emu/objects/event.c - events: the place of the last record in its stream, and the time it was
 * reached.
 *
 * A waiter copies the place, so recording the event again does not change its wait.
 */
#include <stdlib.h>
#include <time.h>

#include "emu/core/emu.h"
#include "emu/core/locks.h"
#include "emu/core/hooks.h"
#include "emu/objects/event_part.h"
#include "util/until.h"

struct record {
	struct ck_emu_command command;
	struct ck_emu_event *event; /* holds a reference */
	uint64_t number;
	uint64_t shared; /* number of the record among those of all processes */
};

static struct ck_mutex events_lock = CK_MUTEX(CK_RANK_EVENTS);

static void event_free(struct ck_emu_object *object)
{
	struct ck_emu_event *event = (struct ck_emu_event *)object;

	ck_emu_point_put(&event->point);
	ck_emu_hooks->capture_place_fini(&event->place);
	ck_emu_ipc_event_close(event->shared, event->shared_fd);
	free(event);
}

static CUresult record_run(struct ck_emu_command *command, struct ck_emu_context *context)
{
	struct record *record = (struct record *)command;

	(void)context;
	ck_lock(&events_lock);
	if (record->number == record->event->records)
		record->event->time = (int64_t)ck_now_ns();
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

CUresult ck_emu_event_begin(CUevent handle, struct ck_emu_event **event)
{
	CUresult result = ck_emu_enter_bare();

	if (result != CUDA_SUCCESS)
		return result;
	*event = ck_emu_object_get(handle, CK_EMU_EVENT);
	return *event ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

void ck_emu_event_point(struct ck_emu_event *event, struct ck_emu_point *point)
{
	ck_lock(&events_lock);
	*point = event->point;
	ck_emu_point_ref(point);
	ck_unlock(&events_lock);
}

bool ck_emu_event_recorded(struct ck_emu_event *event)
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
	struct ck_emu_event *event = calloc(1, sizeof(*event));
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
	*fd = ((struct ck_emu_event *)event)->shared_fd;
	return ((struct ck_emu_event *)event)->shared;
}

CUresult cuEventDestroy_v2(CUevent hEvent)
{
	struct ck_emu_event *event;
	CUresult result = ck_emu_event_begin(hEvent, &event);

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
static CUresult record_submit(struct ck_emu_event *event, struct ck_emu_stream *stream)
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
	struct ck_emu_event *event = ck_emu_object_get(handle, CK_EMU_EVENT);

	if (!event)
		return CUDA_ERROR_INVALID_HANDLE;
	/* an event is recorded in its own context only */
	if (event->base.context != stream->base.context) {
		ck_emu_object_put(&event->base);
		return CUDA_ERROR_INVALID_HANDLE;
	}
	if (ck_emu_capturing(stream)) {
		CUresult result = ck_emu_hooks->capture_mark(stream, &event->place);

		ck_emu_object_put(&event->base);
		return result;
	}
	if (ck_emu_capture_marked(&event->place))
		ck_emu_hooks->capture_unmark(&event->place);
	return record_submit(event, stream);
}

CUresult ck_emu_event_record_object(struct ck_emu_object *event, struct ck_emu_stream *stream)
{
	ck_emu_object_ref(event);
	return record_submit((struct ck_emu_event *)event, stream);
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
		result = ck_emu_hooks->capture_node(stream, &node, NULL, 0);
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
static CUresult event_ask(struct ck_emu_event *event)
{
	CUresult result = ck_emu_context_state(event->base.context);

	if (result == CUDA_SUCCESS && ck_emu_capture_marked(&event->place))
		result = ck_emu_hooks->capture_asked(&event->place);
	return result == CUDA_SUCCESS ? ck_emu_hooks->capture_unsafe() : result;
}

/* Whether all records of all processes are reached, of an event that is not shared: yes. */
static bool shared_reached(const struct ck_emu_event *event)
{
	return !event->shared ||
	       atomic_load(&event->shared->reached) >= atomic_load(&event->shared->recorded);
}

CUresult cuEventQuery(CUevent hEvent)
{
	struct ck_emu_point point;
	struct ck_emu_event *event;
	CUresult result = ck_emu_event_begin(hEvent, &event);

	if (result != CUDA_SUCCESS)
		return result;
	ck_emu_event_point(event, &point);
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
	struct ck_emu_event *event;
	CUresult result = ck_emu_event_begin(hEvent, &event);

	if (result != CUDA_SUCCESS)
		return result;
	result = event_ask(event);
	if (result != CUDA_SUCCESS)
		goto put_event;
	ck_emu_event_point(event, &point);
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
static bool is_timed(struct ck_emu_event *event)
{
	struct ck_emu_point point;
	bool recorded;

	ck_emu_event_point(event, &point);
	recorded = point.stream;
	ck_emu_point_put(&point);
	return recorded && !(event->flags & CU_EVENT_DISABLE_TIMING);
}

/* The time of a timed event's last record, or NOT_READY. */
static CUresult event_time(struct ck_emu_event *event, int64_t *time)
{
	struct ck_emu_point point;
	bool reached;

	ck_emu_event_point(event, &point);
	reached = ck_emu_point_reached(&point);
	ck_emu_point_put(&point);
	ck_lock(&events_lock);
	*time = event->time;
	ck_unlock(&events_lock);
	return reached ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult cuEventElapsedTime(float *pMilliseconds, CUevent hStart, CUevent hEnd)
{
	struct ck_emu_event *start, *end;
	CUresult result = ck_emu_event_begin(hStart, &start);
	int64_t from, to;

	if (result != CUDA_SUCCESS)
		return result;
	result = ck_emu_event_begin(hEnd, &end);
	if (result != CUDA_SUCCESS)
		goto put_start;
	result = ck_emu_context_state(start->base.context);
	if (result == CUDA_SUCCESS && !pMilliseconds)
		result = CUDA_ERROR_INVALID_VALUE;
	if (result == CUDA_SUCCESS && start->base.context != end->base.context)
		result = CUDA_ERROR_INVALID_HANDLE;
	if (result == CUDA_SUCCESS && ck_emu_capture_marked(&start->place))
		result = ck_emu_hooks->capture_timed(&start->place);
	if (result == CUDA_SUCCESS && ck_emu_capture_marked(&end->place))
		result = ck_emu_hooks->capture_timed(&end->place);
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
