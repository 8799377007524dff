/*
 * emu/objects/thread.c - the state of one thread of the application: its stack of contexts, its own
 * streams, its capture mode.
 */
#include <errno.h>
#include <stdlib.h>

#include "emu/core/hooks.h"

/* One thread's stream of one context. */
struct own_stream {
	struct own_stream *next;
	struct ck_emu_stream *stream;
};

struct current {
	struct ck_emu_context *context;
	CUcontext handle; /* of the context, or of a view of it */
};

struct thread {
	struct current *stack;
	size_t depth, room;
	struct own_stream *streams;
	CUstreamCaptureMode capture_mode;
	CUstream default_stream; /* meaning of a null handle; NULL: the legacy stream */
	ck_emu_take_fn *take;	 /* who gets the work that it queues; NULL: its stream */
	bool registered;
};

static _Thread_local struct thread self;
static pthread_key_t key;
static pthread_once_t key_once = PTHREAD_ONCE_INIT;

/* Runs when a thread ends; its TLS is still there. */
static void thread_end(void *arg)
{
	struct thread *thread = arg;

	while (thread->depth)
		ck_emu_object_put(&thread->stack[--thread->depth].context->base);
	free(thread->stack);
	thread->stack = NULL;
	thread->room = 0;
	while (thread->streams) {
		struct own_stream *own = thread->streams;

		thread->streams = own->next;
		ck_emu_hooks->stream_end(own->stream);
		ck_emu_stream_close(own->stream);
		ck_emu_object_put(&own->stream->base);
		free(own);
	}
	thread->registered = false;
}

static void key_create(void)
{
	pthread_key_create(&key, thread_end);
}

/* See that thread_end() will run for this thread. */
static void thread_register(void)
{
	if (self.registered)
		return;
	pthread_once(&key_once, key_create);
	self.registered = pthread_setspecific(key, &self) == 0;
}

struct ck_emu_context *ck_emu_thread_context(void)
{
	return self.depth ? self.stack[self.depth - 1].context : NULL;
}

CUcontext ck_emu_thread_handle(void)
{
	return self.depth ? self.stack[self.depth - 1].handle : NULL;
}

int ck_emu_thread_push(struct ck_emu_context *context, CUcontext handle)
{
	if (self.depth == self.room) {
		size_t room = self.room ? 2 * self.room : 8;
		void *bigger = realloc(self.stack, room * sizeof(*self.stack));

		if (!bigger)
			return -ENOMEM;
		self.stack = bigger;
		self.room = room;
	}
	thread_register();
	ck_emu_object_ref(&context->base);
	self.stack[self.depth++] = (struct current){context, handle};
	return 0;
}

struct ck_emu_context *ck_emu_thread_pop(void)
{
	return self.depth ? self.stack[--self.depth].context : NULL;
}

struct ck_emu_stream *ck_emu_thread_stream(struct ck_emu_context *context)
{
	struct own_stream **link = &self.streams, *own;
	struct ck_emu_stream *stream;

	while ((own = *link)) {
		if (ck_emu_stream_closing(own->stream)) { /* its context was destroyed or reset */
			*link = own->next;
			ck_emu_object_put(&own->stream->base);
			free(own);
			continue;
		}
		if (own->stream->base.context == context) {
			ck_emu_object_ref(&own->stream->base);
			return own->stream;
		}
		link = &own->next;
	}
	own = malloc(sizeof(*own));
	stream = own ? ck_emu_stream_create(context, CU_STREAM_DEFAULT, 0) : NULL;
	if (!stream) {
		free(own);
		return NULL;
	}
	thread_register();
	own->stream = stream;
	own->next = self.streams;
	self.streams = own;
	ck_emu_object_ref(&stream->base);
	return stream;
}

CUstream ck_emu_thread_default(void)
{
	return self.default_stream;
}

CUstream ck_default_stream_set(CUstream stream)
{
	CUstream was = self.default_stream;

	self.default_stream = stream;
	return was;
}

void ck_emu_thread_redirect(ck_emu_take_fn *take)
{
	self.take = take;
}

ck_emu_take_fn *ck_emu_thread_redirected(void)
{
	return self.take;
}

CUstreamCaptureMode ck_emu_thread_capture_mode(CUstreamCaptureMode mode)
{
	CUstreamCaptureMode old = self.capture_mode;

	self.capture_mode = mode;
	return old;
}
