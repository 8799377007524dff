/*
 * server/evacuation/evacuation.c - see evacuation.h.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "cricket.h"
#include "server/evacuation/evacuation_part.h"
#include "server/memory/memory.h"
#include "server/memory/virtual.h"
#include "server/policy/meter.h"
#include "server/session/session.h"
#include "util/log.h"
#include "util/until.h"
#include "util/util.h"

CK_LOG_DEFINE("server");

#define BATCH ((size_t)128 << 20)
#define LEAVING_MS 5000 /* to wait for the next memory of a session that leaves */

int cks_evacuation_create(struct cks_evacuation **out)
{
	struct cks_evacuation *e = calloc(1, sizeof(*e));

	if (!e)
		return -ENOMEM;
	if (cks_host_pool_create(&e->pool) < 0) {
		free(e);
		return -ENOMEM;
	}
	*out = e;
	return 0;
}

void cks_evacuation_destroy(struct cks_evacuation *e)
{
	if (!e)
		return;
	cks_host_pool_destroy(e->pool);
	cks_marks_destroy(e->marks);
	cks_piece_hasher_destroy(e->hasher);
	free(e->places);
	free(e->list);
	free(e);
}

uint64_t cks_evacuation_away(const struct cks_session *s)
{
	return atomic_load(&s->evacuation->away);
}

void cks_evacuation_by_device(const struct cks_session *s, uint64_t bytes[CK_NOTED_GPUS])
{
	const struct cks_evacuation *e = s->evacuation;

	for (size_t i = 0; i < e->count; i++) {
		if (e->list[i].device < CK_NOTED_GPUS)
			bytes[e->list[i].device] += e->list[i].size;
	}
}

uint64_t cks_evacuation_pool(const struct cks_session *s)
{
	return cks_host_pool_size(s->evacuation->pool);
}

/* How many pieces from @first on are one range of addresses, with the same access. */
static size_t count_run(const struct cks_evacuated *list, size_t first, size_t count)
{
	size_t i = first + 1;

	while (i < count && list[i].at == list[i - 1].at + list[i - 1].size &&
	       list[i].writers == list[first].writers && list[i].readers == list[first].readers)
		i++;
	return i - first;
}

static size_t size_of_run(const struct cks_evacuated *run, size_t count)
{
	return run[count - 1].at + run[count - 1].size - run->at;
}

/* Where the batch from @first on ends. While one session copies a batch out of the GPU, another one
 * may fill the place of the batch before. */
static size_t end_of_batch(const struct cks_evacuation *e, size_t first)
{
	size_t size = 0, end = first;

	while (end < e->count && size < BATCH)
		size += e->list[end++].size;
	return end;
}

/* --- out */

/* Unmap and release a run. False: it stays. */
static bool release_run(struct cks_evacuated *run, size_t count)
{
	CUresult err = ck_driver.cuMemUnmap(run->at, size_of_run(run, count));

	if (err) {
		ck_warn("memory at %#llx stays on the GPU: %s", (unsigned long long)run->at,
			cks_error_name(err));
		return false;
	}
	for (size_t i = 0; i < count; i++) {
		if (run[i].handle)
			ck_driver.cuMemRelease(run[i].handle);
	}
	return true;
}

/* The pieces from @first to @end have been copied: give their memory back, and move them behind the
 * first *@kept of the list. */
static void release_copied(struct cks_evacuation *e, size_t first, size_t end, size_t *kept)
{
	size_t count;

	for (size_t i = first; i < end; i += count) {
		count = count_run(e->list, i, end);
		if (!release_run(&e->list[i], count))
			continue;
		for (size_t k = 0; k < count; k++) {
			e->list[*kept] = e->list[i + k];
			atomic_fetch_add(&e->away, e->list[(*kept)++].size);
		}
	}
}

/* Memory that moves, in the order of addresses. @id, @context: of the first piece. */
static int list_pieces(struct cks_session *s, uint64_t *id, CUcontext *context)
{
	struct cks_evacuation *e = s->evacuation;
	bool usable[CK_MAX_DEVICES];
	size_t kept = 0;

	for (CUdevice i = 0; i < CK_MAX_DEVICES; i++)
		usable[i] = i < s->device_count && cks_evacuation_context(s, i, id, context);
	if (cks_evacuation_list(s, &e->list, &e->count) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < e->count; i++) {
		if (usable[e->list[i].device])
			e->list[kept++] = e->list[i];
	}
	e->count = kept;
	return kept > 0 && cks_evacuation_context(s, e->list[0].device, id, context) ? 0 : -ENOENT;
}

