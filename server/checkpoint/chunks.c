/*
 * server/checkpoint/chunks.c - see chunks.h.
 */
#define _GNU_SOURCE
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/checkpoint/chunks.h"
#include "server/checkpoint/stream.h"
#include "util/process/available_memory.h"
#include "util/process/fd.h"
#include "util/util.h"

#define CHUNK CK_MEMORY_PIECE
#define INDEX ((size_t)1 << 20)				/* entries, a power of two */
#define SIZE_MOST (2 * (uint64_t)CK_MEMORY_MAX * CHUNK) /* the file has room that is not used */

/* A record. */
struct head {
	uint32_t kind, chunk, from, unused;
	uint64_t hash[2];
};
enum kind {
	END,
	BYTES, /* they follow */
	EQUAL, /* as chunk @from, which the receiver has */
	ZEROS,
};

void cks_chunks_free(struct cks_chunks *c)
{
	if (c->bytes)
		munmap(c->bytes, c->size);
	if (c->file >= 0)
		close(c->file);
	free(c->has);
	free(c->index);
	*c = (struct cks_chunks)CK_CHUNKS_NONE;
}

/* The pool has @count chunks now. The key stays the same. */
static int set_count(struct cks_chunks *c, size_t count, const struct cks_piece_key *key)
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

/* --- to the other server */

static int announce(const struct cks_chunks *c, int stream, struct cks_why *why)
{
	const struct cks_piece_hash key = {.sum = {c->key.word[0], c->key.word[1]}};
	char text[CKS_PIECE_HASH_TEXT];
	int ret;

	cks_piece_hash_print(&key, text);
	ret = cks_stream_write(stream, json_pack("{s:I, s:I, s:s}", "memory", (json_int_t)c->count,
						 "size", (json_int_t)c->size, "key", text));
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

static int send_bytes(struct cks_chunks *c, int stream, size_t chunk,
		      const struct cks_piece_hash *hash, void *bytes)
{
	int ret = send_record(stream, BYTES, chunk, 0, hash, bytes);

	*index_entry(c, hash) = (uint32_t)chunk + 1;
	c->sent += CHUNK;
	return ret;
}

static int send_chunk(struct cks_chunks *c, int stream, const struct cks_chunks_source *source,
		      size_t chunk, void *buffer)
{
	struct cks_piece_hash mark = source->marks[chunk], hash = mark;
	int ret;

	if (cks_piece_hash_known(&mark) ? cks_piece_hash_equal(&mark, &c->has[chunk])
					: source->changing)
		return 0;
	ret = cks_piece_hash_known(&mark) ? send_known(c, stream, chunk, &mark) : 1;
	if (ret > 0) {
		ret = ck_fd_pread_full(source->pool, buffer, CHUNK, (off_t)(chunk * CHUNK));
		if (ret < 0)
			return ret;
		/* at rest, the receiver compares it */
		if (source->changing || !cks_piece_hash_known(&mark))
			cks_piece_hash(buffer, CHUNK, &c->key, &hash);
		if (cks_piece_hash_known(&mark) && !cks_piece_hash_equal(&mark, &hash))
			return 0;
		ret = cks_piece_hash_known(&mark) ? 1 : send_known(c, stream, chunk, &hash);
	}
	if (ret > 0)
		ret = send_bytes(c, stream, chunk, &hash, buffer);
	c->has[chunk] = hash;
	return ret;
}

static int send_all(struct cks_chunks *c, int stream, const struct cks_chunks_source *source,
		    struct cks_why *why)
{
	void *buffer = aligned_alloc(CK_MEMORY_ALIGN, CHUNK);
	int ret = buffer ? 0 : -ENOMEM;

	for (size_t i = 0; i < c->count && ret == 0; i++)
		ret = send_chunk(c, stream, source, i, buffer);
	free(buffer);
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
		ret = set_count(c, source->count, source->count > 0 ? &source->key : &c->key);
	if (ret < 0)
		return cks_why_set(why, -ret, "device memory in host memory: %m");
	c->size = (uint64_t)st.st_size;
	ret = announce(c, stream, why);
	return ret < 0 ? ret : send_all(c, stream, source, why);
}

/* --- from it */

/* Memory for all of the file at once: a lack of it shows before the program has to wait. */
static int reserve(struct cks_chunks *c, uint64_t size, struct cks_why *why)
{
	uint64_t old = c->bytes ? c->size : 0, most = ck_available_memory();
	void *bytes = MAP_FAILED;
	int ret = size > old && most > 0 && size - old > most ? -ENOMEM : 0;

	if (c->file < 0)
		c->file = memfd_create("cricket-pool", MFD_CLOEXEC);
	if (ret == 0 && c->file < 0)
		ret = -errno;
	while (ret == 0 && size > old && fallocate(c->file, 0, 0, (off_t)size) < 0)
		ret = errno == EINTR ? 0 : -errno;
	if (ret == 0 && size != old) {
		bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, c->file, 0);
		ret = bytes == MAP_FAILED ? -errno : 0;
	}
	if (ret < 0)
		return cks_why_set(why, -ret, "%llu MiB of host memory for the session: %m",
				   (unsigned long long)size >> 20);
	if (size == old)
		return 0;
	if (c->bytes)
		munmap(c->bytes, c->size);
	c->bytes = bytes;
	c->size = size;
	return 0;
}

