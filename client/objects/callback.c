/*
 * client/objects/callback.c - functions that the server may call, and the threads that run them.
 *
 * At least one thread waits in the server for work. A thread that receives work first makes sure
 * that another thread waits, then calls the function; so a function that blocks delays no other
 * stream. A thread beyond the first ends if it receives no work for a while. The threads' messages
 * bypass the command stream, which may itself be blocked until a callback has run.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "client/objects/callback.h"
#include "client/objects/state.h"
#include "client/link/client.h"
#include "client/link/lane.h"
#include "client/link/hooks.h"
#include "client/link/session_list.h"
#include "util/cancel.h"
#include "util/map.h"
#include "util/until.h"

#define THREADS_MAX 64
#define IDLE_MS 5000
#define INDEX_BITS 32
#define RETURN_MS 2000
#define TURN_MS 1000

struct ckc_callback_entry {
	struct ckc_callback callback;
	uint32_t generation; /* odd: in use */
	uint32_t next_free;
};

static struct ckc_callbacks *get_callbacks(void)
{
	return &ckc_client_current()->objects->callbacks;
}

/* --- entries; call with the lock held */

static bool grow_entries(struct ckc_callbacks *all)
{
	uint32_t more = all->count ? all->count * 2 : 64;
	struct ckc_callback_entry *e = realloc(all->entries, more * sizeof(*e));

	if (!e)
		return false;
	for (uint32_t i = all->count; i < more; i++)
		e[i] = (struct ckc_callback_entry){.next_free = i + 1};
	all->entries = e;
	all->free = all->count;
	all->count = more;
	return true;
}

static struct ckc_callback_entry *find_entry(const struct ckc_callbacks *all, uint64_t id)
{
	uint64_t index = id & (((uint64_t)1 << INDEX_BITS) - 1);
	struct ckc_callback_entry *e = index < all->count ? &all->entries[index] : NULL;

	return e && e->generation == id >> INDEX_BITS && e->generation % 2 ? e : NULL;
}

/* May it write the program's data? A function that is neither the program's nor in a stream, a
 * notice of the server's, does not. */
static bool may_write(const struct ckc_callback *callback)
{
	return !callback->ours || callback->in_stream;
}

static bool insert_entry(struct ckc_callbacks *all, const struct ckc_callback *callback,
			 uint64_t *id)
{
	struct ckc_callback_entry *e;

	if (all->free == all->count && !grow_entries(all))
		return false;
	e = &all->entries[all->free];
	*id = (uint64_t)++e->generation << INDEX_BITS | all->free;
	all->free = e->next_free;
	e->callback = *callback;
	e->callback.round = all->round;
	all->pending += may_write(callback);
	all->added += callback->in_stream;
	if (callback->in_stream)
		++*(callback->ours ? &all->ours : &all->theirs);
	return true;
}

static void note_returned(struct ckc_callbacks *all, const struct ckc_callback *callback)
{
	if (callback->in_stream) {
		--*(callback->ours ? &all->ours : &all->theirs);
		ck_cond_broadcast(&all->fewer);
	}
	if (!callback->in_stream || callback->round < all->given_up)
		return;
	if (callback->round == all->round)
		all->added--;
	else if (--all->awaited == 0)
		ck_cond_broadcast(&all->returned);
}

static void free_entry(struct ckc_callbacks *all, struct ckc_callback_entry *e)
{
	e->generation++;
	e->next_free = all->free;
	all->free = (uint32_t)(e - all->entries);
	all->pending -= may_write(&e->callback);
}

/* --- threads */

static void *serve_callbacks(void *client);

/* Make sure that a thread waits. Call with the lock held. -errno: there is no thread and none could
 * start. */
static int ensure_waiting(struct ckc_client *c)
{
	struct ckc_callbacks *all = &c->objects->callbacks;
	int ret = 0;

	if (all->waiting > 0 || all->threads == THREADS_MAX)
		return 0;
	ret = ckc_thread_start_calling(c, serve_callbacks);
	if (ret == 0) {
		all->threads++;
		all->waiting++;
	}
	return all->threads > 0 ? 0 : ret;
}

