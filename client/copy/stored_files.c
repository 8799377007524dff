/*
 * client/copy/stored_files.c - fill the server's store before a program needs it; see
 * cuda/client_store.h.
 *
 * A file is divided into chunks at multiples of CK_CHUNK, as uploads from it are. Its hashes
 * go into the same index, with the same keys, so that the first start of a program finds them.
 * While some chunks are sent, a thread hashes the next ones.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "client/copy/chunk_index.h"
#include "client/copy/upload_source.h"
#include "client/link/client.h"
#include "client/wire/pipelined_calls.h"
#include "cuda/client_store.h"
#include "gen/wire.h"
#include "rpc/compress.h"
#include "util/process/fd.h"
#include "util/util.h"

#define SIZE_MIN 4096u /* a smaller file is no source of an upload that is kept */

/* A file that is being stored. */
struct stored_file {
	struct ckc_client *client;
	struct ckc_upload_source source;
	const void *map; /* only names the file to the source: its bytes are read */
	size_t size;
	int fd, index;
	uint32_t now;
	char *sent, *hashed; /* each with room for a chunk */
	struct ck_store_report *report;
};

/* Chunks for which the server is asked at once. */
struct batch {
	struct stored_file *file;
	size_t at, count; /* where the first one begins */
	struct ck_hash hashes[CK_STORED_MOST];
	int ret; /* of the hashing */
};

static int open_session(struct ckc_client **c)
{
	*c = ckc_client_current();
	if (!*c || ckc_session_open(*c))
		return -ENOTCONN;
	return ckc_session_offers(*c, CK_PROC_store_keep) ? 0 : -EOPNOTSUPP;
}

static int error_of(CUresult err)
{
	switch (err) {
	case CUDA_SUCCESS:
		return 0;
	case CUDA_ERROR_OUT_OF_MEMORY:
		return -ENOSPC;
	case CUDA_ERROR_NOT_SUPPORTED:
		return -EOPNOTSUPP;
	case CUDA_ERROR_INVALID_VALUE:
		return -EPROTO;
	case CUDA_ERROR_OPERATING_SYSTEM:
		return -EIO;
	default:
		return -ENOTCONN;
	}
}

static void close_file(struct stored_file *f)
{
	if (f->map)
		munmap((void *)(uintptr_t)f->map, f->size);
	ckc_upload_source_close(&f->source);
	free(f->sent);
	free(f->hashed);
	if (f->index >= 0)
		close(f->index);
	if (f->fd >= 0)
		close(f->fd);
}

