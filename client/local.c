/*
 * client/local.c - context-local storage; see local.h.
 *
 * Look-ups outnumber changes by thousands, so each thread keeps the last few answers. Any change
 * anywhere moves one process-wide generation on, and answers of an older generation do not count.
 */
#include <pthread.h>
#include <stdlib.h>

#include "client/client.h"
#include "client/local.h"

#define KEPT 8 /* about as many copies of the runtime as a program has */

struct ck_local {
	struct ck_local *next;
	void *key, *value;
	ck_local_destructor destructor;
};

struct kept {
	const struct ck_context *context;
	void *key, *value;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic uint64_t generation = 1;

static __thread struct {
	uint64_t generation;
	struct kept items[KEPT];
} mine;

static size_t kept_index(const struct ck_context *context, const void *key)
{
	uintptr_t mix = (uintptr_t)key ^ (uintptr_t)context >> 3;

	return (mix >> 4 ^ mix >> 12) % KEPT;
}

static CUresult context_at(CUcontext handle, struct ck_context **context)
{
	if (atomic_load_explicit(&ck_client.state, memory_order_relaxed) == CK_STATE_EXITING)
		return CUDA_ERROR_DEINITIALIZED;
	if (!handle || handle == (CUcontext)-1)
		*context = ck_context_current();
	else
		*context = ck_object_check(handle, CK_OBJECT_CONTEXT);
	return *context ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

/* The pointer to the entry of @key, or the NULL that ends the list; under the lock. */
static struct ck_local **find(struct ck_context *context, const void *key)
{
	struct ck_local **at = &context->locals;

	while (*at && (*at)->key != key)
		at = &(*at)->next;
	return at;
}

CUresult ck_local_put(CUcontext handle, void *key, void *value, ck_local_destructor destructor)
{
	struct ck_context *context;
	CUresult err = context_at(handle, &context);
	struct ck_local **at, *entry;

	if (err)
		return err;
	pthread_mutex_lock(&lock);
	at = find(context, key);
	if (!*at)
		*at = calloc(1, sizeof(**at));
	entry = *at;
	if (entry) {
		entry->key = key;
		entry->value = value;
		entry->destructor = destructor;
	}
	atomic_fetch_add(&generation, 1);
	pthread_mutex_unlock(&lock);
	return entry ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult ck_local_delete(CUcontext handle, void *key)
{
	struct ck_context *context;
	CUresult err = context_at(handle, &context);
	struct ck_local **at, *entry;

	if (err)
		return err;
	pthread_mutex_lock(&lock);
	at = find(context, key);
	entry = *at;
	if (entry)
		*at = entry->next;
	atomic_fetch_add(&generation, 1);
	pthread_mutex_unlock(&lock);
	free(entry);
	return entry ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult ck_local_get(void **value, CUcontext handle, void *key)
{
	uint64_t now = atomic_load_explicit(&generation, memory_order_acquire);
	struct ck_context *context;
	CUresult err = context_at(handle, &context);
	struct ck_local *entry;
	struct kept *kept;

	if (err)
		return err;
	kept = &mine.items[kept_index(context, key)];
	if (likely(mine.generation == now && kept->context == context && kept->key == key)) {
		*value = kept->value;
		return CUDA_SUCCESS;
	}
	pthread_mutex_lock(&lock);
	entry = *find(context, key);
	if (entry)
		*value = entry->value;
	now = atomic_load(&generation);
	if (mine.generation != now) {
		for (size_t i = 0; i < KEPT; i++)
			mine.items[i].context = NULL;
		mine.generation = now;
	}
	if (entry)
		*kept = (struct kept){ context, key, entry->value };
	pthread_mutex_unlock(&lock);
	return entry ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

void ck_local_forget(struct ck_context *context)
{
	struct ck_local *entry, *next;

	pthread_mutex_lock(&lock);
	entry = context->locals;
	context->locals = NULL;
	atomic_fetch_add(&generation, 1);
	pthread_mutex_unlock(&lock);
	for (; entry; entry = next) {
		next = entry->next;
		if (entry->destructor)
			entry->destructor((CUcontext)context, entry->key, entry->value);
		free(entry);
	}
}
