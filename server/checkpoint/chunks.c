/*
 * server/checkpoint/chunks.c - the sender; see chunks.h.
 */
#define _GNU_SOURCE
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "rpc/chan.h"
#include "server/checkpoint/chunks_part.h"
#include "server/checkpoint/crew.h"
#include "server/checkpoint/stream.h"
#include "util/process/fd.h"
#include "util/util.h"

#define INDEX ((size_t)1 << 20) /* entries, a power of two */

void cks_chunks_free(struct cks_chunks *c)
{
	if (c->bytes)
		munmap(c->bytes, c->size);
	if (c->file >= 0)
		close(c->file);
	free(c->has);
	free(c->index);
	cks_lanes_destroy(c->lanes);
	*c = (struct cks_chunks)CK_CHUNKS_NONE;
}

int cks_chunks_set_count(struct cks_chunks *c, size_t count, const struct cks_piece_key *key)
{
	size_t most = ck_max(count, c->most);
	struct cks_piece_hash *has = realloc(c->has, (most + 1) * sizeof(*has));
	void *zeros = c->most ? NULL : calloc(1, CHUNK);

	if (has)
		c->has = has;
	if (!has || (!c->most && !zeros)) {
		free(zeros);
		return -ENOMEM;
	}
	if (zeros)
		cks_piece_hash(zeros, CHUNK, key, &c->zero);
	free(zeros);
	memset(has + c->most, 0, (most - c->most) * sizeof(*has));
	c->key = *key;
	c->count = count;
	c->most = most;
	return 0;
}

bool cks_chunks_complete(const struct cks_chunks *c)
{
	size_t i = 0;

	while (i < c->count && cks_piece_hash_known(&c->has[i]))
		i++;
	return i == c->count;
}

/* --- to the other server */

static int announce(const struct cks_chunks *c, int stream, struct cks_why *why)
{
	const struct cks_piece_hash key = {.sum = {c->key.word[0], c->key.word[1]}};
	char text[CKS_PIECE_HASH_TEXT];
	int ret;

	cks_piece_hash_print(&key, text);
	ret = cks_stream_write(stream,
			       json_pack("{s:I, s:I, s:s, s:b}", "memory", (json_int_t)c->count,
					 "size", (json_int_t)c->size, "key", text, "alive", 1));
	return ret < 0 ? cks_stream_failed(stream, ret, why) : cks_stream_result(stream, why);
}

static int send_record(int stream, enum kind kind, size_t chunk, size_t from,
		       const struct cks_piece_hash *hash, void *bytes)
{
	struct head head = {.kind = htobe32(kind),
			    .chunk = htobe32((uint32_t)chunk),
			    .from = htobe32((uint32_t)from),
			    .hash = {htobe64(hash->sum[0]), htobe64(hash->sum[1])}};
	struct iovec parts[] = {{.iov_base = &head, .iov_len = sizeof(head)},
				{.iov_base = bytes, .iov_len = bytes ? CHUNK : 0}};

	return ck_fd_writev_full(stream, parts, CK_ARRAY_SIZE(parts));
}

static uint32_t *index_entry(const struct cks_chunks *c, const struct cks_piece_hash *hash)
{
	return &c->index[hash->sum[0] & (INDEX - 1)];
}

/* Tell the receiver that it has the content @hash of @chunk. 1: it does not. */
static int send_known(struct cks_chunks *c, int stream, size_t chunk,
		      const struct cks_piece_hash *hash)
{
	uint32_t other = *index_entry(c, hash);
	bool zeros = cks_piece_hash_equal(hash, &c->zero);

	if (!zeros && (other == 0 || other - 1 >= c->count || other - 1 == chunk ||
		       !cks_piece_hash_equal(&c->has[other - 1], hash)))
		return 1;
	return send_record(stream, zeros ? ZEROS : EQUAL, chunk, zeros ? 0 : other - 1, hash, NULL);
}

/* What the threads read ahead, and one thread sends in order, or has the lanes send. */
struct sending {
	struct cks_chunks *chunks;
	const struct cks_chunks_source *source;
	size_t *list, count; /* chunks whose marks are not those that the receiver has */
	struct content {
		char *bytes;
		struct cks_piece_hash hash;
		int error;
		size_t end;	      /* of the lanes' tasks that use the bytes */
	} contents[CKS_CREW_AHEAD];   /* of the chunks of these jobs */
	char *bytes[CKS_LANES_TASKS]; /* of the lanes' tasks */
};

/* A task of a lane. */
static int send_on_lane(void *data, struct ck_chan *chan, size_t task)
{
	const struct sending *s = data;
	struct iovec bytes = {.iov_base = s->bytes[task % CKS_LANES_TASKS], .iov_len = CHUNK};

	return ck_chan_writev(chan, &bytes, 1);
}

static int give_lane(struct sending *s, struct content *content)
{
	size_t task;
	int ret = cks_lanes_next(s->chunks->lanes, &task);

	if (ret < 0)
		return ret;
	s->bytes[task % CKS_LANES_TASKS] = content->bytes;
	content->end = task + 1;
	cks_lanes_give(s->chunks->lanes);
	return 0;
}

static int send_bytes(struct sending *s, int stream, size_t chunk,
		      const struct cks_piece_hash *hash, struct content *content)
{
	struct cks_chunks *c = s->chunks;
	int ret = send_record(stream, c->lanes ? LANE : BYTES, chunk, 0, hash,
			      c->lanes ? NULL : content->bytes);

	if (ret == 0 && c->lanes)
		ret = give_lane(s, content);
	*index_entry(c, hash) = (uint32_t)chunk + 1;
	c->sent += CHUNK;
	return ret;
}

