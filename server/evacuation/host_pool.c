/*
 * server/evacuation/host_pool.c - see host_pool.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "server/evacuation/host_pool.h"
#include "server/session/driver.h"
#include "server/session/locks.h"
#include "server/session/session.h"
#include "util/log.h"
#include "util/page.h"
#include "util/until.h"
#include "util/util.h"

CK_LOG_DEFINE("server");

#define PIECE ((size_t)64 << 20)
#define HUGE ((size_t)2 << 20)
#define THREADS 8
#define FILL_MS 60000

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

struct cks_host_pool {
	struct ck_mutex lock;
	struct ck_cond made;
	struct cks_pool_table table; /* other processes may read it */
	size_t next;		     /* that a thread makes */
	size_t ready;		     /* the first that is not ready */
	bool failed;		     /* no more become ready */
	pthread_t threads[THREADS];
	size_t running; /* of them */
	uint64_t ctx;
	CUcontext context;
	_Atomic size_t size;
	int file;    /* all pieces are in it, one behind the other; -1: in none */
	bool shared; /* with other processes */
};

int cks_host_pool_create(struct cks_host_pool **out)
{
	struct cks_host_pool *p = calloc(1, sizeof(*p));

	if (!p)
		return -ENOMEM;
	p->lock = (struct ck_mutex)CK_MUTEX(CK_RANK_HOST_POOL);
	p->file = -1;
	*out = p;
	return 0;
}

static void unmap_piece(struct cks_host_pool *p, struct cks_pool_piece *piece)
{
	if (!piece->bytes)
		return;
	munmap(piece->bytes, piece->size);
	atomic_fetch_sub(&p->size, piece->size);
	*piece = (struct cks_pool_piece){.size = 0};
}

static void unregister_piece(struct cks_pool_piece *piece)
{
	/* its context may have ended: then it is not registered any more */
	if (piece->ctx && ck_driver.cuMemHostUnregister)
		ck_driver.cuMemHostUnregister(piece->bytes);
	piece->ctx = 0;
}

static void close_file(struct cks_host_pool *p)
{
	if (p->file >= 0)
		close(p->file);
	p->file = -1;
	p->shared = false;
}

void cks_host_pool_release(struct cks_host_pool *p)
{
	for (size_t i = 0; i < p->table.count; i++) {
		unregister_piece(&p->table.pieces[i]);
		unmap_piece(p, &p->table.pieces[i]);
	}
	free(p->table.pieces);
	p->table.pieces = NULL;
	p->table.count = p->ready = 0;
	close_file(p);
}

bool cks_host_pool_use_file(struct cks_host_pool *p)
{
	if (p->file >= 0)
		return true;
	cks_host_pool_release(p);
	p->file = memfd_create("cricket-pool", MFD_CLOEXEC);
	if (p->file < 0)
		ck_warn("no file for parked device memory: %m");
	return p->file >= 0;
}

int cks_host_pool_file(const struct cks_host_pool *p)
{
	return p->file;
}

void cks_host_pool_destroy(struct cks_host_pool *p)
{
	if (!p)
		return;
	for (size_t i = 0; i < p->table.count; i++)
		unmap_piece(p, &p->table.pieces[i]);
	free(p->table.pieces);
	close_file(p);
	ck_cond_destroy(&p->made);
	ck_mutex_destroy(&p->lock);
	free(p);
}

/* --- pieces */

/* Touch all pages now, in huge ones where possible: 0 or -ENOMEM. */
static int populate(char *bytes, size_t size)
{
	madvise(bytes, size, MADV_HUGEPAGE);
	if (madvise(bytes, size, MADV_POPULATE_WRITE) == 0)
		return 0;
	if (errno != EINVAL)
		return -ENOMEM;
	for (size_t at = 0; at < size; at += ck_page()) /* of an older kernel */
		bytes[at] = 0;
	return 0;
}

/* The piece's part of the file at @at, in place of the memory there. */
static bool map_file(const struct cks_host_pool *p, const struct cks_pool_piece *piece, char *at)
{
	off_t offset = (off_t)((size_t)(piece - p->table.pieces) * PIECE);

	return mmap(at, piece->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, p->file,
		    offset) != MAP_FAILED;
}

