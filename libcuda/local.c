/*
 * libcuda/local.c - context-local storage; see local.h.
 *
 * Look-ups outnumber changes by thousands, so each thread keeps the last few answers. Any change
 * anywhere moves one process-wide generation on, and answers of an older generation do not count.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "libcuda/libcuda.h"
#include "libcuda/locks.h"
#include "libcuda/local.h"
#include "util/util.h"

#define KEPT 8 /* about as many copies of the runtime as a program has */

struct entry {
	struct entry *next;
	CUcontext context;
	void *key, *value;
	ck_local_destructor destructor;
};

struct kept {
	CUcontext context;
	void *key, *value;
};

static struct ck_mutex entries_lock = CK_MUTEX(CK_RANK_LOCAL);
static struct entry *entries; /* of all contexts: a few for each that a runtime uses */
static _Atomic uint64_t generation = 1;

/* A thread's answers. They are outside of the thread's own memory, of which a library that is
 * loaded late gets little. */
struct answers {
	uint64_t generation;
	struct kept items[KEPT];
};
static __thread struct answers *answers __attribute__((tls_model("initial-exec")));
static pthread_key_t answers_key; /* frees them at the thread's end */
static bool has_key;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void free_answers(void *of_thread)
{
	answers = NULL;
	free(of_thread);
}

static void make_key(void)
{
	has_key = pthread_key_create(&answers_key, free_answers) == 0;
}

/* NULL: there is no memory for them. */
static struct answers *find_answers(void)
{
	if (likely(answers != NULL))
		return answers;
	pthread_once(&once, make_key);
	answers = has_key ? calloc(1, sizeof(*answers)) : NULL;
	if (answers && pthread_setspecific(answers_key, answers) != 0) {
		free(answers);
		answers = NULL;
	}
	return answers;
}

static size_t kept_index(const void *context, const void *key)
{
	uintptr_t mix = (uintptr_t)key ^ (uintptr_t)context >> 3;

	return (mix >> 4 ^ mix >> 12) % KEPT;
}

/* Keep the answer, which was found in @generation. */
static void note_answer(struct answers *mine, uint64_t now, struct kept answer)
{
	if (mine->generation != now) {
		for (size_t i = 0; i < KEPT; i++)
			mine->items[i].context = NULL;
		mine->generation = now;
	}
	mine->items[kept_index(answer.context, answer.key)] = answer;
}

/* The pointer to the entry of @context and @key, or the NULL that ends the list; under the lock. */
static struct entry **find_entry(CUcontext context, const void *key)
{
	struct entry **at = &entries;

	while (*at && ((*at)->context != context || (*at)->key != key))
		at = &(*at)->next;
	return at;
}

CUresult ck_local_put(CUcontext handle, void *key, void *value, ck_local_destructor destructor)
{
	CUcontext context;
	CUresult err = ck_libcuda_context(handle, &context);
	struct entry **at, *entry;

	if (err)
		return err;
	ck_lock(&entries_lock);
	at = find_entry(context, key); /* where there is none: the end, so order stays */
	if (!*at)
		*at = calloc(1, sizeof(**at));
	entry = *at;
	if (entry) {
		entry->context = context;
		entry->key = key;
		entry->value = value;
		entry->destructor = destructor;
	}
	atomic_fetch_add(&generation, 1);
	ck_unlock(&entries_lock);
	return entry ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult ck_local_delete(CUcontext handle, void *key)
{
	CUcontext context;
	CUresult err = ck_libcuda_context(handle, &context);
	struct entry **at, *entry;

	if (err)
		return err;
	ck_lock(&entries_lock);
	at = find_entry(context, key);
	entry = *at;
	if (entry)
		*at = entry->next;
	atomic_fetch_add(&generation, 1);
	ck_unlock(&entries_lock);
	free(entry);
	return entry ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult ck_local_get(void **value, CUcontext handle, void *key)
{
	uint64_t now = atomic_load_explicit(&generation, memory_order_acquire);
	CUcontext context;
	CUresult err = ck_libcuda_context(handle, &context);
	struct answers *mine;
	struct entry *entry;
	const struct kept *kept;

	if (err)
		return err;
	mine = find_answers();
	kept = mine ? &mine->items[kept_index(context, key)] : NULL;
	if (likely(kept && mine->generation == now && kept->context == context &&
		   kept->key == key)) {
		*value = kept->value;
		return CUDA_SUCCESS;
	}
	ck_lock(&entries_lock);
	entry = *find_entry(context, key);
	if (entry)
		*value = entry->value;
	if (entry && mine)
		note_answer(mine, atomic_load(&generation),
			    (struct kept){context, key, entry->value});
	ck_unlock(&entries_lock);
	return entry ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

/* The entries of @context, taken out of the list. */
static struct entry *take_entries(CUcontext context)
{
	struct entry **at = &entries, *taken = NULL, **end = &taken;

	ck_lock(&entries_lock);
	while (*at) {
		struct entry *entry = *at;

		if (entry->context != context) {
			at = &entry->next;
			continue;
		}
		*at = entry->next;
		entry->next = NULL;
		*end = entry;
		end = &entry->next;
	}
	atomic_fetch_add(&generation, 1);
	ck_unlock(&entries_lock);
	return taken;
}

void ck_local_forget(CUcontext context)
{
	struct entry *entry, *next;

	for (entry = take_entries(context); entry; entry = next) {
		next = entry->next;
		if (entry->destructor)
			entry->destructor(context, entry->key, entry->value);
		free(entry);
	}
}
