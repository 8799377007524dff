/*
 * emu/objects/event_wait.c - streams that wait for events.
 */
#include <stdlib.h>

#include "emu/core/emu.h"
#include "emu/core/hooks.h"
#include "emu/objects/event_part.h"

/* A wait; for a shared event it is for a record that may be another process's. */
struct wait {
	struct ck_emu_command command;
	struct ck_emu_event *event; /* holds a reference; NULL: the command's `after` is all */
	uint64_t number;
};

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
	struct ck_emu_event *event = (struct ck_emu_event *)object;
	struct ck_emu_point point;
	struct wait *wait;
	CUresult result;

	ck_emu_event_point(event, &point);
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
	struct ck_emu_event *event;
	CUresult result = ck_emu_event_begin(handle, &event);

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
	struct ck_emu_event *event;
	CUresult result = ck_emu_enter(&context);

	if (result != CUDA_SUCCESS)
		return result;
	if (Flags & ~(unsigned int)CU_EVENT_WAIT_EXTERNAL)
		return CUDA_ERROR_INVALID_VALUE;
	result = ck_emu_stream_get(hStream, context, &stream);
	if (result != CUDA_SUCCESS)
		return result;
	result = ck_emu_event_begin(hEvent, &event);
	if (result != CUDA_SUCCESS)
		goto put_stream;
	if (Flags)
		result = ck_emu_capturing(stream)
				 ? ck_emu_hooks->capture_node(stream, &node, NULL, 0)
				 : CUDA_ERROR_ILLEGAL_STATE;
	else if (ck_emu_capturing(stream) && !ck_emu_event_recorded(event))
		result = ck_emu_hooks->capture_nothing(stream);
	else if (ck_emu_capturing(stream) || ck_emu_capture_marked(&event->place))
		result = ck_emu_hooks->capture_join(stream, &event->place);
	else
		result = ck_emu_event_wait_object(&event->base, stream);
	ck_emu_object_put(&event->base);
put_stream:
	ck_emu_object_put(&stream->base);
	return result;
}
