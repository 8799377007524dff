/*
 * client/wire/compression.c - see client/wire/compression.h.
 */
#include <string.h>

#include "client/link/client.h"
#include "client/wire/compression.h"
#include "util/env.h"
#include "util/log.h"
#include "util/until.h"

CK_LOG_DEFINE("client");

#define SPEED_FIRST 250000000u /* bytes per second of one thread, before any was measured */
#define SKIP_MOST 16u	       /* blocks after one that cannot be compressed */
#define SAMPLE ((size_t)8 << 20)
#define SAMPLES 3     /* copies as they are before the first compressed one, which may wait */
#define PROOF 16      /* one of so many parts of the time is spent on measuring the network again */
#define PAUSE_MOST 63 /* copies that travel as they are, after compressed ones that were slower */
#define HIDDEN_MOST ((size_t)16 << 20) /* before one was measured; a connection takes a byte a ns */
#define NS 1000000000.0

/* Does the user say always ("1") or never ("0")? */
static bool packing_is_set(const char *to)
{
	char mode[4];

	return ck_env_word("CRICKET_DEBUG", "compress", mode, sizeof(mode)) == 0 &&
	       strcmp(mode, to) == 0;
}

/* Does the server take @proc, and is it on another machine, as far as the client can tell? */
static bool packing_is_possible(const struct ckc_client *c, uint32_t proc)
{
	return !c->passes_fds && c->offers.procedures.procedures_len > 0 &&
	       ckc_session_offers(c, proc) && !packing_is_set("0");
}

static bool packing_is_forced(void)
{
	return packing_is_set("1");
}

static uint64_t load_relaxed(const _Atomic uint64_t *value)
{
	return atomic_load_explicit(value, memory_order_relaxed);
}

static void store_relaxed(_Atomic uint64_t *value, uint64_t to)
{
	atomic_store_explicit(value, to, memory_order_relaxed);
}

static uint64_t speed_of(struct ckc_compression *p)
{
	return load_relaxed(&p->speed) ? load_relaxed(&p->speed) : SPEED_FIRST;
}

/* A fifth more than @times: the measurements are not exact. */
static bool is_faster(struct ckc_compression *p, unsigned int threads, unsigned int times)
{
	return speed_of(p) / 5 * 4 * threads >= load_relaxed(&p->link) * times;
}

bool ckc_compression_pays(struct ckc_client *c, uint32_t proc, unsigned int threads,
			  unsigned int times)
{
	struct ckc_compression *p = &c->packing;

	if (!packing_is_possible(c, proc))
		return false;
	if (packing_is_forced())
		return true;
	return load_relaxed(&p->samples) >= SAMPLES && is_faster(p, threads, times);
}

bool ckc_compression_pays_unmeasured(struct ckc_client *c, uint32_t proc)
{
	return packing_is_possible(c, proc) && load_relaxed(&c->packing.samples) < SAMPLES &&
	       load_relaxed(&c->lanes.round_trip_ns) >= CKC_FAR_NS;
}

/* Have copies been compressed for so long that one should measure the network without? */
static bool is_due(struct ckc_compression *p, size_t size)
{
	return (double)load_relaxed(&p->unproven_ns) >
	       PROOF * NS * (double)size / (double)load_relaxed(&p->link);
}

/* Do not compress this time: it was slower the last time, or the network is to be measured. */
static bool packing_is_paused(struct ckc_compression *p, size_t size)
{
	if (load_relaxed(&p->pause) == 0)
		return is_due(p, size);
	store_relaxed(&p->pause, load_relaxed(&p->pause) - 1);
	return true;
}

/* Send a part of a copy of @size bytes as a sample? It costs a round trip: once, if the network is
 * fast. */
static bool wants_sample(struct ckc_client *c, uint32_t proc, size_t size, unsigned int threads)
{
	return load_relaxed(&c->packing.samples) < SAMPLES && size > 2 * SAMPLE &&
	       packing_is_possible(c, proc) && is_faster(&c->packing, threads, 1);
}

struct ckc_compression_step ckc_compression_step(struct ckc_client *c, uint32_t proc, size_t size,
						 unsigned int threads)
{
	struct ckc_compression *p = &c->packing;
	struct ckc_compression_step step = {.size = size, .began = ck_now_ns()};

	if (ckc_compression_pays(c, proc, threads, 1))
		step.packed = packing_is_forced() || !packing_is_paused(p, size);
	else if (wants_sample(c, proc, size, threads))
		step.size = SAMPLE;
	return step;
}

bool ckc_compression_hides(const struct ckc_client *c, size_t size)
{
	size_t taken = ck_min((size_t)load_relaxed(&c->lanes.round_trip_ns), HIDDEN_MOST);

	return !c->passes_fds &&
	       size <= ck_max(taken, 2 * (size_t)load_relaxed(&c->packing.hidden));
}