void cks_evacuation_forget_list(struct cks_evacuation *e)
{
	free(e->list);
	e->list = NULL;
	e->count = 0;
	atomic_store(&e->away, 0);
}

/* The times of both ways show whether the driver's calls or the copies limit them. */
static void note_times(const char *way, uint64_t bytes, size_t count, int64_t memory_us,
		       int64_t copies_us)
{
	ck_debug("%s: %llu MiB in %zu pieces; host or device memory: %lld us, copies: %lld us", way,
		 (unsigned long long)(bytes >> 20), count, (long long)memory_us,
		 (long long)copies_us);
}

static bool prepare_marks(struct cks_evacuation *e, bool saves, CUcontext context)
{
	CUcontext popped;

	if (ck_driver.cuCtxPushCurrent_v2(context))
		return false;
	cks_evacuation_mark(e, saves);
	ck_driver.cuCtxPopCurrent_v2(&popped);
	return true;
}

/* Move all pieces, or those before the first that cannot be copied; the time that the copies
 * take. */
static int64_t move_batches(struct cks_session *s)
{
	struct cks_evacuation *e = s->evacuation;
	size_t kept = 0, end, copied;
	int64_t copies = 0;

	for (size_t first = 0; first < e->count; first = copied == end ? end : e->count) {
		/* with marks, all is compared before the first copy */
		copied = end = e->marked ? e->count : end_of_batch(e, first);
		copies -= ck_now_us();
		cks_evacuation_copy(s, true, false, first, &copied);
		copies += ck_now_us();
		release_copied(e, first, copied, &kept);
	}
	e->count = kept;
	return copies;
}

/* The pieces have their places in the pool. */
static void move_out(struct cks_session *s, bool saves, uint64_t id, CUcontext context)
{
	struct cks_evacuation *e = s->evacuation;
	int64_t began = ck_now_us(), copies;

	e->copied = 0;
	if (!prepare_marks(e, saves, context)) {
		e->count = 0;
		return;
	}
	cks_host_pool_grow(e->pool, e->extent, id, context);
	cks_meter_hold(true);
	copies = move_batches(s);
	cks_meter_hold(false);
	cks_host_pool_finish(e->pool);
	note_times("out", e->marked ? e->copied : e->extent, e->count, ck_now_us() - began - copies,
		   copies);
}

bool cks_evacuation_possible(const struct cks_evacuation *e)
{
	return e->count == 0 && cks_virtual_supported() && ck_driver.cuMemcpyDtoHAsync_v2 &&
	       ck_driver.cuMemcpyHtoDAsync_v2;
}

static uint64_t bytes_of_list(const struct cks_evacuation *e)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < e->count; i++)
		bytes += e->list[i].size;
	return bytes;
}

void cks_evacuate(struct cks_session *s, uint64_t room, bool saves, void (*begins)(uint64_t bytes))
{
	struct cks_evacuation *e = s->evacuation;
	CUcontext context;
	uint64_t id;

	if (!cks_evacuation_possible(e))
		return;
	if (list_pieces(s, &id, &context) == 0) {
		cks_evacuation_place(e, room, saves);
		if (e->count > 0) {
			begins(bytes_of_list(e));
			move_out(s, saves, id, context);
		}
	} else {
		e->count = 0;
	}
	if (e->count == 0)
		cks_evacuation_forget_list(e);
}

/* --- back */

static void release_new(struct cks_evacuated *list, size_t created, size_t mapped)
{
	for (size_t i = 0; i < mapped; i++)
		ck_driver.cuMemUnmap(list[i].at, list[i].size);
	for (size_t i = 0; i < created; i++)
		ck_driver.cuMemRelease(list[i].handle);
}

static CUresult grant_runs(const struct cks_evacuated *list, size_t total)
{
	CUresult err = CUDA_SUCCESS;
	size_t count;

	for (size_t i = 0; !err && i < total; i += count) {
		const struct cks_evacuated *run = &list[i];

		count = count_run(list, i, total);
		err = cks_virtual_grant(run->at, size_of_run(run, count), run->writers,
					run->readers);
	}
	return err;
}

/* Is there room for all, as soon as another session has given @leaving bytes back? */
static bool will_fit(struct cks_session *s, uint64_t leaving)
{
	uint64_t need[CK_MAX_DEVICES] = {0}, lacking = 0, id;
	const struct cks_evacuation *e = s->evacuation;
	CUcontext context, popped;
	size_t free, total;

	for (size_t i = 0; i < e->count; i++)
		need[e->list[i].device] += e->list[i].size;
	for (CUdevice i = 0; i < s->device_count; i++) {
		if (need[i] == 0 || !cks_evacuation_context(s, i, &id, &context) ||
		    ck_driver.cuCtxPushCurrent_v2(context))
			continue;
		if (ck_driver.cuMemGetInfo_v2(&free, &total))
			free = 0;
		ck_driver.cuCtxPopCurrent_v2(&popped);
		lacking += need[i] - ck_min(need[i], (uint64_t)free);
	}
	return lacking <= leaving;
}

