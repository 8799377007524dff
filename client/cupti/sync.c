/*
 * client/cupti/sync.c - records of waits, contexts and devices, which the client makes.
 *
 * Contexts and streams have the numbers of the server's CUPTI in all records, so it is asked once
 * about each.
 */
#include <string.h>

#include "client/cupti/call_numbers.h"
#include "client/cupti/cupti.h"
#include "cricket.h"
#include "gen/wire.h"

/* --- numbers */

static const struct ckc_cupti_place *known_place(struct ckc_cupti *s, uint64_t context,
						 uint64_t stream)
{
	for (unsigned int i = 0; i < s->place_count && i < CKC_CUPTI_PLACES; i++) {
		if (s->places[i].context == context && s->places[i].stream == stream)
			return &s->places[i];
	}
	return NULL;
}

bool ckc_cupti_find_place(struct ckc_client *c, const struct ckc_context *context, uint64_t stream,
			  struct ckc_cupti_place *out)
{
	struct ckc_cupti *s = c->cupti;
	const struct ckc_cupti_place *known;

	ck_lock(&s->lock);
	known = known_place(s, context->object.id, stream);
	if (known)
		*out = *known;
	ck_unlock(&s->lock);
	if (known)
		return false;
	*out = (struct ckc_cupti_place){context->object.id, stream,
					CUPTI_SYNCHRONIZATION_INVALID_VALUE,
					CUPTI_SYNCHRONIZATION_INVALID_VALUE};
	if (!s->told || !ckc_session_offers(c, CK_PROC_profile_stream) ||
	    ck_wire_profile_stream(context->object.id, stream, &out->context_number,
				   &out->stream_number))
		return false;
	ck_lock(&s->lock);
	s->places[s->place_count++ % CKC_CUPTI_PLACES] = *out;
	ck_unlock(&s->lock);
	return true;
}

uint32_t ckc_cupti_context_number(struct ckc_client *c)
{
	struct ckc_cupti_place place = {.context_number = 0};

	if (ckc_context_current())
		ckc_cupti_find_place(c, ckc_context_current(), 0, &place);
	return place.context_number;
}

/* --- contexts and devices */

void ckc_cupti_see_context(struct ckc_client *c)
{
	const struct ckc_context *context = ckc_context_current();
	struct ckc_cupti_place place;
	struct ck_cupti_context record = {.kind = CUPTI_ACTIVITY_KIND_CONTEXT,
					  .api = CUPTI_ACTIVITY_COMPUTE_API_CUDA};

	if (!context || !ckc_cupti_find_place(c, context, 0, &place))
		return;
	record.context = place.context_number;
	record.null_stream = (uint16_t)place.stream_number;
	record.device = (uint32_t)context->device;
	ckc_cupti_note(c->cupti, &record, sizeof(record));
}

static uint32_t get_attribute(int device, CUdevice_attribute which)
{
	return (uint32_t)ckc_gpu_attribute(device, which);
}

