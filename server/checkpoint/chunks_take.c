/*
 * server/checkpoint/chunks_take.c - the receiver; see chunks.h.
 */
#define _GNU_SOURCE
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "rpc/chan.h"
#include "server/checkpoint/chunks_part.h"
#include "server/checkpoint/crew.h"
#include "server/checkpoint/stream.h"
#include "util/process/available_memory.h"
#include "util/process/fd.h"
#include "util/util.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

#define SLICE ((uint64_t)64 << 20)
#define SIZE_MOST (2 * (uint64_t)CK_MEMORY_MAX * CHUNK) /* the file has room that is not used */

/* Pages of the file from @begin to @end, which the threads make. */
struct pages {
	int file;
	char *bytes; /* the same in memory */
	uint64_t begin, end;
	int errors[CKS_CREW_AHEAD];
};

/* A job. */
static void make_slice(void *data, size_t job)
{
	struct pages *p = data;
	uint64_t at = p->begin + job * SLICE;
	uint64_t size = ck_min(SLICE, p->end - at);
	int ret = madvise(p->bytes + at, size, MADV_POPULATE_WRITE) < 0 ? -errno : 0;

	if (ret == -EINVAL) /* of an older kernel */
		ret = -posix_fallocate(p->file, (off_t)at, (off_t)size);
	p->errors[job % CKS_CREW_AHEAD] = ret == -EFAULT ? -ENOMEM : ret;
}

static int make_pages(struct pages *p, struct cks_alive *alive)
{
	size_t count = (size_t)((p->end - p->begin + SLICE - 1) / SLICE);
	struct cks_crew crew;
	int ret = 0;

	cks_crew_start(&crew, make_slice, p);
	for (size_t i = 0; i < count && ret == 0; i++) {
		cks_crew_release(&crew, ck_min(count, i + CKS_CREW_AHEAD));
		cks_crew_wait(&crew, i);
		ret = p->errors[i % CKS_CREW_AHEAD];
		cks_stream_alive(alive);
	}
	cks_crew_end(&crew);
	return ret;
}

/* The file has @size bytes then, *@bytes in memory; it had @old. */
static int grow(int file, uint64_t old, uint64_t size, struct cks_alive *alive, char **bytes)
{
	struct pages p = {.file = file, .begin = old, .end = size};
	int ret = ftruncate(file, (off_t)size) < 0 ? -errno : 0;

	if (ret < 0)
		return ret;
	p.bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (p.bytes == MAP_FAILED)
		return -errno;
	ret = make_pages(&p, alive);
	if (ret < 0)
		munmap(p.bytes, size);
	else
		*bytes = p.bytes;
	return ret;
}

/* Memory for all of the file at once: a lack of it shows before the program has to wait. */
static int reserve(struct cks_chunks *c, uint64_t size, struct cks_alive *alive,
		   struct cks_why *why)
{
	uint64_t old = c->bytes ? c->size : 0, most = ck_available_memory();
	char *bytes = NULL;
	int ret = size > old && most > 0 && size - old > most ? -ENOMEM : 0;

	if (c->file < 0)
		c->file = memfd_create("cricket-pool", MFD_CLOEXEC);
	if (ret == 0 && c->file < 0)
		ret = -errno;
	if (ret == 0 && size > old)
		ret = grow(c->file, old, size, alive, &bytes);
	if (ret < 0)
		return cks_why_set(why, -ret, "%llu MiB of host memory for the session: %m",
				   (unsigned long long)size >> 20);
	if (!bytes)
		return 0;
	if (c->bytes)
		munmap(c->bytes, old);
	c->bytes = bytes;
	c->size = size;
	return 0;
}

static int take_announcement(struct cks_chunks *c, int stream, const json_t *json,
			     struct cks_why *why)
{
	json_int_t count = json_integer_value(json_object_get(json, "memory"));
	json_int_t size = json_integer_value(json_object_get(json, "size"));
	const char *text = json_string_value(json_object_get(json, "key"));
	struct cks_piece_hash word;
	struct cks_piece_key key;
	struct cks_alive alive;
	int ret;