/* A job: the content of a chunk, unless it is known to be zeros. */
static void load(void *data, size_t job)
{
	struct sending *s = data;
	struct content *content = &s->contents[job % CKS_CREW_AHEAD];
	size_t chunk = s->list[job];

	content->hash = s->source->marks[chunk];
	content->error = 0;
	if (cks_piece_hash_equal(&content->hash, &s->chunks->zero))
		return;
	content->error =
		ck_fd_pread_full(s->source->pool, content->bytes, CHUNK, (off_t)(chunk * CHUNK));
	/* at rest, the receiver compares it */
	if (content->error == 0 && (s->source->changing || !cks_piece_hash_known(&content->hash)))
		cks_piece_hash(content->bytes, CHUNK, &s->chunks->key, &content->hash);
}

static int send_chunk(struct sending *s, int stream, size_t chunk, struct content *content)
{
	const struct cks_piece_hash *mark = &s->source->marks[chunk];
	struct cks_chunks *c = s->chunks;
	bool known = cks_piece_hash_known(mark);
	const struct cks_piece_hash *hash = mark;
	int ret = known ? send_known(c, stream, chunk, mark) : 1;

	if (ret > 0) {
		hash = &content->hash;
		if (content->error < 0)
			return content->error;
		if (known && !cks_piece_hash_equal(mark, hash))
			return 0;
		ret = known ? 1 : send_known(c, stream, chunk, hash);
	}
	if (ret > 0)
		ret = send_bytes(s, stream, chunk, hash, content);
	c->has[chunk] = *hash;
	return ret;
}

/* Until the lanes have sent the chunk before, for whose bytes job @end may be done then. */
static int wait_sent(struct sending *s, size_t end)
{
	struct cks_lanes *lanes = s->chunks->lanes;

	return lanes ? cks_lanes_wait(lanes, s->contents[end % CKS_CREW_AHEAD].end) : 0;
}

static int send_jobs(struct sending *s, int stream)
{
	size_t ahead = s->chunks->lanes ? CKS_CREW_AHEAD - CKS_LANES_TASKS : CKS_CREW_AHEAD;
	struct cks_crew crew;
	int ret = 0;

	cks_crew_start(&crew, load, s);
	for (size_t i = 0; i < s->count && ret == 0; i++) {
		ret = wait_sent(s, i + ahead - 1);
		if (ret < 0)
			break;
		cks_crew_release(&crew, ck_min(s->count, i + ahead));
		cks_crew_wait(&crew, i);
		ret = send_chunk(s, stream, s->list[i], &s->contents[i % CKS_CREW_AHEAD]);
	}
	cks_crew_end(&crew);
	return ret;
}

static int send_list(struct sending *s, int stream)
{
	struct cks_lanes *lanes = s->chunks->lanes;
	int ret = lanes ? cks_lanes_start(lanes, send_on_lane, s, -1) : 0, lane;

	if (ret < 0)
		return ret;
	ret = send_jobs(s, stream);
	lane = lanes ? cks_lanes_stop(lanes, ret < 0) : 0;
	if (lane < 0) /* a receiver that waits for a record says only then what has failed */
		shutdown(stream, SHUT_WR);
	return ret < 0 ? ret : lane;
}

static void list_changed(struct sending *s)
{
	for (size_t i = 0; i < s->chunks->count; i++) {
		const struct cks_piece_hash *mark = &s->source->marks[i];

		if (cks_piece_hash_known(mark) ? !cks_piece_hash_equal(mark, &s->chunks->has[i])
					       : !s->source->changing)
			s->list[s->count++] = i;
	}
}

static int send_all(struct cks_chunks *c, int stream, const struct cks_chunks_source *source,
		    struct cks_why *why)
{
	struct sending s = {.chunks = c, .source = source};
	char *bytes = aligned_alloc(CK_MEMORY_ALIGN, CKS_CREW_AHEAD * CHUNK);
	int ret = 0;

	s.list = calloc(c->count + 1, sizeof(*s.list));
	if (!bytes || !s.list)
		ret = -ENOMEM;
	for (size_t i = 0; ret == 0 && i < CKS_CREW_AHEAD; i++)
		s.contents[i].bytes = bytes + i * CHUNK;
	if (ret == 0)
		list_changed(&s);
	if (ret == 0 && s.count > 0)
		ret = send_list(&s, stream);
	free(bytes);
	free(s.list);
	if (ret == 0)
		ret = send_record(stream, END, 0, 0, &c->zero, NULL);
	return ret < 0 ? cks_stream_failed(stream, ret, why) : 0;
}

int cks_chunks_send(struct cks_chunks *c, int stream, const struct cks_chunks_source *source,
		    struct cks_why *why)
{
	struct stat st = {.st_size = 0};
	int ret = source->count > 0 && fstat(source->pool, &st) < 0 ? -errno : 0;

	if (ret == 0 && (uint64_t)st.st_size < (uint64_t)source->count * CHUNK)
		ret = -ENODATA;
	if (ret == 0 && !c->index && !(c->index = calloc(INDEX, sizeof(*c->index))))
		ret = -ENOMEM;
	if (ret == 0)
		ret = cks_chunks_set_count(c, source->count,
					   source->count > 0 ? &source->key : &c->key);
	if (ret < 0)
		return cks_why_set(why, -ret, "device memory in host memory: %m");
	c->size = (uint64_t)st.st_size;
	ret = announce(c, stream, why);
	return ret < 0 ? ret : send_all(c, stream, source, why);
}
