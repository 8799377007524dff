/*
 * client/objects/event_times.c - see client/objects/event_times.h.
 */
#include <stdlib.h>

#include "client/objects/event_times.h"
#include "client/link/client.h"
#include "rpc/status.h"

#define CREDIT 8      /* so many waits bring times after one that the program asked for */
#define AHEAD_MOST 64 /* pairs with a wait */

/* Pairs that travel together. */
struct batch {
	unsigned int count;
	uint64_t start[CK_TIMES_MOST], end[CK_TIMES_MOST]; /* ids of the events */
	uint64_t start_version[CK_TIMES_MOST];
	uint64_t number[CK_TIMES_MOST]; /* of the record of the end; 0: not kept */
};

static struct ckc_times *times_of(const struct ckc_event *e)
{
	return &e->object.context->client->objects->times;
}

/* The record with this number, or NULL if it is not kept. Locked. */
static struct ckc_record *record_find(struct ckc_times *t, uint64_t number)
{
	struct ckc_record *r = &t->kept[number % CK_RECORDS_KEPT];

	return number && r->number == number ? r : NULL;
}

static void forget_record(struct ckc_times *t, struct ckc_event *e)
{
	struct ckc_record *r = record_find(t, e->order);

	if (r)
		r->number = 0;
	e->order = 0;
}

void ckc_times_record(struct ckc_event *e, uint64_t version)
{
	struct ckc_times *t = times_of(e);
	int cancel;

	if (e->flags & CU_EVENT_DISABLE_TIMING)
		return;
	cancel = ck_lock_uncancelled(&t->lock);
	forget_record(t, e);
	e->order = ++t->records;
	t->kept[e->order % CK_RECORDS_KEPT] = (struct ckc_record){
		.number = e->order,
		.event = e->object.id,
		.context = e->object.context->object.id,
		.version = version,
	};
	ck_unlock_uncancelled(&t->lock, cancel);
}

void ckc_times_forget(struct ckc_event *e)
{
	struct ckc_times *t = times_of(e);
	int cancel;

	if (e->order == 0)
		return;
	cancel = ck_lock_uncancelled(&t->lock);
	forget_record(t, e);
	ck_unlock_uncancelled(&t->lock, cancel);
}

/* --- pairs */

static const float *time_find(const struct ckc_record *end, uint64_t start_version)
{
	for (unsigned int i = 0; i < CK_TIMES_KEPT; i++) {
		if (end->time[i].start == start_version)
			return &end->time[i].milliseconds;
	}
	return NULL;
}

static void time_keep(struct ckc_record *end, uint64_t start_version, float milliseconds)
{
	end->time[end->oldest] = (struct ckc_elapsed){start_version, milliseconds};
	end->oldest = (end->oldest + 1) % CK_TIMES_KEPT;
}

/* Add the pair of two records if both are kept and its time is not known. Locked. */
static void add_pair(struct batch *b, struct ckc_times *t, uint64_t start, uint64_t end)
{
	const struct ckc_record *from = record_find(t, start), *to = record_find(t, end);
	unsigned int i = b->count;

	if (!from || !to || from->context != to->context || time_find(to, from->version))
		return;
	b->start[i] = from->event;
	b->end[i] = to->event;
	b->start_version[i] = from->version;
	b->number[i] = end;
	b->count++;
}

/* Add pairs that end with the records after @last, as the program has asked for. */
static void add_later(struct batch *b, struct ckc_times *t, uint64_t last, unsigned int most)
{
	for (uint64_t end = last + 1; end <= t->records && b->count < most; end++)
		add_pair(b, t, t->same_start ? t->start : end - t->distance, end);
}

/* The program asks for the time between these records; so it may for others. Locked. */
static void note_question(struct ckc_times *t, uint64_t start, uint64_t end)
{
	if (start == 0 || end == 0)
		return;
	t->credit = CREDIT;
	t->same_start = t->start == start && t->distance != end - start;
	t->start = start;
	t->distance = end - start;
}

static void keep_answers(struct ckc_times *t, const struct batch *b, const float *times,
			 unsigned int count)
{
	int cancel = ck_lock_uncancelled(&t->lock);

	for (unsigned int i = 0; i < count; i++) {
		struct ckc_record *end = record_find(t, b->number[i]);

		if (end && !time_find(end, b->start_version[i]))
			time_keep(end, b->start_version[i], times[i]);
	}
	ck_unlock_uncancelled(&t->lock, cancel);
}

/* Keep the times, which the wire has allocated; the first one goes to @first. Returns how many
 * there are. */
static unsigned int take_times(struct ckc_times *t, const struct batch *b, char *bytes, size_t size,
			       float *first)
{
	const float *times = (const float *)(const void *)bytes;
	unsigned int count = (unsigned int)ck_min(size / sizeof(*times), (size_t)b->count);

	keep_answers(t, b, times, count);
	if (first && count)
		*first = times[0];
	free(bytes);
	return count;
}

/* Ask for the pairs, after a wait for the event with id @event unless that is 0. An answer to the
 * first one goes to @first, which may be NULL. */
