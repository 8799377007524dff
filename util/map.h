/*
 * util/map.h - hash map from a byte string to a pointer. Not locked: its owner serialises calls.
 */
#ifndef CK_UTIL_MAP_H
#define CK_UTIL_MAP_H

#include <stdbool.h>
#include <stddef.h>

struct ck_map;

/* One step of a walk; the key is the map's own and lives as long as its entry. */
struct ck_map_iter {
	const void *key;
	size_t key_size;
	void *value;
	size_t bucket; /* the walk's own */
	void *next;
};

#define CK_MAP_ITER_INIT                                                                           \
	{                                                                                          \
		.bucket = 0, .next = NULL                                                          \
	}

/* An empty map, or NULL when out of memory. Destroying it frees the keys, not the values. */
struct ck_map *ck_map_create(void);
void ck_map_destroy(struct ck_map *map);

/* Copies the key. -EEXIST: the key is there, with its value as it was; -EINVAL: NULL value. */
int ck_map_insert(struct ck_map *map, const void *key, size_t key_size, void *value);

/* The key's value, or NULL. The second takes the entry out as well. */
void *ck_map_find(const struct ck_map *map, const void *key, size_t key_size);
void *ck_map_remove(struct ck_map *map, const void *key, size_t key_size);

size_t ck_map_count(const struct ck_map *map);

/*
 * Walk all entries, in no particular order:
 *     struct ck_map_iter it = CK_MAP_ITER_INIT;
 *     while (ck_map_next(map, &it)) use(it.value);
 * The entry just delivered may be removed in the loop; nothing else may change the map.
 */
bool ck_map_next(const struct ck_map *map, struct ck_map_iter *it);

#endif
