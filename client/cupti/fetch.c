/*
 * client/cupti/fetch.c - records from the server: fetch them, and put them into the program's terms.
 *
 * Times go from the server's clock to the program's. Both are read at the beginning of the profile and at each flush;
 * between two readings the difference is taken to change evenly.
 */
#include <stdlib.h>
#include <string.h>

#include "client/cupti/cupti.h"
#include "cricket.h"
#include "rpc/activity.h"
#include "util/log.h"

CK_LOG_DEFINE("client");

#define READINGS 8	   /* of the clocks; the one with the shortest round trip counts */
#define MATCHES (1u << 18) /* numbers of the server that are remembered at a time */
#define NAMES_MAX (1u << 20)

/* --- clocks */

static CUresult read_clocks(struct ckc_cupti_sample *best)
{
	*best = (struct ckc_cupti_sample){.error = UINT64_MAX};
	for (int i = 0; i < READINGS; i++) {
		uint64_t began = ckc_cupti_clock(), ended;
		cuuint64_t remote = 0;
		CUresult err = ck_wire_profile_clock(0, &remote);

		if (err)
			return err;
		ended = ckc_cupti_clock();
		if ((ended - began) / 2 >= best->error)
			continue;
		best->local = began + (ended - began) / 2;
		best->remote = remote;
		best->error = (ended - began) / 2;
	}
	return CUDA_SUCCESS;
}

/* Local time at the server's @remote. */
static uint64_t local_time(const struct ckc_cupti *s, uint64_t remote)
{
	int64_t offset = (int64_t)(s->now.local - s->now.remote);
	int64_t earlier = (int64_t)(s->before.local - s->before.remote);
	double span = (double)(s->now.remote - s->before.remote);
	double part;

	if (remote == 0)
		return 0;
	if (span > 0 && s->before.remote) {
		part = (double)(int64_t)(s->now.remote - remote) / span;
		offset -= (int64_t)(part * (double)(offset - earlier));
	}
	return remote + (uint64_t)offset;
}

void ckc_cupti_clock_changed(struct ckc_client *c)
{
	struct ckc_cupti *s = c->cupti;

	if (s->before.remote == 0)
		return;
	s->now = (struct ckc_cupti_sample){0};
	read_clocks(&s->before);
}

/* --- kinds */

CUptiResult ckc_cupti_tell(struct ckc_client *c)
{
	struct ckc_cupti *s = c->cupti;
	uint64_t kinds = atomic_load(&s->kinds);
	int result = CUPTI_SUCCESS;
	CUresult err;

	if (kinds == s->told)
		return CUPTI_SUCCESS;
	err = ck_wire_profile(0, kinds, &result);
	if (err || result) {
		ck_warn("no records of the GPU's work: %s",
			err ? "the server is too old for them"
			    : "the server has no CUPTI, or it does not start: see its log");
		return CUPTI_ERROR_NOT_INITIALIZED;
	}
	if (s->told == 0)
		read_clocks(&s->before);
	s->told = kinds;
	return CUPTI_SUCCESS;
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
		s->matches[r->correlation % MATCHES] = (struct ckc_cupti_match){
			r->correlation, ckc_cupti_correlation(r->external)};
}

/* The client's number for the server's; 0: the work is not of a call of the program. */
static uint32_t correlation_of(const struct ckc_cupti *s, const struct ck_activity *r)
{
	const struct ckc_cupti_match *m = s->matches ? &s->matches[r->correlation % MATCHES] : NULL;

	return m && m->server == r->correlation ? m->client : 0;
}

static uint32_t device_of(const struct ckc_client *c, const struct ck_activity *r)
{
	for (int i = 0; i < c->gpu_count; i++) {
		if (c->gpus[i].server_ordinal == (int)r->device)
			return (uint32_t)i;
	}
	return r->device;
}

/* What all records of the GPU's work have, in the program's numbers and times. */
#define COMMON(c, r)                                                                               \
	.kind = (r)->kind, .start = local_time((c)->cupti, (r)->start),                            \
	.end = local_time((c)->cupti, (r)->end), .device = device_of(c, r),                        \
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

static void fill_fill(struct ckc_client *c, struct ck_cupti_memset *m, const struct ck_activity *r)
{
	*m = (struct ck_cupti_memset){
		.value = r->fill.value,
		.bytes = r->fill.bytes,
		.memory_kind = (uint16_t)r->fill.memory_kind,
		COMMON(c, r),
	};
}

static void take(struct ckc_client *c, const struct ck_activity *r)
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
	case CUPTI_ACTIVITY_KIND_MEMSET:
		fill_fill(c, &out.fill, r);
		break;
	case CUPTI_ACTIVITY_KIND_KERNEL:
	case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
		fill_kernel(c, &out.kernel, r);
		break;
	default:
		return;
	}
	ckc_cupti_append(c, &out);
}

/* @bytes are the server's: check each size before it is used. */
static void take_all(struct ckc_client *c, const unsigned char *bytes, size_t size)
{
	const struct ck_activity *r;

	while (size >= sizeof(*r)) {
		r = (const struct ck_activity *)(const void *)bytes;
		if (r->size < sizeof(*r) || r->size > size || r->size % 8 != 0) {
			ck_warn("the server's records of a profile are not readable: the rest is "
				"left out");
			return;
		}
		take(c, r);
		bytes += r->size;
		size -= r->size;
	}
}

/* One reply's records; *@more: there are others. */
static CUresult fetch_piece(struct ckc_client *c, unsigned int flush, int *more)
{
	void *bytes = NULL;
	size_t size = 0;
	cuuint64_t dropped = 0;
	CUresult err = ck_wire_profile_fetch(0, flush, more, &dropped, &bytes, &size);

	if (!err) {
		ck_lock(&c->cupti->lock);
		c->cupti->dropped += dropped;
		ck_unlock(&c->cupti->lock);
		take_all(c, bytes, size);
	}
	free(bytes);
	return err;
}

CUptiResult ckc_cupti_fetch(struct ckc_client *c, bool forced)
{
	struct ckc_cupti *s = c->cupti;
	unsigned int flush = forced ? 2 : 1;
	int more = 1;
	CUresult err;

	if (s->before.remote == 0) /* the server has never been told of a kind */
		return CUPTI_SUCCESS;
	if (s->now.remote)
		s->before = s->now;
	err = read_clocks(&s->now);
	ck_debug("clocks: the server's is %lld ns behind, give or take %llu",
		 (long long)(s->now.local - s->now.remote), (unsigned long long)s->now.error);
	while (!err && more) {
		err = fetch_piece(c, flush, &more);
		flush = 0;
	}
	return err ? CUPTI_ERROR_UNKNOWN : CUPTI_SUCCESS;
}