/* A copy as it is went at @rate. It may have waited for the GPU, but it was not faster than the
 * network. */
static void note_link(struct ckc_compression *p, uint64_t rate)
{
	uint64_t link = load_relaxed(&p->link);

	store_relaxed(&p->link, rate >= link ? rate : link - (link - rate) / 8);
	store_relaxed(&p->samples, load_relaxed(&p->samples) + 1);
	store_relaxed(&p->unproven_ns, 0);
	ck_debug("the network takes %llu MB/s",
		 (unsigned long long)(load_relaxed(&p->link) / 1000000));
}

static void note_packed(struct ckc_compression *p, uint64_t rate, uint64_t ns)
{
	bool slower = rate < load_relaxed(&p->link) / 10 * 9;

	store_relaxed(&p->paused,
		      slower ? ck_min(load_relaxed(&p->paused) * 2 + 1, (uint64_t)PAUSE_MOST) : 0);
	store_relaxed(&p->pause, load_relaxed(&p->paused));
	store_relaxed(&p->unproven_ns, load_relaxed(&p->unproven_ns) + ns);
}

/* The rate of @size bytes that took @ns; 0: most of that was the round trip, which hides it. */
static uint64_t rate_of(struct ckc_client *c, size_t size, uint64_t ns)
{
	uint64_t trip = load_relaxed(&c->lanes.round_trip_ns);

	if (ns > trip + trip / 2)
		return (uint64_t)((double)size * NS / (double)(ns - trip));
	store_relaxed(&c->packing.hidden, ck_max(load_relaxed(&c->packing.hidden), size));
	return 0;
}

void ckc_compression_stepped(struct ckc_client *c, const struct ckc_compression_step *step)
{
	uint64_t ns = ck_now_ns() - step->began, rate;

	rate = c->passes_fds ? 0 : rate_of(c, step->size, ns);
	if (rate > 0 && step->packed)
		note_packed(&c->packing, rate, ns);
	else if (rate > 0)
		note_link(&c->packing, rate);
}

uint64_t ckc_compression_link(struct ckc_client *c)
{
	return load_relaxed(&c->packing.samples) > 0 ? load_relaxed(&c->packing.link) : 0;
}

void ckc_compression_assume(struct ckc_client *c, uint64_t rate)
{
	store_relaxed(&c->packing.link, rate);
	store_relaxed(&c->packing.samples, 1);
}

void ckc_compression_measured(struct ckc_client *c, size_t size, uint64_t ns)
{
	uint64_t rate = rate_of(c, size, ns);

	if (rate > 0)
		note_link(&c->packing, rate);
}

bool ckc_pack_begin(struct ckc_pack_run *run, struct ckc_client *c)
{
	struct ckc_compression *p = &c->packing;

	*run = (struct ckc_pack_run){.client = c};
	ck_lock(&p->lock);
	if (p->idle > 0)
		run->packer = p->packers[--p->idle];
	ck_unlock(&p->lock);
	return run->packer || ck_packer_create(&run->packer) == 0;
}

size_t ckc_pack_next(struct ckc_pack_run *run, const void *bytes, size_t size, const void **packed)
{
	uint64_t began;
	size_t n;

	if (run->skip > 0) {
		run->skip--;
		return 0;
	}
	began = ck_now_ns();
	n = ck_pack(run->packer, bytes, size, packed);
	if (n == 0) {
		run->skipped = ck_min(run->skipped * 2 + 1, SKIP_MOST);
		run->skip = run->skipped;
		return 0;
	}
	run->skipped = 0;
	run->bytes += size;
	run->ns += ck_now_ns() - began;
	return n;
}

/* A lower speed counts at once, a higher one little by little: bytes that hardly differ are
 * compressed 30 times as fast as others, and say nothing about these. */
static void note_speed(struct ckc_compression *p, uint64_t bytes, uint64_t ns)
{
	uint64_t was = speed_of(p), now = (uint64_t)((double)bytes * NS / (double)(ns + 1));

	store_relaxed(&p->speed, now < was ? now : was + (now - was) / 16);
}

void ckc_pack_end(struct ckc_pack_run *run)
{
	struct ckc_compression *p = &run->client->packing;

	if (run->bytes > 0)
		note_speed(p, run->bytes, run->ns);
	ck_lock(&p->lock);
	if (p->idle < CK_PACKERS) {
		p->packers[p->idle++] = run->packer;
		run->packer = NULL;
	}
	ck_unlock(&p->lock);
	ck_packer_destroy(run->packer);
}
