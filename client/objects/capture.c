/*
 * client/objects/capture.c - the active captures, and the rules of their modes; see capture.h.
 */
#include <stdlib.h>

#include "client/objects/capture.h"
#include "client/objects/capture_list.h"

static struct ckc_captures *get_captures(void)
{
	return &ckc_client_current()->objects->captures;
}

/* Find the active capture with number @sequence. Call with the lock held, as for the next
 * functions. */
static struct ckc_capture *find_capture(const struct ckc_captures *all, uint64_t sequence)
{
	struct ckc_capture *c = all->list;

	while (c && c->sequence != sequence)
		c = c->next;
	return sequence ? c : NULL;
}

static struct ckc_capture *capture_of(const struct ckc_captures *all,
				      const struct ckc_stream *stream)
{
	return stream ? find_capture(all, atomic_load(&stream->capture)) : NULL;
}

/* The legacy stream synchronises with all streams of its context except the non-blocking ones, so a
 * capture of one forbids work in it. */
static CUresult refuse_legacy(const struct ckc_captures *all, bool lose)
{
	const struct ckc_context *context = ckc_context_current();
	CUresult err = CUDA_SUCCESS;

	for (struct ckc_capture *c = all->list; c; c = c->next) {
		if (c->blocking && c->context == context) {
			c->invalid |= lose;
			err = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
		}
	}
	return err;
}

bool ckc_capture_has(const struct ckc_stream *stream)
{
	struct ckc_captures *all = get_captures();
	bool has;

	ck_lock(&all->lock);
	has = capture_of(all, stream) != NULL;
	ck_unlock(&all->lock);
	return has;
}

CUresult ckc_capture_refuses_work(struct ckc_stream *stream)
{
	struct ckc_captures *all = get_captures();
	const struct ckc_capture *c;
	CUresult err = CUDA_SUCCESS;

	ck_lock(&all->lock);
	c = capture_of(all, stream);
	if (!stream)
		err = refuse_legacy(all, true);
	else if (c && c->invalid)
		err = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	ck_unlock(&all->lock);
	return err;
}

CUresult ckc_capture_legacy(void)
{
	struct ckc_captures *all = get_captures();
	CUresult err;

	ck_lock(&all->lock);
	err = refuse_legacy(all, false);
	ck_unlock(&all->lock);
	return err;
}

CUresult ckc_capture_refuses_wait(struct ckc_stream *stream)
{
	struct ckc_captures *all = get_captures();
	struct ckc_capture *c;
	CUresult err = CUDA_SUCCESS;

	ck_lock(&all->lock);
	c = capture_of(all, stream);
	if (!stream) {
		err = refuse_legacy(all, true);
	} else if (c) {
		c->invalid = true;
		err = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	}
	ck_unlock(&all->lock);
	return err;
}

CUresult ckc_capture_refuses_context(struct ckc_context *context)
{
	struct ckc_captures *all = get_captures();
	CUresult err = CUDA_SUCCESS;

	ck_lock(&all->lock);
	for (struct ckc_capture *c = all->list; c; c = c->next) {
		if (c->context == context) {
			c->invalid = true;
			err = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
		}
	}
	ck_unlock(&all->lock);
	return err;
}

/* Does @c forbid unsafe calls to thread @t, given the thread's own mode? */
static bool capture_forbids(const struct ckc_capture *c, const struct ckc_thread *t)
{
	if (t->capture_mode == CU_STREAM_CAPTURE_MODE_RELAXED)
		return false;
	if (c->thread == t)
		return c->mode != CU_STREAM_CAPTURE_MODE_RELAXED;
	return c->mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
	       t->capture_mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
}

CUresult ckc_capture_refuses_unsafe(void)
{
	struct ckc_captures *all = get_captures();
	const struct ckc_thread *t = ckc_thread();
	CUresult err = CUDA_SUCCESS;

	if (!t)
		return CUDA_ERROR_OUT_OF_MEMORY;
	ck_lock(&all->lock);
	for (struct ckc_capture *c = all->list; c; c = c->next) {
		if (capture_forbids(c, t)) {
			c->invalid = true;
			err = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
		}
	}
	ck_unlock(&all->lock);
	return err;
}

CUresult ckc_capture_refuses_question(struct ckc_stream *stream)
{
	CUresult err = ckc_capture_refuses_wait(stream);

	return err ? err : ckc_capture_refuses_unsafe();
}

void ckc_capture_record(struct ckc_event *event, const struct ckc_stream *stream)
{
	struct ckc_captures *all = get_captures();
	struct ckc_capture *c = NULL;

	event->recorded = true;
	if (!ckc_captures_any()) {
		event->capture = 0;
		return;
	}
	ck_lock(&all->lock);
	c = capture_of(all, stream);
	event->capture = c ? c->sequence : 0;
	ck_unlock(&all->lock);
}

/* @stream, which is part of @c (or of no capture), waits for an event of capture @other. */
static CUresult join_capture(struct ckc_stream *stream, struct ckc_capture *c,
			     struct ckc_capture *other)
{
	if (!stream) {
		other->invalid = true;
		return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	}
	if (c && c != other) {
		c->invalid = other->invalid = true;
		return CUDA_ERROR_STREAM_CAPTURE_MERGE;
	}
	stream->capture = other->sequence;
	other->blocking |= !(stream->flags & CU_STREAM_NON_BLOCKING);
	return CUDA_SUCCESS;
}