/* Memory of the piece's size, at a multiple of a huge page: 0 or -ENOMEM. */
static int map_piece(struct cks_host_pool *p, struct cks_pool_piece *piece)
{
	size_t room = piece->size + HUGE, before;
	char *got = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (got == MAP_FAILED)
		return -ENOMEM;
	before = CK_ALIGN_UP((uintptr_t)got, HUGE) - (uintptr_t)got;
	if (before > 0)
		munmap(got, before);
	got += before;
	if (HUGE > before)
		munmap(got + piece->size, HUGE - before);
	if (p->file >= 0 && !map_file(p, piece, got)) {
		munmap(got, piece->size);
		return -ENOMEM;
	}
	if (populate(got, piece->size) < 0) {
		munmap(got, piece->size);
		return -ENOMEM;
	}
	piece->bytes = got;
	atomic_fetch_add(&p->size, piece->size);
	return 0;
}

/* Copies are correct without it too, but slow. */
static void register_piece(struct cks_host_pool *p, struct cks_pool_piece *piece)
{
	CUresult err;

	if (piece->ctx == p->ctx || !ck_driver.cuMemHostRegister_v2)
		return;
	err = ck_driver.cuMemHostRegister_v2(piece->bytes, piece->size,
					     CU_MEMHOSTREGISTER_PORTABLE);
	if (err && err != CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED)
		ck_debug("host memory for parked device memory: %s", cks_error_name(err));
	else
		piece->ctx = p->ctx;
}

static bool take_next(struct cks_host_pool *p, size_t *index)
{
	bool any;

	ck_lock(&p->lock);
	*index = p->next;
	any = !p->failed && p->next < p->table.count;
	p->next += any;
	ck_unlock(&p->lock);
	return any;
}

/* Pieces become ready in order: a later one waits for those before. */
static void finish_piece(struct cks_host_pool *p, size_t index, bool ok)
{
	ck_lock(&p->lock);
	while (p->ready < index && !p->failed)
		ck_cond_wait(&p->made, &p->lock);
	if (ok && !p->failed)
		p->ready = index + 1;
	else
		p->failed = true;
	ck_cond_broadcast(&p->made);
	ck_unlock(&p->lock);
}

static void *make_pieces(void *pool)
{
	struct cks_host_pool *p = pool;
	CUcontext popped;
	size_t i;
	bool current = ck_driver.cuCtxPushCurrent_v2(p->context) == CUDA_SUCCESS;

	while (take_next(p, &i)) {
		struct cks_pool_piece *piece = &p->table.pieces[i];
		bool ok = piece->bytes || map_piece(p, piece) == 0;

		if (ok && current)
			register_piece(p, piece);
		finish_piece(p, i, ok);
	}
	if (current)
		ck_driver.cuCtxPopCurrent_v2(&popped);
	return NULL;
}

/* --- growth */

static void drop_last(struct cks_host_pool *p)
{
	unregister_piece(&p->table.pieces[p->table.count - 1]);
	unmap_piece(p, &p->table.pieces[--p->table.count]);
}

/* Entries for @size bytes, those that exist first. */
static int plan_pieces(struct cks_host_pool *p, size_t size)
{
	size_t count = (size + PIECE - 1) / PIECE;
	struct cks_pool_piece *pieces;

	if (p->table.count > 0 && p->table.count <= count &&
	    p->table.pieces[p->table.count - 1].size <
		    ck_min(PIECE, size - (p->table.count - 1) * PIECE))
		drop_last(p); /* it was made for fewer bytes */
	if (count <= p->table.count)
		return 0;
	pieces = realloc(p->table.pieces, count * sizeof(*pieces));
	if (!pieces)
		return -ENOMEM;
	p->table.pieces = pieces;
	for (; p->table.count < count; p->table.count++)
		pieces[p->table.count] = (struct cks_pool_piece){
			.size = ck_min(PIECE, CK_ALIGN_UP(size - p->table.count * PIECE, HUGE))};
	if (p->file >= 0 && ftruncate(p->file, (off_t)(count * PIECE)) < 0)
		return -errno;
	return 0;
}