	if (!json_is_integer(json_object_get(json, "memory")) || count < 0 ||
	    count > CK_MEMORY_MAX || size % (json_int_t)CHUNK || size / (json_int_t)CHUNK < count ||
	    (uint64_t)size > SIZE_MOST || !text || !cks_piece_hash_parse(text, &word))
		return cks_why_set(why, EBADMSG, "the other server sends no valid size of memory");
	key = (struct cks_piece_key){.word = {word.sum[0], word.sum[1]}};
	if (c->most > 0 && memcmp(&key, &c->key, sizeof(key)) != 0)
		return cks_why_set(why, EBADMSG, "the other server sends another key");
	cks_stream_alive_begin(&alive, stream, json);
	ret = reserve(c, ck_max((uint64_t)size, c->size), &alive, why);
	if (ret == 0 && (ret = cks_chunks_set_count(c, (size_t)count, &key)) < 0)
		cks_why_set(why, -ret, "%m");
	return ret;
}

/* Chunks that one thread receives in order, and the threads compare with their hashes. */
struct taking {
	struct cks_chunks *chunks;
	int stream;
	struct cks_crew crew;
	size_t jobs, checked;
	struct arrival {
		uint32_t chunk;
		struct cks_piece_hash hash;
		bool wrong;
	} arrivals[CKS_CREW_AHEAD], on_lanes[CKS_LANES_TASKS]; /* of these jobs, of these tasks */
	size_t tasks;
	atomic_bool wrong; /* one of them */
};

static char *place_of(const struct taking *t, uint32_t chunk)
{
	return t->chunks->bytes + (size_t)chunk * CHUNK;
}

static void compare_arrival(const struct taking *t, struct arrival *arrival)
{
	struct cks_piece_hash own;

	cks_piece_hash(place_of(t, arrival->chunk), CHUNK, &t->chunks->key, &own);
	arrival->wrong = !cks_piece_hash_equal(&own, &arrival->hash);
}

/* A job. */
static void compare(void *data, size_t job)
{
	struct taking *t = data;
	struct arrival *arrival = &t->arrivals[job % CKS_CREW_AHEAD];

	compare_arrival(t, arrival);
	if (arrival->wrong)
		atomic_store(&t->wrong, true);
}

/* A task of a lane. */
static int take_from_lane(void *data, struct ck_chan *chan, size_t task)
{
	struct taking *t = data;
	struct arrival *arrival = &t->on_lanes[task % CKS_LANES_TASKS];
	int ret = ck_chan_read(chan, place_of(t, arrival->chunk), CHUNK);

	if (ret < 0)
		return ret;
	compare_arrival(t, arrival);
	return arrival->wrong ? -EBADMSG : 0;
}

static int set_wrong(struct cks_why *why, uint32_t chunk)
{
	return cks_why_set(why, EBADMSG, "chunk %u of the memory has changed on the way", chunk);
}

/* Wait until at most @most chunks are not compared. 0 or -EBADMSG. */
static int wait_compared(struct taking *t, size_t most, struct cks_why *why)
{
	const struct arrival *arrival;

	while (t->jobs - t->checked > most) {
		cks_crew_wait(&t->crew, t->checked);
		arrival = &t->arrivals[t->checked % CKS_CREW_AHEAD];
		if (arrival->wrong)
			return set_wrong(why, arrival->chunk);
		t->checked++;
	}
	return 0;
}

/* When no lane is in use any more. */
static int set_lane(const struct taking *t, int error, struct cks_why *why)
{
	for (size_t i = 0; i < CKS_LANES_TASKS; i++) {
		if (t->on_lanes[i].wrong)
			return set_wrong(why, t->on_lanes[i].chunk);
	}
	return cks_why_set(why, -error, "a further connection to the other server: %m");
}

/* Until the chunk has come, if it is on its way on a lane. An error is that of the lane. */
static int wait_arrived(const struct taking *t, uint32_t chunk)
{
	size_t end = 0;

	for (size_t i = t->tasks - ck_min(t->tasks, CKS_LANES_TASKS); i < t->tasks; i++) {
		if (t->on_lanes[i % CKS_LANES_TASKS].chunk == chunk)
			end = i + 1;
	}
	return end > 0 ? cks_lanes_wait(t->chunks->lanes, end) : 0;
}

static int expect_on_lane(struct taking *t, uint32_t chunk, const struct cks_piece_hash *hash)
{
	size_t task;
	int ret = cks_lanes_next(t->chunks->lanes, &task);

	if (ret < 0)
		return ret;
	t->on_lanes[task % CKS_LANES_TASKS] = (struct arrival){.chunk = chunk, .hash = *hash};
	t->tasks = task + 1;
	cks_lanes_give(t->chunks->lanes);
	return 0;
}