/* Was the event recorded in a capture that has ended or is invalid? Then the record is void. */
static bool record_is_stale(const struct ckc_captures *all, const struct ckc_event *event)
{
	const struct ckc_capture *c = find_capture(all, event->capture);

	return event->capture && (!c || c->invalid);
}

CUresult ckc_capture_join(struct ckc_stream *stream, const struct ckc_event *event)
{
	struct ckc_captures *all = get_captures();
	struct ckc_capture *c;
	CUresult err = CUDA_SUCCESS;

	if (!ckc_captures_any() && !event->capture)
		return CUDA_SUCCESS;
	ck_lock(&all->lock);
	c = capture_of(all, stream);
	if (record_is_stale(all, event))
		err = CUDA_ERROR_INVALID_VALUE;
	else if (event->capture)
		err = join_capture(stream, c, find_capture(all, event->capture));
	else if (c && event->recorded)
		err = CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
	if (c && err)
		c->invalid = true;
	ck_unlock(&all->lock);
	return err;
}

CUresult ckc_capture_ask(const struct ckc_event *event)
{
	struct ckc_captures *all = get_captures();
	CUresult err = CUDA_SUCCESS;

	if (event->capture) {
		ck_lock(&all->lock);
		err = record_is_stale(all, event) ? CUDA_ERROR_INVALID_VALUE
						  : CUDA_ERROR_CAPTURED_EVENT;
		if (err == CUDA_ERROR_CAPTURED_EVENT)
			find_capture(all, event->capture)->invalid = true;
		ck_unlock(&all->lock);
	}
	return err ? err : ckc_capture_unsafe();
}

static void take_out(struct ckc_captures *all, struct ckc_capture *c)
{
	struct ckc_capture **at = &all->list;

	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
	atomic_fetch_sub(&all->count, 1);
	free(c);
}

void ckc_capture_lose_stream(struct ckc_stream *stream)
{
	struct ckc_captures *all = get_captures();
	struct ckc_capture *c;

	ck_lock(&all->lock);
	c = capture_of(all, stream);
	if (c && c->origin == stream->object.id)
		take_out(all, c);
	ck_unlock(&all->lock);
}

void ckc_capture_fail_stream(const struct ckc_stream *stream)
{
	struct ckc_captures *all = get_captures();
	struct ckc_capture *c;

	ck_lock(&all->lock);
	c = capture_of(all, stream);
	if (c)
		c->invalid = true;
	ck_unlock(&all->lock);
}

CUresult ckc_capture_note(struct ckc_stream *stream, CUstreamCaptureMode mode, uint64_t graph)
{
	struct ckc_captures *all = get_captures();
	static _Atomic uint64_t last; /* per process: ids are never reused */
	const struct ckc_thread *t = ckc_thread();
	struct ckc_capture *c = t ? calloc(1, sizeof(*c)) : NULL;

	if (!c)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*c = (struct ckc_capture){
		.origin = stream->object.id,
		.context = stream->object.context,
		.thread = t,
		.mode = mode,
		.graph = graph,
		.to_graph = graph != 0,
		.blocking = !(stream->flags & CU_STREAM_NON_BLOCKING),
	};
	ck_lock(&all->lock);
	c->sequence = atomic_fetch_add(&last, 1) + 1;
	c->next = all->list;
	all->list = c;
	stream->capture = c->sequence;
	atomic_fetch_add(&all->count, 1);
	ck_unlock(&all->lock);
	return CUDA_SUCCESS;
}

bool ckc_capture_find(const struct ckc_stream *stream, struct ckc_capture *out)
{
	struct ckc_captures *all = get_captures();
	const struct ckc_capture *c;

	ck_lock(&all->lock);
	c = capture_of(all, stream);
	if (c)
		*out = *c;
	ck_unlock(&all->lock);
	return c != NULL;
}

void ckc_capture_forget(uint64_t sequence)
{
	struct ckc_captures *all = get_captures();
	struct ckc_capture *c;

	ck_lock(&all->lock);
	c = find_capture(all, sequence);
	if (c)
		take_out(all, c);
	ck_unlock(&all->lock);
}

void ckc_capture_invalidate(uint64_t sequence)
{
	struct ckc_captures *all = get_captures();
	struct ckc_capture *c;

	ck_lock(&all->lock);
	c = find_capture(all, sequence);
	if (c)
		c->invalid = true;
	ck_unlock(&all->lock);
}

void ckc_capture_shown(uint64_t sequence, uint64_t graph)
{
	struct ckc_captures *all = get_captures();
	struct ckc_capture *c;

	ck_lock(&all->lock);
	c = find_capture(all, sequence);
	if (c)
		c->graph = graph;
	ck_unlock(&all->lock);
}

bool ckc_capture_fills(uint64_t graph)
{
	struct ckc_captures *all = get_captures();
	const struct ckc_capture *c;

	ck_lock(&all->lock);
	c = all->list;
	while (c && c->graph != graph)
		c = c->next;
	ck_unlock(&all->lock);
	return c != NULL;
}
