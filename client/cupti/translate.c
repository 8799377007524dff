/*
 * client/cupti/translate.c - records from the server, in the program's numbers and times.
 *
 * Times go from the server's clock to the program's; between two readings of both (fetch.c) both
 * are taken to advance evenly. A session that has moved has another clock from then on: a step,
 * after which old and new times differ by their position.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/cupti/cupti.h"
#include "util/log.h"

CK_LOG_DEFINE("client");

#define MATCHES (1u << 18) /* numbers of the server that are remembered at a time */
#define NAMES_MAX (1u << 20)
#define TICKS_MAX 9e18
#define RATE_CHANGE 0.01 /* more than clocks drift */
#define STEP_LEAST 1e7	 /* ns of the server's clock */

/* --- times */

/* Local ticks per tick of the server's clock, as far as they are known: a program's own clock may
 * have any unit. */
static double rate_between(const struct ckc_cupti_sample *a, const struct ckc_cupti_sample *b)
{
	double local = (double)(int64_t)(b->local - a->local);
	double remote = (double)(int64_t)(b->remote - a->remote);

	return local > 0 && remote > 0 ? local / remote : 0;
}

void ckc_cupti_clock_step(struct ckc_cupti *s, const struct ckc_cupti_sample *next)
{
	double rate, usual = s->rate > 0 ? s->rate : 1, gap;

	if (s->now.remote)
		s->before = s->now;
	s->now = *next;
	rate = rate_between(&s->before, &s->now);
	gap = (double)(int64_t)(s->now.local - s->before.local) -
	      usual * (double)(int64_t)(s->now.remote - s->before.remote);
	s->stepped = (s->rate > 0 || !atomic_load(&s->clock)) &&
		     fabs(rate / usual - 1) > RATE_CHANGE && fabs(gap) > usual * STEP_LEAST;
	if (!s->stepped && rate > 0)
		s->rate = rate;
}

static uint64_t translate_time(const struct ckc_cupti_sample *sample, uint64_t remote, double rate)
{
	double ticks = (double)(int64_t)(remote - sample->remote) * rate;

	return ticks > -TICKS_MAX && ticks < TICKS_MAX ? sample->local + (uint64_t)(int64_t)ticks
						       : sample->local;
}

/* Local time at the server's @remote, which may be any number. */
static uint64_t local_time(const struct ckc_cupti *s, uint64_t remote)
{
	double usual = s->rate > 0 ? s->rate : 1;
	uint64_t early;

	if (remote == 0)
		return 0;
	if (!s->stepped) {
		double rate = rate_between(&s->before, &s->now);

		return translate_time(&s->now, remote, s->before.remote && rate > 0 ? rate : usual);
	}
	/* is it of the time before the step? */
	early = translate_time(&s->before, remote, usual);
	return early >= s->before.local && early <= s->now.local
		       ? early
		       : translate_time(&s->now, remote, usual);
}

/* --- records */

static void take_name(struct ckc_cupti *s, const struct ck_activity *r)
{
	char **names = s->names, *text;

	if (r->length > r->size - sizeof(*r) || r->name == 0 || r->name >= NAMES_MAX)
		return;
	if (r->name >= s->name_count) {
		uint32_t count = (r->name + 1) * 2;

		names = realloc(s->names, count * sizeof(*names));
		if (!names)
			return;
		memset(names + s->name_count, 0, (count - s->name_count) * sizeof(*names));
		s->names = names;
		s->name_count = count;
	}
	text = strndup((const char *)(r + 1), r->length);
	if (text && !names[r->name])
		names[r->name] = text;
	else
		free(text);
}

static void take_match(struct ckc_cupti *s, const struct ck_activity *r)
{
	if (!s->matches)
		s->matches = calloc(MATCHES, sizeof(*s->matches));
	if (s->matches)
		s->matches[r->correlation % MATCHES] =
			(struct ckc_cupti_match){r->correlation, ckc_cupti_call_of(s, r->external)};
}

/* The client's number for the server's; 0: the work is not of a call of the program. */
static uint32_t correlation_of(const struct ckc_cupti *s, const struct ck_activity *r)
{
	const struct ckc_cupti_match *m = s->matches ? &s->matches[r->correlation % MATCHES] : NULL;

	return m && m->server == r->correlation ? m->client : 0;
}

static uint32_t ordinal_of(const struct ckc_client *c, uint32_t device)
{
	for (int i = 0; i < c->gpu_count; i++) {
		if (c->gpus[i].server_ordinal == (int)device)
			return (uint32_t)i;
	}
	return device;
}

/* Members of all records of the GPU's work, in the program's numbers and times. */
#define COMMON(c, r)                                                                               \
	.kind = (r)->kind, .start = local_time((c)->cupti, (r)->start),                            \
	.end = local_time((c)->cupti, (r)->end), .device = ordinal_of(c, r->device),               \
	.context = (r)->context, .stream = (r)->stream,                                            \
	.correlation = correlation_of((c)->cupti, r), .graph_node = (r)->graph_node,               \
	.graph = (r)->graph