static CUresult ask_times(uint64_t ctx, struct ckc_times *t, struct batch *b, uint64_t event,
			  float *first)
{
	ck_event_times_args args = {.head.ctx = ctx,
				    .wait = event,
				    .starts = {b->count, b->start},
				    .ends = {b->count, b->end}};
	ck_event_times_res res;
	CUresult err = ck_wire_event_times(&args, &res);
	unsigned int count = take_times(t, b, res.times.times_val, res.times.times_len, first);

	return err || count || !first ? err : CUDA_ERROR_UNKNOWN;
}

/* --- questions */

/* The number of the record @version of @e, if it is kept. Locked. */
static uint64_t number_of(struct ckc_times *t, const struct ckc_event *e, uint64_t version)
{
	const struct ckc_record *r = record_find(t, e->order);

	return r && r->version == version ? r->number : 0;
}

/* Look for the time in earlier answers. */
static bool find_known(struct ckc_times *t, const struct ckc_pair *p, float *milliseconds)
{
	int cancel = ck_lock_uncancelled(&t->lock);
	uint64_t number = number_of(t, p->end, p->end_version);
	const struct ckc_record *end = record_find(t, number);
	const float *time = end ? time_find(end, p->start_version) : NULL;

	if (time)
		*milliseconds = *time;
	note_question(t, number_of(t, p->start, p->start_version), number);
	ck_unlock_uncancelled(&t->lock, cancel);
	return time;
}

/* The question about a pair, and, with @later, about those that may follow. */
static void fill_question(struct batch *b, struct ckc_times *t, const struct ckc_pair *p,
			  bool later)
{
	int cancel = ck_lock_uncancelled(&t->lock);

	b->count = 1;
	b->start[0] = p->start->object.id;
	b->end[0] = p->end->object.id;
	b->start_version[0] = p->start_version;
	b->number[0] = number_of(t, p->end, p->end_version);
	if (later && b->number[0] && number_of(t, p->start, p->start_version))
		add_later(b, t, b->number[0], CK_TIMES_MOST);
	ck_unlock_uncancelled(&t->lock, cancel);
}

CUresult ckc_times_between(uint64_t ctx, const struct ckc_pair *p, float *milliseconds)
{
	struct ckc_client *c = p->end->object.context->client;
	struct ckc_times *t = &c->objects->times;
	bool later = ckc_session_offers(c, CK_PROC_event_times);
	struct batch *b;
	CUresult err;

	if (find_known(t, p, milliseconds))
		return CUDA_SUCCESS;
	b = malloc(sizeof(*b));
	if (!b)
		return CUDA_ERROR_OUT_OF_MEMORY;
	fill_question(b, t, p, later && atomic_load(&c->objects->captures.count) == 0);
	if (later) {
		err = ask_times(ctx, t, b, 0, milliseconds);
	} else {
		err = ck_wire_cuEventElapsedTime_v2(ctx, milliseconds, b->start[0], b->end[0]);
		keep_answers(t, b, milliseconds, err ? 0 : 1);
	}
	free(b);
	return err;
}

/* --- waits */

/* Choose the pairs for a wait. Locked. */
static void fill_ahead(struct batch *b, struct ckc_times *t)
{
	b->count = 0;
	if (t->records > t->covered + AHEAD_MOST)
		t->covered = t->records - AHEAD_MOST;
	add_later(b, t, t->covered, AHEAD_MOST);
	t->covered = t->records;
	if (b->count && t->credit)
		t->credit--;
}

/* The pairs that a wait brings; NULL: none. The caller frees them. */
static struct batch *begin_ahead(const struct ckc_client *c)
{
	struct ckc_times *t = &c->objects->times;
	struct batch *b;
	int cancel;

	if (likely(atomic_load_explicit(&t->credit, memory_order_relaxed) == 0) ||
	    !ckc_session_offers(c, CK_PROC_event_times) ||
	    atomic_load(&c->objects->captures.count) != 0)
		return NULL;
	b = malloc(sizeof(*b));
	if (!b)
		return NULL;
	cancel = ck_lock_uncancelled(&t->lock);
	fill_ahead(b, t);
	ck_unlock_uncancelled(&t->lock, cancel);
	if (b->count)
		return b;
	free(b);
	return NULL;
}

CUresult ckc_times_wait_event(uint64_t ctx, const struct ckc_event *e)
{
	struct ckc_client *c = e->object.context->client;
	struct batch *b = begin_ahead(c);
	CUresult err;

	if (likely(!b))
		return ck_wire_cuEventSynchronize(ctx, e->object.id);
	err = ask_times(ctx, &c->objects->times, b, e->object.id, NULL);
	free(b);
	return err;
}

CUresult ckc_times_wait_work(const struct ckc_context *ctx, uint64_t stream, bool whole)
{
	struct batch *b = begin_ahead(ctx->client);
	ck_wait_times_args args = {.head.ctx = ctx->object.id, .stream = stream, .context = whole};
	ck_wait_times_res res;
	CUresult err;

	if (likely(!b))
		return whole ? ck_wire_cuCtxSynchronize(ctx->object.id)
			     : ck_wire_cuStreamSynchronize(ctx->object.id, stream);
	args.starts.starts_len = args.ends.ends_len = b->count;
	args.starts.starts_val = b->start;
	args.ends.ends_val = b->end;
	err = ck_wire_wait_times(&args, &res);
	take_times(&ctx->client->objects->times, b, res.times.times_val, res.times.times_len, NULL);
	free(b);
	return err;
}
