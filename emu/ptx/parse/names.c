/*
 * emu/ptx/parse/names.c - the names of a text, by scope; see names.h.
 */
#include <stdlib.h>
#include <string.h>

#include "emu/ptx/parse/names.h"

static uint32_t name_hash(const char *text, size_t size)
{
	uint32_t hash = 2166136261u;

	for (size_t i = 0; i < size; i++)
		hash = (hash ^ (unsigned char)text[i]) * 16777619u;
	return hash;
}

struct ck_ptx_name *ck_ptx_names_add(struct ck_ptx_names *names, const char *text, size_t size,
				     enum ck_ptx_name_kind kind, unsigned int depth)
{
	struct ck_ptx_name *name = calloc(1, sizeof(*name));
	struct ck_ptx_name **bucket;

	if (!name)
		return NULL;
	name->text = text;
	name->size = size;
	name->kind = kind;
	name->depth = depth;
	name->hash = name_hash(text, size);
	bucket = &names->buckets[name->hash % CK_PTX_NAME_BUCKETS];
	name->next = *bucket;
	*bucket = name;
	name->older = names->newest;
	names->newest = name;
	return name;
}

struct ck_ptx_name *ck_ptx_names_find(const struct ck_ptx_names *names, const char *text,
				      size_t size)
{
	uint32_t hash = name_hash(text, size);
	struct ck_ptx_name *name = names->buckets[hash % CK_PTX_NAME_BUCKETS];

	for (; name; name = name->next)
		if (name->hash == hash && name->size == size && !memcmp(name->text, text, size))
			return name;
	return NULL;
}

void ck_ptx_names_pop(struct ck_ptx_names *names, unsigned int depth)
{
	while (names->newest && names->newest->depth >= depth) {
		struct ck_ptx_name *name = names->newest;

		/* Newest first in its bucket too, as both lists grow at the head. */
		names->buckets[name->hash % CK_PTX_NAME_BUCKETS] = name->next;
		names->newest = name->older;
		free(name->rows);
		free(name);
	}
}