static void fill_kernel(struct ckc_client *c, struct ck_cupti_kernel *k,
			const struct ck_activity *r)
{
	struct ckc_cupti *s = c->cupti;
	const char *name = r->name < s->name_count ? s->names[r->name] : NULL;

	*k = (struct ck_cupti_kernel){
		COMMON(c, r),
		.name = name ? name : "unknown",
		.static_shared = r->kernel.static_shared,
		.dynamic_shared = r->kernel.dynamic_shared,
		.local_per_thread = r->kernel.local_per_thread,
		.local_total = r->kernel.local_total,
		.local_total_64 = r->kernel.local_total,
		.registers_per_thread = (uint16_t)r->kernel.registers,
		.channel = r->kernel.channel,
		.launch_type = (uint8_t)r->kernel.launch_type,
	};
	memcpy(k->grid, r->kernel.grid, sizeof(k->grid));
	memcpy(k->block, r->kernel.block, sizeof(k->block));
	memcpy(k->cluster, r->kernel.cluster, sizeof(k->cluster));
	k->completed = k->end;
}

static void fill_copy(struct ckc_client *c, struct ck_cupti_memcpy *m, const struct ck_activity *r)
{
	*m = (struct ck_cupti_memcpy){
		.copy_kind = (uint8_t)r->copy.copy_kind,
		.src_kind = (uint8_t)r->copy.src_kind,
		.dst_kind = (uint8_t)r->copy.dst_kind,
		.flags = (uint8_t)r->copy.flags,
		.bytes = r->copy.bytes,
		.copies = r->copy.copies,
		COMMON(c, r),
	};
}

static void fill_peer(struct ckc_client *c, struct ck_cupti_peer *p, const struct ck_activity *r)
{
	*p = (struct ck_cupti_peer){
		.copy_kind = (uint8_t)r->copy.copy_kind,
		.src_kind = (uint8_t)r->copy.src_kind,
		.dst_kind = (uint8_t)r->copy.dst_kind,
		.flags = (uint8_t)r->copy.flags,
		.bytes = r->copy.bytes,
		.src_device = ordinal_of(c, r->copy.src_device),
		.src_context = r->copy.src_context,
		.dst_device = ordinal_of(c, r->copy.dst_device),
		.dst_context = r->copy.dst_context,
		COMMON(c, r),
	};
}

static void fill_fill(struct ckc_client *c, struct ck_cupti_memset *m, const struct ck_activity *r)
{
	*m = (struct ck_cupti_memset){
		.value = r->fill.value,
		.bytes = r->fill.bytes,
		.memory_kind = (uint16_t)r->fill.memory_kind,
		COMMON(c, r),
	};
}

static void fill_graph(struct ckc_client *c, struct ck_cupti_graph *g, const struct ck_activity *r)
{
	*g = (struct ck_cupti_graph){
		.kind = r->kind,
		.start = local_time(c->cupti, r->start),
		.end = local_time(c->cupti, r->end),
		.correlation = correlation_of(c->cupti, r),
		.device = ordinal_of(c, r->device),
		.context = r->context,
		.stream = r->stream,
		.graph = r->graph,
	};
	g->end_device = g->device;
	g->end_context = g->context;
}

/* That of a thread of the worker is the program's, which has caused it. */
static void fill_overhead(struct ckc_client *c, struct ck_cupti_overhead *o,
			  const struct ck_activity *r)
{
	*o = (struct ck_cupti_overhead){
		.kind = r->kind,
		.overhead = r->overhead.kind,
		.object = r->overhead.object,
		.start = local_time(c->cupti, r->start),
		.end = local_time(c->cupti, r->end),
		.correlation = correlation_of(c->cupti, r),
	};
	if (o->object < CUPTI_ACTIVITY_OBJECT_DEVICE) {
		o->object = CUPTI_ACTIVITY_OBJECT_PROCESS;
		o->id[0] = (uint32_t)getpid();
	} else {
		o->id[0] = ordinal_of(c, r->device);
		o->id[1] = r->context;
		o->id[2] = r->stream;
	}
}

static void translate_record(struct ckc_client *c, const struct ck_activity *r)
{
	union ck_cupti_record out;

	switch (r->kind) {
	case CK_ACTIVITY_NAME:
		take_name(c->cupti, r);
		return;
	case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION:
		take_match(c->cupti, r);
		return;
	case CUPTI_ACTIVITY_KIND_MEMCPY:
		fill_copy(c, &out.copy, r);
		break;
	case CUPTI_ACTIVITY_KIND_MEMCPY2:
		fill_peer(c, &out.peer, r);
		break;
	case CUPTI_ACTIVITY_KIND_MEMSET:
		fill_fill(c, &out.fill, r);
		break;
	case CUPTI_ACTIVITY_KIND_KERNEL:
	case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
		fill_kernel(c, &out.kernel, r);
		break;
	case CUPTI_ACTIVITY_KIND_GRAPH_TRACE:
		fill_graph(c, &out.graph, r);
		break;
	case CUPTI_ACTIVITY_KIND_OVERHEAD:
		fill_overhead(c, &out.overhead, r);
		break;
	default:
		return;
	}
	ckc_cupti_append(c, &out);
}

/* Check each size before it is used. */
void ckc_cupti_take_all(struct ckc_client *c, const unsigned char *bytes, size_t size)
{
	const struct ck_activity *r;

	while (size >= sizeof(*r)) {
		r = (const struct ck_activity *)(const void *)bytes;
		if (r->size < sizeof(*r) || r->size > size || r->size % 8 != 0) {
			ck_warn("the server sent invalid profile records: the rest is ignored");
			return;
		}
		translate_record(c, r);
		bytes += r->size;
		size -= r->size;
	}
}