static void fill_limits(struct ck_cupti_device *d, int device)
{
	d->max_shared =
		get_attribute(device, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
	d->max_registers =
		get_attribute(device, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR);
	d->max_blocks = get_attribute(device, CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR);
	d->block_registers = get_attribute(device, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK);
	d->block_shared = get_attribute(device, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
	d->block_threads = get_attribute(device, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
	d->block_dim[0] = get_attribute(device, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X);
	d->block_dim[1] = get_attribute(device, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y);
	d->block_dim[2] = get_attribute(device, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z);
	d->grid_dim[0] = get_attribute(device, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X);
	d->grid_dim[1] = get_attribute(device, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y);
	d->grid_dim[2] = get_attribute(device, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z);
}

static void note_device(struct ckc_client *c, int device)
{
	const ck_device *facts = c->gpus[device].facts;
	struct ck_cupti_device d = {
		.kind = CUPTI_ACTIVITY_KIND_DEVICE,
		.flags = 1, /* kernels run concurrently */
		.memory = facts->memory,
		.constant_memory = get_attribute(device, CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY),
		.l2_cache = get_attribute(device, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE),
		.warp = get_attribute(device, CU_DEVICE_ATTRIBUTE_WARP_SIZE),
		.core_clock = get_attribute(device, CU_DEVICE_ATTRIBUTE_CLOCK_RATE),
		.copy_engines = get_attribute(device, CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT),
		.multiprocessors = get_attribute(device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT),
		.major = get_attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),
		.minor = get_attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR),
		.device = (uint32_t)device,
		.ecc = get_attribute(device, CU_DEVICE_ATTRIBUTE_ECC_ENABLED),
		.name = facts->name,
		.is_visible = 1,
	};

	/* kHz times bits, in both edges, as kB a second */
	d.bandwidth = (uint64_t)get_attribute(device, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE) *
		      get_attribute(device, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH) / 8 * 2;
	memcpy(d.uuid, facts->uuid, sizeof(d.uuid));
	fill_limits(&d, device);
	if (d.warp)
		d.max_warps =
			get_attribute(device, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR) /
			d.warp;
	ckc_cupti_note(c->cupti, &d, sizeof(d));
}

void ckc_cupti_note_devices(struct ckc_client *c)
{
	for (int i = 0; i < c->gpu_count; i++)
		note_device(c, i);
}

/* --- waits */

/* The kind of wait of a call; 0: none. */
static uint32_t type_of(uint32_t call)
{
	switch (call) {
	case CKC_CALL_cuStreamSynchronize:
	case CKC_CALL_cuStreamSynchronize_ptsz:
		return CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE;
	case CKC_CALL_cuCtxSynchronize:
	case CKC_CALL_cuCtxSynchronize_v2:
		return CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_CONTEXT_SYNCHRONIZE;
	case CKC_CALL_cuEventSynchronize:
		return CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_EVENT_SYNCHRONIZE;
	case CKC_CALL_cuStreamWaitEvent:
	case CKC_CALL_cuStreamWaitEvent_ptsz:
		return CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT;
	default:
		return 0;
	}
}

static void place_stream(struct ckc_client *c, CUstream handle, struct ck_cupti_sync *r)
{
	const struct ckc_context *context = ckc_context_current();
	struct ckc_stream *stream = NULL;
	struct ckc_cupti_place place;

	if (ckc_stream_from(handle, &stream))
		return;
	if (stream)
		context = stream->object.context;
	if (!context)
		return;
	ckc_cupti_find_place(c, context, stream ? stream->object.id : 0, &place);
	r->context = place.context_number;
	r->stream = place.stream_number;
}

static uint32_t event_number(CUevent handle)
{
	const struct ckc_event *event = ckc_object_check(handle, CK_OBJECT_EVENT);

	return event ? (uint32_t)event->object.id : CUPTI_SYNCHRONIZATION_INVALID_VALUE;
}

void ckc_cupti_note_sync(struct ckc_client *c, const struct ckc_call *call, uint64_t began,
			 uint32_t correlation)
{
	struct ck_cupti_sync r = {
		.kind = CUPTI_ACTIVITY_KIND_SYNCHRONIZATION,
		.type = type_of(call->number),
		.start = began,
		.end = ckc_cupti_clock(),
		.correlation = correlation,
		.stream = CUPTI_SYNCHRONIZATION_INVALID_VALUE,
		.event = CUPTI_SYNCHRONIZATION_INVALID_VALUE,
		.result = (uint32_t)call->result,
	};

	if (r.type == 0)
		return;
	r.context = ckc_cupti_context_number(c);
	if (r.type == CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_EVENT_SYNCHRONIZE) {
		r.event = event_number(*(const CUevent *)call->given);
	} else if (r.type != CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_CONTEXT_SYNCHRONIZE) {
		const struct {
			CUstream stream;
			CUevent event;
		} *given = call->given;

		place_stream(c, given->stream, &r);
		if (r.type == CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT)
			r.event = event_number(given->event);
	}
	ckc_cupti_note(c->cupti, &r, sizeof(r));
}