static void call_function(const struct ckc_client *c, const struct ckc_callback *callback,
			  int status, uint64_t value)
{
	if (c->state != CK_STATE_READY && c->state != CK_STATE_LOST)
		return; /* at exit, data of the function may be gone */
	ckc_inside_callback = !callback->ours;
	ckc_work_done(CUDA_SUCCESS);
	callback->run(callback, status, value);
	ckc_inside_callback = false;
	ckc_each_hook(function_end, h) h->run();
}

static void run_callback(struct ckc_client *c, const ck_callback_next_res *res)
{
	struct ckc_callbacks *all = &c->objects->callbacks;
	struct ckc_callback callback;
	struct ckc_callback_entry *e;

	ck_lock(&all->lock);
	all->waiting--;
	ensure_waiting(c);
	e = find_entry(all, res->callback);
	if (e) {
		callback = e->callback;
		all->pending += may_write(&callback);
		if (!callback.persistent)
			free_entry(all, e);
	}
	ck_unlock(&all->lock);
	if (e)
		call_function(c, &callback, res->status, res->value);
	ck_lock(&all->lock);
	all->waiting++;
	if (e) {
		all->pending -= may_write(&callback);
		note_returned(all, &callback);
	}
	ck_unlock(&all->lock);
}

/* The server is lost: report the error to callbacks of streams; the others are never called. */
static void give_up(struct ckc_client *c)
{
	struct ckc_callbacks *all = &c->objects->callbacks;
	struct ckc_callback callback;

	ck_lock(&all->lock);
	all->waiting--;
	for (uint32_t i = 0; i < all->count; i++) {
		struct ckc_callback_entry *e = &all->entries[i];

		if (e->generation % 2 == 0 || !e->callback.on_loss)
			continue;
		callback = e->callback;
		free_entry(all, e);
		ck_unlock(&all->lock);
		call_function(c, &callback, CUDA_ERROR_DEVICE_UNAVAILABLE, 0);
		ck_lock(&all->lock);
		note_returned(all, &callback);
	}
	ck_cond_broadcast(&all->returned);
	ck_cond_broadcast(&all->fewer);
	all->threads--;
	ck_unlock(&all->lock);
}

/* No work for a while. Returns true if another thread waits, so that this one can end. */
static bool leave_if_idle(struct ckc_callbacks *all)
{
	bool leave;

	ck_lock(&all->lock);
	leave = all->waiting > 1;
	if (leave) {
		all->waiting--;
		all->threads--;
	}
	ck_unlock(&all->lock);
	return leave;
}

static void *serve_callbacks(void *client)
{
	struct ckc_client *c = client;
	ck_callback_next_args args = {.milliseconds = IDLE_MS};
	ck_callback_next_res res;

	for (;;) {
		memset(&res, 0, sizeof(res));
		ckc_route(c); /* a function may have been about another session */
		if (ckc_call_aside(c, CK_PROC_callback_next, &args, &res)) {
			give_up(c);
			break;
		}
		args.done = res.ticket;
		if (res.ticket) {
			while (res.head.output) /* of kernels before the function */
				res.head.output = ckc_output_fetch_aside(c);
			run_callback(c, &res);
		} else if (leave_if_idle(&c->objects->callbacks))
			break;
		else
			ckc_each_hook(rest, h) h->run(c);
	}
	return NULL;
}

/* --- called from other files */

/* Not for long: the other stream may wait for what the program does next. Call with the lock
 * held. */
static void await_turn(const struct ckc_client *c, uint64_t stream)
{
	struct ckc_callbacks *all = &c->objects->callbacks;
	struct timespec until = ck_until(TURN_MS * CK_NS_PER_MS);

	while ((all->theirs > 0 || (all->ours > 0 && all->our_stream != stream)) &&
	       c->state == CK_STATE_READY &&
	       ck_cond_timedwait(&all->fewer, &all->lock, &until) != ETIMEDOUT)
		;
	all->our_stream = stream;
}

