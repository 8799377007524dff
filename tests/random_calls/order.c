/* tests/random_calls/order.c - what is ordered behind what, and the many ways to order it. */
#include <string.h>

#include "tests/random_calls/world.h"

static void join(struct world *w, unsigned s, unsigned t)
{
	unsigned *mine = w->order->known[s];
	const unsigned *others = w->order->known[t];

	for (unsigned i = 0; i < STREAMS; i++)
		mine[i] = mine[i] > others[i] ? mine[i] : others[i];
}

/* What the stream @s knows by its kind: the legacy stream and blocking streams wait for each
 * other. */
static void join_by_kind(struct world *w, unsigned s)
{
	if (w->capture != NULL || s == HOST)
		return;
	join(w, s, HOST);
	for (unsigned t = LEGACY; t < STREAMS; t++)
		if (s == LEGACY ? w->blocking[t] : w->blocking[s] && t == LEGACY)
			join(w, s, t);
}

void waited(struct world *w, unsigned s)
{
	if (w->capture == NULL)
		join(w, HOST, s);
}

void waited_for_all(struct world *w)
{
	for (unsigned s = LEGACY; s < STREAMS; s++)
		waited(w, s);
}

static void synchronise_stream(struct world *w, unsigned t)
{
	CUresult err;

	if (one_in(w, 3)) {
		do
			err = CU(cuStreamQuery)(w->stream[t]);
		while (err == CUDA_ERROR_NOT_READY);
		note(w, "cuStreamQuery", err);
	} else {
		CALL(w, cuStreamSynchronize, w->stream[t]);
	}
	waited(w, t);
}

static void synchronise_event(struct world *w, unsigned t)
{
	CUevent event = w->event[below(w, EVENTS)];
	CUresult err;

	join_by_kind(w, t);
	CALL(w, cuEventRecord, event, w->stream[t]);
	trace(w, "  in stream %u", t);
	if (one_in(w, 2)) {
		do
			err = CU(cuEventQuery)(event);
		while (err == CUDA_ERROR_NOT_READY);
		note(w, "cuEventQuery", err);
	} else {
		CALL(w, cuEventSynchronize, event);
	}
	waited(w, t);
}

static void wait_for_event(struct world *w, unsigned s, unsigned t)
{
	CUevent event = w->event[below(w, EVENTS)];

	join_by_kind(w, t);
	CALL(w, cuEventRecord, event, w->stream[t]);
	CALL(w, cuStreamWaitEvent, w->stream[s], event, 0);
	join(w, s, t);
	join_by_kind(w, s);
	if (w->capture != NULL)
		w->forked |= 1u << s;
}

static void wait_for_value(struct world *w, unsigned s, unsigned t)
{
	CUdeviceptr word = w->flags + t * sizeof(cuuint32_t);

	join_by_kind(w, t);
	w->flag++;
	CALL(w, cuStreamWriteValue32_v2, w->stream[t], word, w->flag, 0);
	CALL(w, cuStreamWaitValue32_v2, w->stream[s], word, w->flag, 0);
	join(w, s, t);
	join_by_kind(w, s);
}

/* Lets the next operation of @s follow what @t has got so far. */
static void order_behind(struct world *w, unsigned s, unsigned t)
{
	if (w->capture != NULL) {
		wait_for_event(w, s, t);
		return;
	}
	switch (below(w, s == HOST ? 4 : 8)) {
	case 0:
		CALL(w, cuCtxSynchronize);
		waited_for_all(w);
		break;
	case 1:
	case 2:
		synchronise_stream(w, t);
		break;
	case 3:
		synchronise_event(w, t);
		break;
	case 4:
		wait_for_value(w, s, t);
		break;
	default:
		wait_for_event(w, s, t);
	}
	/* what else @s will follow by its kind, it follows with its next operation */
	join(w, s, HOST);
}

static void order_use(struct world *w, unsigned s, const struct use *use)
{
	unsigned i = (unsigned)(use->buffer - w->buffer), t = w->order->of[i].writer;

	if (w->order->known[s][t] < w->order->of[i].written)
		order_behind(w, s, t);
	for (t = 0; use->write && t < STREAMS; t++)
		if (w->order->known[s][t] < w->order->of[i].read[t])
			order_behind(w, s, t);
}

/* A launch of the graph will use this. */
void keep_in_graph(struct graph *g, const struct use *use)
{
	unsigned n = 0;

	while (n < g->count && g->uses[n].buffer != use->buffer)
		n++;
	if (n == g->count) {
		g->uses[g->count++] = *use;
		use->buffer->graphs++;
	}
	g->uses[n].write |= use->write;
}

static void keep_use(struct world *w, unsigned s, const struct use *use)
{
	unsigned i = (unsigned)(use->buffer - w->buffer);

	if (use->write) {
		w->order->of[i].writer = s;
		w->order->of[i].written = w->order->known[s][s];
	} else {
		w->order->of[i].read[s] = w->order->known[s][s];
	}
	if (w->capture != NULL)
		keep_in_graph(w->capture, use);
}

static void follow_capture(struct world *w, unsigned s)
{
	if (w->capture != NULL && (w->forked & 1u << s) == 0)
		wait_for_event(w, s, w->capturing);
}

static void add_operation(struct world *w, unsigned s, const struct use *uses, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		order_use(w, s, &uses[i]);
	w->order->known[s][s]++;
	for (unsigned i = 0; i < count; i++) {
		trace(w, "stream %u %s buffer %d", s, uses[i].write ? "writes" : "reads",
		      (int)(uses[i].buffer - w->buffer));
		keep_use(w, s, &uses[i]);
	}
}

/* An operation of the stream @s is about to be submitted, which uses these buffers. */
void submit(struct world *w, unsigned s, const struct use *uses, unsigned count)
{
	follow_capture(w, s);
	join_by_kind(w, s);
	add_operation(w, s, uses, count);
}

/* The stream allocates or frees the buffer. Such an operation may need no time in the stream: then
 * it does not wait for streams of other kinds. */
void use_as_memory(struct world *w, unsigned s, struct buffer *b)
{
	follow_capture(w, s);
	add_operation(w, s, &(struct use){b, true}, 1);
}

void use_one(struct world *w, unsigned s, struct buffer *b, bool write)
{
	submit(w, s, &(struct use){b, write}, 1);
}

void use_two(struct world *w, unsigned s, struct buffer *dst, struct buffer *src)
{
	submit(w, s, (struct use[]){{src, false}, {dst, true}}, 2);
}

/* The reads of @b by @s so far, for read_is_over(). */
unsigned reads_of(struct world *w, unsigned s, struct buffer *b)
{
	return w->order->of[b - w->buffer].read[s];
}

/* The operation just submitted has read all that it reads of @b; earlier ones may not have. */
void read_is_over(struct world *w, unsigned s, struct buffer *b, unsigned before)
{
	if (w->capture == NULL)
		w->order->of[b - w->buffer].read[s] = before;
}

unsigned some_stream(struct world *w)
{
	if (w->capture != NULL)
		return one_in(w, 3) ? FIRST_CREATED + below(w, STREAMS - FIRST_CREATED)
				    : w->capturing;
	return one_in(w, 4) ? LEGACY + below(w, 2)
			    : FIRST_CREATED + below(w, STREAMS - FIRST_CREATED);
}

/* A wait that nothing asks for. */
void wait_somehow(struct world *w)
{
	unsigned s = some_stream(w), t = some_stream(w);

	order_behind(w, one_in(w, 2) ? HOST : s, t);
}
