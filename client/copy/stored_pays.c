/*
 * client/copy/stored_pays.c - see client/copy/stored_pays.h.
 */
#include <string.h>
#include <time.h>

#include "client/copy/state.h"
#include "client/copy/stored_pays.h"
#include "client/copy/upload_source.h"
#include "client/link/client.h"
#include "client/wire/compression.h"
#include "util/env.h"
#include "util/log.h"

CK_LOG_DEFINE("client");

#define LINK_MOST 1250000000u  /* bytes per second: 10 Gbit/s; a faster network needs no store */
#define REHASH_MOST 200000000u /* the same for bytes that are hashed before they are sent */
/* Of memory that is not mapped from a file. Loaders stage files in buffers of 8 MiB. */
#define MEMORY_MIN ((size_t)8 << 20)
#define PLAIN_TIMES 16
#define REFILL_MOST ((size_t)256 << 20) /* of bytes that may be batches of data */
#define MEASURE_MIN ((size_t)8 << 20)	/* a shorter upload does not show the network's rate, */
#define JUDGE_MIN ((size_t)32 << 20)	/* and tensors of a few MiB whether it pays only together */

static bool mode_is(const char *word)
{
	const char *mode = ck_env_string("CRICKET_WEIGHTS");

	return mode && strcmp(mode, word) == 0;
}

bool ckc_stored_always(void)
{
	return mode_is("on");
}

/* Is the network slower than @rate, as far as it is known? */
static bool link_is_below(struct ckc_client *c, uint64_t rate)
{
	uint64_t link = ckc_compression_link(c);

	return link ? link < rate : c->lanes.round_trip_ns >= CKC_FAR_NS;
}

bool ckc_stored_pays(struct ckc_client *c)
{
	if (c->passes_fds || mode_is("off") || c->offers.procedures.procedures_len == 0 ||
	    !ckc_session_offers(c, CK_PROC_upload_stored) ||
	    !ckc_session_offers(c, CK_PROC_upload_kept))
		return false;
	if (ckc_stored_always())
		return true;
	return !c->copying->kept.slow &&
	       (ckc_compression_link(c) == 0 || link_is_below(c, LINK_MOST));
}

bool ckc_stored_pays_known(struct ckc_client *c)
{
	return ckc_stored_pays(c) && link_is_below(c, LINK_MOST);
}

bool ckc_stored_needs_sample(struct ckc_client *c, bool known)
{
	const struct ckc_kept *k = &c->copying->kept;

	return !ckc_stored_always() && ckc_compression_link(c) == 0 && !k->sampled &&
	       (k->missed || !known);
}

bool ckc_stored_pays_hashing(struct ckc_client *c)
{
	return ckc_stored_always() || ckc_compression_link(c) == 0 || link_is_below(c, REHASH_MOST);
}

/* Does it pay for @size bytes of a mapped file, or of other memory? */
static bool pays_for(struct ckc_client *c, bool file, size_t size)
{
	if (file || ckc_stored_always())
		return file || size >= MEMORY_MIN;
	return size >= MEMORY_MIN && ckc_compression_link(c) > 0 && ckc_stored_pays_hashing(c);
}

/* Was the memory no file when it was looked up a short time ago? To read the list of mappings takes
 * a large program a millisecond. */
static bool is_plain(struct ckc_kept *k, const void *bytes)
{
	if ((uintptr_t)bytes < k->plain_lo || (uintptr_t)bytes >= k->plain_hi || k->plain_left <= 0)
		return false;
	k->plain_left--;
	return true;
}

static void note_plain(struct ckc_kept *k, const struct ckc_upload_source *source)
{
	k->plain_lo = source->lo;
	k->plain_hi = source->hi;
	k->plain_left = PLAIN_TIMES;
}

bool ckc_stored_pays_open(struct ckc_client *c, const void *bytes, size_t size,
			  struct ckc_upload_source *source)
{
	struct ckc_kept *k = &c->copying->kept;

	if (is_plain(k, bytes))
		return false;
	if (ckc_upload_source_open(bytes, size, source) == 0) {
		if (pays_for(c, source->file, size))
			return true;
		note_plain(k, source);
	}
	ckc_upload_source_close(source);
	return false;
}

bool ckc_stored_pays_new(struct ckc_client *c, const struct ckc_upload_source *source, uint64_t dst,
			 size_t size)
{
	struct ckc_kept *k = &c->copying->kept;
	_Atomic uint64_t *place = &k->filled[ck_hash_key(&dst, sizeof(dst)) % CKC_FILLED];

	if (source->file || atomic_exchange(place, dst) != dst ||
	    atomic_fetch_add(&k->refilled, size) < REFILL_MOST)
		return true;
	note_plain(k, source);
	return false;
}

/* Of an entry that is not a chunk: the rate to this server. */
static struct ckc_chunk_key link_key(const struct ckc_client *c)
{
	const char *address = ckc_session_server(c);

	return (struct ckc_chunk_key){.device = UINT64_MAX,
				      .inode = ck_hash_key(address, strlen(address))};
}

/* A fast network may have become a slow one: then it is measured again. */
void ckc_stored_recall_link(struct ckc_client *c, int index)
{
	const struct ckc_chunk_key key = link_key(c);
	struct ckc_chunk_entry entry;
	uint64_t rate;

	if (ckc_compression_link(c) > 0 ||
	    !ckc_chunk_index_find(index, &key, (uint32_t)time(NULL), &entry))
		return;
	memcpy(&rate, entry.hash.bytes, sizeof(rate));
	if (rate > 0 && rate < LINK_MOST)
		ckc_compression_assume(c, rate);
}

void ckc_stored_note_link(struct ckc_client *c, int index)
{
	const struct ckc_chunk_key key = link_key(c);
	struct ckc_chunk_entry entry = {.sure = false};
	uint64_t rate = ckc_compression_link(c);

	memcpy(entry.hash.bytes, &rate, sizeof(rate));
	if (rate > 0)
		ckc_chunk_index_put(index, &key, (uint32_t)time(NULL), &entry);
}

/* Hashing may take a little time; a server that had the bytes has to be faster than the network. */
static void compare_rates(struct ckc_kept *k, bool had, size_t size, uint64_t ns, uint64_t link)
{
	uint64_t bytes = atomic_fetch_add(&k->bytes[had], size) + size;
	uint64_t all_ns = atomic_fetch_add(&k->ns[had], ns) + ns;

	if (bytes < JUDGE_MIN)
		return;
	if ((double)bytes * 1e9 / (double)all_ns < (double)(had ? link : link / 5 * 4))
		k->slow = true;
	atomic_store(&k->bytes[had], 0);
	atomic_store(&k->ns[had], 0);
}

void ckc_stored_measured(struct ckc_client *c, const struct ckc_stored_measure *u)
{
	struct ckc_kept *k = &c->copying->kept;
	uint64_t trip = c->lanes.round_trip_ns, link = ckc_compression_link(c);
	uint64_t ns = u->ns > trip ? u->ns - trip : 1;
	uint64_t rate = (uint64_t)((double)u->size * 1e9 / (double)ns);
	bool had = u->stored >= u->size / 2;

	ck_debug("upload of %zu bytes: the server had %zu of them; %llu MB/s", u->size, u->stored,
		 (unsigned long long)(rate / 1000000));
	if (u->size >= MEASURE_MIN && u->stored == 0 && !u->packed && link > 0 && rate > link)
		ckc_compression_measured(c, u->size, u->ns);
	if (link > 0)
		compare_rates(k, had, u->size, ns, link);
	k->proven = k->proven || had || link > 0;
	k->missed = !had;
}