static int open_file(struct stored_file *f, const char *path)
{
	struct stat st;
	void *map;

	f->index = -1;
	f->fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (f->fd < 0 || fstat(f->fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	f->size = (size_t)st.st_size;
	f->index = ckc_chunk_index_open();
	f->sent = malloc(CK_CHUNK);
	f->hashed = malloc(CK_CHUNK);
	if (!f->sent || !f->hashed || f->index < 0)
		return f->sent && f->hashed ? f->index : -ENOMEM;
	map = f->size > 0 ? mmap(NULL, f->size, PROT_READ, MAP_SHARED, f->fd, 0) : NULL;
	if (map == MAP_FAILED)
		return -errno;
	f->map = map;
	return 0;
}

/* -EAGAIN: the file has become shorter. */
static int read_chunk(const struct stored_file *f, char *to, size_t at, size_t size)
{
	int ret = ck_fd_pread_full(f->fd, to, size, (off_t)at);

	return ret == -ENODATA ? -EAGAIN : ret;
}

/* Find the hash of a chunk: in the index, or by reading it; then the index gets it. */
static int hash_chunk(struct stored_file *f, size_t at, size_t size, struct ck_hash *hash)
{
	const struct ckc_chunk_key key = ckc_upload_source_key(&f->source, at, size);
	struct ckc_chunk_entry entry;
	int ret;

	if (ckc_chunk_index_find(f->index, &key, f->now, &entry) && entry.sure && f->source.sure) {
		*hash = entry.hash;
		return 0;
	}
	ret = read_chunk(f, f->hashed, at, size);
	if (ret < 0)
		return ret;
	ck_hash(f->hashed, size, hash);
	if (!ckc_upload_source_is_intact(&f->source, at, size))
		return -EAGAIN;
	entry = (struct ckc_chunk_entry){.hash = *hash, .sure = f->source.sure};
	ckc_chunk_index_put(f->index, &key, f->now, &entry);
	return 0;
}

/* Send a chunk. The server refuses it if its bytes are not those of @hash any more. */
static int send_chunk(struct stored_file *f, struct ckc_pipelined *ahead, size_t at, size_t size,
		      const struct ck_hash *hash)
{
	ck_store_keep_args args = {.size = size, .data_length = (u_int)size};
	int ret = read_chunk(f, f->sent, at, size);

	if (ret < 0)
		return ret;
	memcpy(args.hash, hash->bytes, sizeof(args.hash));
	return error_of(ckc_pipelined_call(ahead, CK_PROC_store_keep, &args, f->sent, size));
}

/* Send the chunks that the server lacks. */
static int send_missing(const struct batch *b, const char *missing)
{
	struct stored_file *f = b->file;
	struct ckc_pipelined ahead;
	int ret = 0, ended;

	ckc_pipelined_begin(&ahead, f->client, 0);
	for (size_t i = 0; i < b->count && ret == 0; i++) {
		size_t at = b->at + i * CK_CHUNK, size = ck_min(f->size - at, CK_CHUNK);

		if (missing[i])
			ret = send_chunk(f, &ahead, at, size, &b->hashes[i]);
		else
			f->report->stored += size;
	}
	ended = error_of(ckc_pipelined_end(&ahead));
	return ret ? ret : ended;
}

static int store_batch(const struct batch *b)
{
	size_t length = 0;
	void *missing = NULL;
	int ret = b->ret;

	if (ret == 0)
		ret = error_of(ck_wire_store_find(0, b->hashes, b->count * sizeof(b->hashes[0]),
						  &missing, &length));
	if (ret == 0)
		ret = length == b->count ? send_missing(b, missing) : -EPROTO;
	free(missing);
	return ret;
}

/* Hash the chunks from @at of the batch on. */
static void *hash_batch(void *batch)
{
	struct batch *b = batch;
	struct stored_file *f = b->file;

	b->ret = 0;
	b->count = 0;
	for (size_t at = b->at; at < f->size && b->count < CK_STORED_MOST && b->ret == 0;
	     at += CK_CHUNK)
		b->ret = hash_chunk(f, at, ck_min(f->size - at, CK_CHUNK), &b->hashes[b->count++]);
	return NULL;
}

static int store_chunks(struct stored_file *f)
{
	struct batch *batches = calloc(2, sizeof(batches[0])); /* large for a stack */
	int ret = 0;

	if (!batches)
		return -ENOMEM;
	batches[0].file = batches[1].file = f;
	hash_batch(&batches[0]);
	for (unsigned int i = 0; batches[i].count > 0 && ret == 0; i = !i) {
		struct batch *now = &batches[i], *next = &batches[!i];
		pthread_t thread;
		bool beside;

		next->at = now->at + now->count * CK_CHUNK;
		beside = pthread_create(&thread, NULL, hash_batch, next) == 0;
		ret = store_batch(now);
		if (beside)
			pthread_join(thread, NULL);
		else
			hash_batch(next);
	}
	free(batches);
	return ret;
}

static int store_file(struct stored_file *f)
{
	struct ck_store_state state;
	int ret = cricket_store_read(&state);

	f->report->size = f->size;
	f->report->too_small = f->size < SIZE_MIN;
	if (ret < 0 || f->report->too_small)
		return ret;
	if (f->size > state.limit || ck_min(f->size, CK_CHUNK) > state.limit / 2)
		return state.limit > 0 ? -EFBIG : -EOPNOTSUPP;
	f->now = (uint32_t)time(NULL);
	ret = ckc_upload_source_open(f->map, f->size, &f->source);
	if (ret == 0)
		ret = store_chunks(f);
	if (ret == 0 && !ckc_upload_source_is_intact(&f->source, 0, f->size))
		ret = -EAGAIN;
	return ret == -EPROTO || ret == -ENOENT ? -EAGAIN : ret;
}

CK_EXPORT int cricket_store_put(const char *path, struct ck_store_report *report)
{
	struct stored_file f = {.now = 0, .report = report};
	int ret = open_file(&f, path);

	*report = (struct ck_store_report){.size = 0};
	if (ret == 0)
		ret = open_session(&f.client);
	if (ret == 0)
		ret = store_file(&f);
	close_file(&f);
	return ret;
}

CK_EXPORT int cricket_store_read(struct ck_store_state *state)
{
	struct ckc_client *c;
	cuuint64_t count = 0, bytes = 0, limit = 0;
	int ret = open_session(&c);

	if (ret == 0)
		ret = error_of(ck_wire_store_state(0, &count, &bytes, &limit));
	*state = (struct ck_store_state){count, bytes, limit};
	return ret;
}

CK_EXPORT int cricket_store_empty(void)
{
	struct ckc_client *c;
	int ret = open_session(&c);

	return ret < 0 ? ret : error_of(ck_wire_store_empty(0));
}
