/*
 * client/wire/cache.c - answers of the server that stay true: attributes of functions, occupancy,
 * limits, pools of devices.
 *
 * Setting an attribute of a function forgets what is known of that one; what may change more
 * (unloading a module, losing a context, a new limit, another pool) clears the whole cache; that is
 * rare. Both come after the change. An answer that was asked for before one of them and arrives
 * after it is not kept: it may be the old one.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "client/wire/stub.h"
#include "util/map.h"

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static struct ck_map *map;
static uint64_t changes;	/* how often something was forgotten; under the lock */
static __thread uint64_t asked __attribute__((tls_model("initial-exec"))); /* changes at a miss */

struct answer {
	size_t size;
	unsigned char bytes[];
};

bool ck_cache_get(const void *key, size_t key_size, void *value, size_t value_size)
{
	const struct answer *a;

	pthread_rwlock_rdlock(&lock);
	a = map ? ck_map_find(map, key, key_size) : NULL;
	if (a && a->size == value_size)
		memcpy(value, a->bytes, value_size);
	else
		a = NULL;
	asked = changes;
	pthread_rwlock_unlock(&lock);
	return a != NULL;
}

void ck_cache_put(const void *key, size_t key_size, const void *value, size_t value_size)
{
	struct answer *a = malloc(sizeof(*a) + value_size);

	if (!a)
		return;
	a->size = value_size;
	memcpy(a->bytes, value, value_size);
	pthread_rwlock_wrlock(&lock);
	if (!map)
		map = ck_map_create();
	if (!map || asked != changes || ck_map_insert(map, key, key_size, a) < 0)
		free(a);
	pthread_rwlock_unlock(&lock);
}

/* Keys are words: procedure, context, then arguments; ids are never small numbers. */
void ck_cache_forget(uint64_t id)
{
	struct ck_map_iter it = CK_MAP_ITER_INIT;

	pthread_rwlock_wrlock(&lock);
	changes++;
	while (map && ck_map_next(map, &it)) {
		const uint64_t *words = it.key;
		bool about = false;

		for (size_t i = 2; i < it.key_size / sizeof(*words); i++)
			about |= words[i] == id;
		if (about) {
			free(it.value);
			ck_map_remove(map, it.key, it.key_size);
		}
	}
	pthread_rwlock_unlock(&lock);
}

void ck_cache_clear(void)
{
	struct ck_map_iter it = CK_MAP_ITER_INIT;

	pthread_rwlock_wrlock(&lock);
	changes++;
	while (map && ck_map_next(map, &it))
		free(it.value);
	ck_map_destroy(map);
	map = NULL;
	pthread_rwlock_unlock(&lock);
}
