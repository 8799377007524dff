/*
 * util/map.c - chained hash table; see map.h.
 *
 * Chains rather than open addressing: keys are of any length, so an entry is an allocation
 * anyway, and removal then needs no tombstones.
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "util/hash.h"
#include "util/map.h"

#define FIRST_BUCKETS 16

struct entry {
	struct entry *next;
	uint64_t hash;
	void *value;
	size_t key_size;
	unsigned char key[];
};

struct ck_map {
	struct entry **buckets;
	size_t mask; /* number of buckets, a power of two, less one */
	size_t count;
};

struct ck_map *ck_map_create(void)
{
	struct ck_map *map = calloc(1, sizeof(*map));

	if (!map)
		return NULL;
	map->buckets = calloc(FIRST_BUCKETS, sizeof(struct entry *));
	if (!map->buckets) {
		free(map);
		return NULL;
	}
	map->mask = FIRST_BUCKETS - 1;
	return map;
}

void ck_map_destroy(struct ck_map *map)
{
	struct entry *entry, *next;

	if (!map)
		return;
	for (size_t i = 0; i <= map->mask; i++) {
		for (entry = map->buckets[i]; entry; entry = next) {
			next = entry->next;
			free(entry);
		}
	}
	free(map->buckets);
	free(map);
}

/* Where the pointer to the key's entry is, or the NULL that ends its chain. */
static struct entry **slot_find(const struct ck_map *map, const void *key, size_t key_size,
				uint64_t hash)
{
	struct entry **slot = &map->buckets[hash & map->mask];

	while (*slot && ((*slot)->hash != hash || (*slot)->key_size != key_size ||
			 (key_size && memcmp((*slot)->key, key, key_size) != 0)))
		slot = &(*slot)->next;
	return slot;
}

/* Double the buckets. Out of memory is no error here: the chains only get longer. */
static void grow_buckets(struct ck_map *map)
{
	size_t mask = map->mask * 2 + 1;
	struct entry **buckets = calloc(mask + 1, sizeof(*buckets)), *entry, *next;

	if (!buckets)
		return;
	for (size_t i = 0; i <= map->mask; i++) {
		for (entry = map->buckets[i]; entry; entry = next) {
			next = entry->next;
			entry->next = buckets[entry->hash & mask];
			buckets[entry->hash & mask] = entry;
		}
	}
	free(map->buckets);
	map->buckets = buckets;
	map->mask = mask;
}

int ck_map_insert(struct ck_map *map, const void *key, size_t key_size, void *value)
{
	uint64_t hash = ck_hash_key(key, key_size);
	struct entry *entry, **slot;

	if (!value)
		return -EINVAL;
	if (*slot_find(map, key, key_size, hash))
		return -EEXIST;
	entry = malloc(sizeof(*entry) + key_size);
	if (!entry)
		return -ENOMEM;
	if (map->count > map->mask)
		grow_buckets(map);
	slot = &map->buckets[hash & map->mask];
	*entry = (struct entry){.next = *slot, .hash = hash, .value = value, .key_size = key_size};
	if (key_size)
		memcpy(entry->key, key, key_size);
	*slot = entry;
	map->count++;
	return 0;
}

void *ck_map_find(const struct ck_map *map, const void *key, size_t key_size)
{
	struct entry *entry = *slot_find(map, key, key_size, ck_hash_key(key, key_size));

	return entry ? entry->value : NULL;
}

void *ck_map_remove(struct ck_map *map, const void *key, size_t key_size)
{
	struct entry **slot = slot_find(map, key, key_size, ck_hash_key(key, key_size));
	struct entry *entry = *slot;
	void *value;

	if (!entry)
		return NULL;
	value = entry->value;
	*slot = entry->next;
	free(entry);
	map->count--;
	return value;
}

size_t ck_map_count(const struct ck_map *map)
{
	return map->count;
}

bool ck_map_next(const struct ck_map *map, struct ck_map_iter *it)
{
	struct entry *entry = it->next;

	while (!entry && it->bucket <= map->mask)
		entry = map->buckets[it->bucket++];
	if (!entry)
		return false;
	it->key = entry->key;
	it->key_size = entry->key_size;
	it->value = entry->value;
	it->next = entry->next;
	return true;
}
