/*
 * client/wire/cache.c - cache answers of the server that stay true: attributes of functions,
 * occupancy, limits, pools of devices.
 *
 * Setting an attribute of a function drops the entries of that function. A change with a wider
 * effect (unloading a module, losing a context, a new limit, another pool) is rare and clears the
 * whole cache. Both happen after the change. An answer that was requested before such a change and
 * arrives after it may be stale and is not cached.
 *
 * An answer that is not in the cache may be recalled: earlier sessions of the program have asked
 * for it (client/modules/answer_store.c).
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "client/link/client.h"
#include "client/link/hooks.h"
#include "util/map.h"

static __thread uint32_t asked __attribute__((tls_model("initial-exec"))); /* changes at a miss */

struct answer {
	size_t size;
	atomic_bool ahead; /* the program has not asked for it yet: nothing was learned */
	unsigned char bytes[];
};

static bool look_up(const void *key, size_t key_size, void *value, size_t value_size, bool *ahead)
{
	struct ckc_answers *all = &ckc_client_current()->answers;
	struct answer *a;

	pthread_rwlock_rdlock(&all->lock);
	a = all->map ? ck_map_find(all->map, key, key_size) : NULL;
	if (a && a->size == value_size) {
		memcpy(value, a->bytes, value_size);
		*ahead = unlikely(a->ahead) && atomic_exchange(&a->ahead, false);
	} else {
		a = NULL;
	}
	asked = (uint32_t)all->changes;
	pthread_rwlock_unlock(&all->lock);
	return a != NULL;
}

/* False: it may be stale, or is there already. */
static bool put_answer(const void *key, size_t key_size, const void *value, size_t value_size,
		       bool ahead)
{
	struct ckc_answers *all = &ckc_client_current()->answers;
	struct answer *a = malloc(sizeof(*a) + value_size);
	bool kept;

	if (!a)
		return false;
	a->size = value_size;
	atomic_init(&a->ahead, ahead);
	memcpy(a->bytes, value, value_size);
	pthread_rwlock_wrlock(&all->lock);
	if (!all->map)
		all->map = ck_map_create();
	kept = all->map && asked == (uint32_t)all->changes &&
	       ck_map_insert(all->map, key, key_size, a) == 0;
	pthread_rwlock_unlock(&all->lock);
	if (!kept)
		free(a);
	return kept;
}

static void learn_answer(const void *key, size_t key_size, const void *value, size_t value_size)
{
	if (!ckc_client_current()->answers.altered)
		ckc_each_hook(recall, h) h->learn(key, key_size, value, value_size);
}

static bool recall_answer(const void *key, size_t key_size, void *value, size_t value_size)
{
	bool found = false;

	if (!ckc_client_current()->answers.altered)
		ckc_each_hook(recall, h) found = found || h->find(key, key_size, value, value_size);
	if (found)
		put_answer(key, key_size, value, value_size, false);
	return found;
}

bool ckc_cache_get(const void *key, size_t key_size, void *value, size_t value_size)
{
	bool ahead = false, found = look_up(key, key_size, value, value_size, &ahead);

	if (unlikely(ahead))
		learn_answer(key, key_size, value, value_size);
	if (likely(found) || recall_answer(key, key_size, value, value_size))
		return true;
	ckc_each_hook(inquire, h) found = found || h->run(key, key_size, value, value_size);
	if (found)
		ckc_cache_put(key, key_size, value, value_size);
	return found;
}

void ckc_cache_put(const void *key, size_t key_size, const void *value, size_t value_size)
{
	if (put_answer(key, key_size, value, value_size, false))
		learn_answer(key, key_size, value, value_size);
}

void ckc_cache_put_ahead(const void *key, size_t key_size, const void *value, size_t value_size)
{
	put_answer(key, key_size, value, value_size, true);
}

/* A key is an array of words: procedure, context, arguments. Ids are never small numbers. */
void ckc_cache_forget(uint64_t id)
{
	struct ckc_answers *all = &ckc_client_current()->answers;
	struct ck_map_iter it = CK_MAP_ITER_INIT;

	pthread_rwlock_wrlock(&all->lock);
	all->changes++;
	while (all->map && ck_map_next(all->map, &it)) {
		const uint64_t *words = it.key;
		bool about = false;

		for (size_t i = 2; i < it.key_size / sizeof(*words); i++)
			about |= words[i] == id;
		if (about) {
			free(it.value);
			ck_map_remove(all->map, it.key, it.key_size);
		}
	}
	pthread_rwlock_unlock(&all->lock);
}

void ckc_cache_clear(void)
{
	struct ckc_answers *all = &ckc_client_current()->answers;
	struct ck_map_iter it = CK_MAP_ITER_INIT;

	pthread_rwlock_wrlock(&all->lock);
	all->changes++;
	while (all->map && ck_map_next(all->map, &it))
		free(it.value);
	ck_map_destroy(all->map);
	all->map = NULL;
	pthread_rwlock_unlock(&all->lock);
}

void ckc_cache_altered(void)
{
	ckc_client_current()->answers.altered = true;
	ckc_cache_clear();
}