/* Memory for the piece, within @wait_ms. */
static CUresult create_piece(struct cks_evacuated *p, int64_t wait_ms)
{
	const struct timespec pause = {.tv_nsec = 2 * CK_NS_PER_MS};
	int64_t until = ck_now_ms() + wait_ms;
	CUresult err;

	while ((err = ck_driver.cuMemCreate(&p->handle, p->size, &p->prop, 0)) ==
		       CUDA_ERROR_OUT_OF_MEMORY &&
	       ck_now_ms() < until)
		nanosleep(&pause, NULL);
	return err;
}

/* New memory at the old addresses of @count pieces, or none. */
static CUresult create_memory(struct cks_evacuated *list, size_t count, int64_t wait_ms)
{
	size_t created = 0, mapped = 0;
	CUresult err = CUDA_SUCCESS;

	while (!err && created < count) {
		err = create_piece(&list[created], wait_ms);
		created += !err;
	}
	while (!err && mapped < count) {
		const struct cks_evacuated *p = &list[mapped];

		err = ck_driver.cuMemMap(p->at, p->size, 0, p->handle, 0);
		mapped += !err;
	}
	if (!err)
		err = grant_runs(list, count);
	if (err)
		release_new(list, created, mapped);
	return err;
}

/* The same for all, with the old content. */
static CUresult remake_memory(struct cks_session *s, uint64_t leaving)
{
	struct cks_evacuation *e = s->evacuation;
	int64_t began = ck_now_us(), copies = 0;
	CUresult err = CUDA_SUCCESS;
	size_t made = 0, first, end;

	if (leaving > 0 && !will_fit(s, leaving))
		return CUDA_ERROR_OUT_OF_MEMORY;
	while (!err && made < e->count) {
		first = made;
		end = leaving > 0 ? end_of_batch(e, first) : e->count;
		err = create_memory(&e->list[first], end - first, leaving > 0 ? LEAVING_MS : 0);
		if (err)
			break;
		made = end;
		copies -= ck_now_us();
		err = cks_evacuation_copy(s, false, false, first, &end);
		copies += ck_now_us();
	}
	if (err)
		release_new(e->list, made, made);
	else
		note_times("back", atomic_load(&e->away), e->count, ck_now_us() - began - copies,
			   copies);
	return err;
}

CUresult cks_evacuation_return(struct cks_session *s, uint64_t leaving)
{
	struct cks_evacuation *e = s->evacuation;
	CUresult err;

	if (!cks_host_pool_filled(e->pool)) {
		ck_err("the session's memory was not read back from its checkpoint");
		return CUDA_ERROR_ILLEGAL_STATE;
	}
	cks_meter_hold(true);
	err = remake_memory(s, leaving);
	cks_meter_hold(false);
	if (err)
		return err;
	for (size_t i = 0; i < e->count; i++)
		cks_evacuated_renew(s, &e->list[i]);
	cks_evacuation_forget_list(e);
	if (cks_host_pool_shared(e->pool)) /* before the program can reach it */
		cks_evacuation_trim(s);
	return CUDA_SUCCESS;
}

const struct cks_pool_table *cks_evacuation_table(struct cks_session *s)
{
	struct cks_evacuation *e = s->evacuation;

	return cks_evacuation_away(s) > 0 ? cks_host_pool_table(e->pool, e->extent) : NULL;
}

void cks_evacuation_drop(struct cks_session *s)
{
	if (cks_evacuation_away(s) > 0)
		cks_host_pool_drop(s->evacuation->pool);
}

void cks_evacuation_take(struct cks_session *s, int fd, bool shared)
{
	if (cks_evacuation_away(s) > 0)
		cks_host_pool_take(s->evacuation->pool, fd, shared);
	else
		close(fd);
}

void cks_evacuation_trim(struct cks_session *s)
{
	CUcontext context, popped;
	struct cks_object object;
	uint64_t id = 0;
	bool current = false;

	if (cks_evacuation_away(s) > 0)
		return;
	while (!current && cks_handles_next(s->handles, &id, CK_KIND_CONTEXT, &object)) {
		context = object.handle;
		current = ck_driver.cuCtxPushCurrent_v2(context) == CUDA_SUCCESS;
	}
	cks_host_pool_release(s->evacuation->pool);
	if (current)
		ck_driver.cuCtxPopCurrent_v2(&popped);
}