static int take_announcement(struct cks_chunks *c, const json_t *json, struct cks_why *why)
{
	json_int_t count = json_integer_value(json_object_get(json, "memory"));
	json_int_t size = json_integer_value(json_object_get(json, "size"));
	const char *text = json_string_value(json_object_get(json, "key"));
	struct cks_piece_hash word;
	struct cks_piece_key key;
	int ret;

	if (!json_is_integer(json_object_get(json, "memory")) || count < 0 ||
	    count > CK_MEMORY_MAX || size % (json_int_t)CHUNK || size / (json_int_t)CHUNK < count ||
	    (uint64_t)size > SIZE_MOST || !text || !cks_piece_hash_parse(text, &word))
		return cks_why_set(why, EBADMSG, "the other server sends no valid size of memory");
	key = (struct cks_piece_key){.word = {word.sum[0], word.sum[1]}};
	if (c->most > 0 && memcmp(&key, &c->key, sizeof(key)) != 0)
		return cks_why_set(why, EBADMSG, "the other server sends another key");
	ret = reserve(c, ck_max((uint64_t)size, c->size), why);
	if (ret == 0 && (ret = set_count(c, (size_t)count, &key)) < 0)
		cks_why_set(why, -ret, "%m");
	return ret;
}

/* The content of a record that has a hash. 0, or -errno; -EBADMSG: it does not have that hash. */
static int take_content(struct cks_chunks *c, int stream, const struct head *head,
			const struct cks_piece_hash *hash)
{
	uint32_t chunk = be32toh(head->chunk), from = be32toh(head->from);
	char *at = c->bytes + (size_t)chunk * CHUNK;
	struct cks_piece_hash own = {.sum = {0, 0}};
	int ret;

	switch (be32toh(head->kind)) {
	case BYTES:
		ret = ck_fd_read_full(stream, at, CHUNK);
		if (ret < 0)
			return ret;
		cks_piece_hash(at, CHUNK, &c->key, &own);
		break;
	case EQUAL:
		if (from >= c->count || from == chunk)
			return -EBADMSG;
		memcpy(at, c->bytes + (size_t)from * CHUNK, CHUNK);
		own = c->has[from];
		break;
	case ZEROS:
		if (cks_piece_hash_known(&c->has[chunk])) /* else the file is new there */
			memset(at, 0, CHUNK);
		own = c->zero;
		break;
	}
	return cks_piece_hash_known(hash) && cks_piece_hash_equal(&own, hash) ? 0 : -EBADMSG;
}

static int take_record(struct cks_chunks *c, int stream, bool *end, struct cks_why *why)
{
	struct cks_piece_hash hash;
	struct head head;
	int ret = ck_fd_read_full(stream, &head, sizeof(head));
	uint32_t chunk = ret < 0 ? 0 : be32toh(head.chunk);

	*end = ret == 0 && head.kind == htobe32(END);
	if (*end)
		return 0;
	if (ret == 0 && (chunk >= c->count || be32toh(head.kind) > ZEROS))
		return cks_why_set(why, EBADMSG, "the other server sends memory in another form");
	if (ret == 0) {
		hash = (struct cks_piece_hash){
			.sum = {be64toh(head.hash[0]), be64toh(head.hash[1])}};
		ret = take_content(c, stream, &head, &hash);
	}
	if (ret == -EBADMSG)
		return cks_why_set(why, EBADMSG, "chunk %u of the memory has changed on the way",
				   chunk);
	if (ret < 0)
		return cks_why_set(why, -ret, "the connection to the other server: %m");
	c->has[chunk] = hash;
	return 0;
}

int cks_chunks_take(struct cks_chunks *c, int stream, const json_t *json, struct cks_why *why)
{
	int ret = take_announcement(c, json, why);
	bool end = false;

	if (ret == 0 && (ret = cks_stream_write(stream, json_pack("{s:b}", "ok", 1))) < 0)
		cks_why_set(why, -ret, "the connection to the other server: %m");
	while (ret == 0 && !end)
		ret = take_record(c, stream, &end, why);
	return ret;
}

bool cks_chunks_complete(const struct cks_chunks *c)
{
	size_t i = 0;

	while (i < c->count && cks_piece_hash_known(&c->has[i]))
		i++;
	return i == c->count;
}