static int take_bytes(struct taking *t, uint32_t chunk, const struct cks_piece_hash *hash,
		      struct cks_why *why)
{
	int ret = ck_fd_read_full(t->stream, place_of(t, chunk), CHUNK);

	if (ret < 0)
		return cks_stream_broken(ret, why);
	ret = wait_compared(t, CKS_CREW_AHEAD - 1, why);
	if (ret < 0)
		return ret;
	t->arrivals[t->jobs % CKS_CREW_AHEAD] = (struct arrival){.chunk = chunk, .hash = *hash};
	cks_crew_release(&t->crew, ++t->jobs);
	return 0;
}

/* A content that the receiver has, or zeros. */
static int take_known(struct cks_chunks *c, const struct head *head, uint32_t chunk,
		      const struct cks_piece_hash *hash, struct cks_why *why)
{
	uint32_t from = be32toh(head->from);
	char *at = c->bytes + (size_t)chunk * CHUNK;
	const struct cks_piece_hash *own = &c->zero;

	if (head->kind == htobe32(ZEROS)) {
		if (cks_piece_hash_known(&c->has[chunk])) /* else the file is new there */
			memset(at, 0, CHUNK);
	} else if (from < c->count && from != chunk) {
		memcpy(at, c->bytes + (size_t)from * CHUNK, CHUNK);
		own = &c->has[from];
	} else {
		return set_wrong(why, chunk);
	}
	return cks_piece_hash_equal(own, hash) ? 0 : set_wrong(why, chunk);
}

static int take_record(struct taking *t, bool *end, struct cks_why *why)
{
	struct cks_piece_hash hash;
	struct head head;
	int ret = ck_fd_read_full(t->stream, &head, sizeof(head));
	uint32_t chunk;

	if (ret < 0)
		return cks_stream_broken(ret, why);
	chunk = be32toh(head.chunk);
	*end = head.kind == htobe32(END);
	if (*end)
		return 0;
	if (chunk >= t->chunks->count || be32toh(head.kind) > (t->chunks->lanes ? LANE : ZEROS))
		return cks_why_set(why, EBADMSG, "the other server sends memory in another form");
	hash = (struct cks_piece_hash){.sum = {be64toh(head.hash[0]), be64toh(head.hash[1])}};
	if (!cks_piece_hash_known(&hash))
		return set_wrong(why, chunk);
	ret = wait_arrived(t, chunk);
	if (ret == 0 && head.kind == htobe32(EQUAL))
		ret = wait_arrived(t, be32toh(head.from));
	if (ret < 0)
		return ret;
	if (head.kind == htobe32(LANE))
		ret = expect_on_lane(t, chunk, &hash);
	else if (head.kind == htobe32(BYTES))
		ret = take_bytes(t, chunk, &hash, why);
	else
		ret = take_known(t->chunks, &head, chunk, &hash, why);
	if (ret == 0)
		t->chunks->has[chunk] = hash;
	return ret;
}

static int take_records(struct cks_chunks *c, int stream, struct cks_why *why)
{
	struct taking t = {.chunks = c, .stream = stream};
	bool end = false;
	int ret = c->lanes ? cks_lanes_start(c->lanes, take_from_lane, &t, stream) : 0, lane;

	if (ret < 0)
		return cks_why_set(why, -ret, "threads for the memory: %m");
	cks_crew_start(&t.crew, compare, &t);
	while (ret == 0 && !end && !atomic_load(&t.wrong))
		ret = take_record(&t, &end, why);
	if (ret == 0)
		ret = wait_compared(&t, 0, why);
	cks_crew_end(&t.crew);
	lane = c->lanes ? cks_lanes_stop(c->lanes, ret < 0) : 0;
	if (lane < 0 && lane != -ECANCELED)
		ret = set_lane(&t, lane, why);
	if (ret < 0) /* some have not been compared, or others are equal to a wrong one */
		memset(c->has, 0, c->most * sizeof(*c->has));
	return ret;
}

int cks_chunks_take(struct cks_chunks *c, int stream, const json_t *json, struct cks_why *why)
{
	int ret = take_announcement(c, stream, json, why);

	if (ret == 0 && (ret = cks_stream_write(stream, json_pack("{s:b}", "ok", 1))) < 0)
		cks_stream_broken(ret, why);
	return ret == 0 ? take_records(c, stream, why) : ret;
}