CUresult ckc_callback_add(const struct ckc_callback *callback, uint64_t *id)
{
	struct ckc_client *c = ckc_client_current();
	struct ckc_callbacks *all = &c->objects->callbacks;
	int cancel = ck_lock_uncancelled(&all->lock);
	CUresult err = CUDA_SUCCESS;

	if (callback->ours && callback->in_stream)
		await_turn(c, callback->stream);
	if (ensure_waiting(c) < 0)
		err = CUDA_ERROR_OPERATING_SYSTEM;
	else if (!insert_entry(all, callback, id))
		err = CUDA_ERROR_OUT_OF_MEMORY;
	ck_unlock_uncancelled(&all->lock, cancel);
	if (callback->in_stream)
		ckc_each_hook(function_added, h) h->run();
	return err;
}

void ckc_callback_drop(uint64_t id)
{
	struct ckc_callbacks *all = get_callbacks();
	struct ckc_callback_entry *e;

	ck_lock(&all->lock);
	e = find_entry(all, id);
	if (e) {
		note_returned(all, &e->callback);
		free_entry(all, e);
	}
	ck_unlock(&all->lock);
}

void ckc_callbacks_let_return(void)
{
	const struct ckc_client *c = ckc_client_current();
	struct ckc_callbacks *all = &c->objects->callbacks;
	struct timespec until = ck_until(RETURN_MS * CK_NS_PER_MS);
	int cancel = ck_lock_uncancelled(&all->lock);

	all->awaited += all->added;
	all->added = 0;
	all->round++;
	while (all->awaited > 0 && c->state == CK_STATE_READY) {
		if (ck_cond_timedwait(&all->returned, &all->lock, &until) != ETIMEDOUT)
			continue;
		all->awaited = 0;
		all->given_up = all->round;
		ck_cond_broadcast(&all->returned);
	}
	ck_unlock_uncancelled(&all->lock, cancel);
}

bool ckc_callback_blocks(void)
{
	struct ckc_callbacks *all = get_callbacks();
	bool blocks;

	ck_lock(&all->lock);
	blocks = all->ours > 0 || all->theirs > 0 || all->persistent;
	ck_unlock(&all->lock);
	return blocks;
}

bool ckc_callback_pending(void)
{
	return atomic_load(&get_callbacks()->pending) > 0;
}

bool ckc_callback_find(uint64_t id, CUhostFn *fn, void **data)
{
	struct ckc_callbacks *all = get_callbacks();
	const struct ckc_callback_entry *e;
	bool found;

	ck_lock(&all->lock);
	e = find_entry(all, id);
	found = e && e->callback.persistent;
	if (found) {
		*fn = (CUhostFn)e->callback.function;
		*data = e->callback.data;
	}
	ck_unlock(&all->lock);
	return found;
}

CUresult ckc_callback_keep(const struct ckc_callback *callback, uint64_t *id)
{
	struct ckc_client *c = ckc_client_current();
	struct ckc_callbacks *all = &c->objects->callbacks;
	const uintptr_t key[2] = {(uintptr_t)callback->function, (uintptr_t)callback->data};
	CUresult err = CUDA_SUCCESS;

	ck_lock(&all->lock);
	if (!all->persistent)
		all->persistent = ck_map_create();
	*id = all->persistent ? (uintptr_t)ck_map_find(all->persistent, key, sizeof(key)) : 0;
	if (!*id && ensure_waiting(c) < 0)
		err = CUDA_ERROR_OPERATING_SYSTEM;
	else if (!*id && (!all->persistent || !insert_entry(all, callback, id)))
		err = CUDA_ERROR_OUT_OF_MEMORY;
	else if (ck_map_insert(all->persistent, key, sizeof(key), (void *)(uintptr_t)*id) ==
		 -ENOMEM)
		err = CUDA_ERROR_OUT_OF_MEMORY;
	ck_unlock(&all->lock);
	ckc_each_hook(function_added, h) h->run();
	return err;
}