static size_t count_threads(const struct cks_host_pool *p)
{
	long processors = sysconf(_SC_NPROCESSORS_ONLN);

	return ck_min(ck_min(p->table.count, (size_t)THREADS), (size_t)ck_max(processors, 1L));
}

void cks_host_pool_grow(struct cks_host_pool *p, size_t size, uint64_t ctx, CUcontext context)
{
	size_t threads;

	p->ctx = ctx;
	p->context = context;
	p->next = p->ready = p->running = 0;
	p->failed = plan_pieces(p, size) < 0;
	threads = count_threads(p);
	while (p->running < threads &&
	       pthread_create(&p->threads[p->running], NULL, make_pieces, p) == 0)
		p->running++;
	if (p->running == 0)
		make_pieces(p);
}

void cks_host_pool_finish(struct cks_host_pool *p)
{
	while (p->running > 0)
		pthread_join(p->threads[--p->running], NULL);
	/* pieces that no thread could make */
	while (p->table.count > p->ready)
		drop_last(p);
}

char *cks_host_pool_at(struct cks_host_pool *p, size_t offset, size_t *room)
{
	size_t i = offset / PIECE;
	char *at = NULL;

	ck_lock(&p->lock);
	while (p->ready <= i && !p->failed && i < p->table.count)
		ck_cond_wait(&p->made, &p->lock);
	if (i < p->ready && offset % PIECE < p->table.pieces[i].size) {
		at = p->table.pieces[i].bytes + offset % PIECE;
		*room = p->table.pieces[i].size - offset % PIECE;
	}
	ck_unlock(&p->lock);
	return at;
}

const struct cks_pool_table *cks_host_pool_table(struct cks_host_pool *p, size_t used)
{
	p->table.used = used;
	return &p->table;
}

/* Empty pages in place of the piece's: false: it stays. */
static bool drop_piece(const struct cks_host_pool *p, const struct cks_pool_piece *piece)
{
	if (p->file < 0)
		return madvise(piece->bytes, piece->size, MADV_DONTNEED) == 0;
	return mmap(piece->bytes, piece->size, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED;
}

void cks_host_pool_drop(struct cks_host_pool *p)
{
	bool dropped = true;

	if (atomic_load(&p->table.state) != CK_POOL_COMPLETE)
		return;
	atomic_store(&p->table.state, CK_POOL_DROPPING);
	for (size_t i = 0; i < p->table.count; i++)
		dropped &= drop_piece(p, &p->table.pieces[i]);
	close_file(p);
	if (!dropped)
		ck_err("host memory for parked device memory cannot be dropped: %m");
	atomic_store(&p->table.state, CK_POOL_DROPPED);
}

bool cks_host_pool_shared(const struct cks_host_pool *p)
{
	return p->shared;
}

void cks_host_pool_take(struct cks_host_pool *p, int fd, bool shared)
{
	bool taken = true;

	if (atomic_load(&p->table.state) != CK_POOL_DROPPED) { /* another process has filled it */
		close(fd);
		return;
	}
	p->file = fd;
	p->shared = shared;
	for (size_t i = 0; i < p->table.count; i++)
		taken &= map_file(p, &p->table.pieces[i], p->table.pieces[i].bytes);
	if (taken)
		atomic_store(&p->table.state, CK_POOL_COMPLETE);
	else
		ck_err("host memory for parked device memory cannot be mapped again: %m");
}

bool cks_host_pool_filled(const struct cks_host_pool *p)
{
	const struct timespec step = {.tv_nsec = 10000000};
	int64_t until = ck_now_ms() + FILL_MS;

	while (atomic_load(&p->table.state) != CK_POOL_COMPLETE && ck_now_ms() < until)
		nanosleep(&step, NULL);
	return atomic_load(&p->table.state) == CK_POOL_COMPLETE;
}

size_t cks_host_pool_size(const struct cks_host_pool *p)
{
	return atomic_load(&p->size);
}
