/*
 * server/session/handle_names.c - see server/session/handle_names.h.
 */
#include <errno.h>
#include <stdlib.h>

#include "server/session/handle_names.h"
#include "util/map.h"

/* The key by which a handle from the driver is found again. */
struct name {
	uint64_t handle, kind;
};

static struct name name_of(enum cks_kind kind, const void *handle)
{
	return (struct name){(uint64_t)(uintptr_t)handle, kind};
}

void cks_handle_names_fini(struct cks_handle_names *n)
{
	ck_map_destroy(n->map);
	free(n->own_free);
}

bool cks_handle_names_has(enum cks_kind kind)
{
	return kind >= CK_KIND_GRAPH || kind == CK_KIND_CONTEXT || kind == CK_KIND_EVENT ||
	       kind == CK_KIND_FUNCTION || kind == CK_KIND_KERNEL;
}

uint64_t cks_handle_names_find(const struct cks_handle_names *n, enum cks_kind kind,
			       const void *handle)
{
	const struct name name = name_of(kind, handle);

	return n->map ? (uintptr_t)ck_map_find(n->map, &name, sizeof(name)) : 0;
}

int cks_handle_names_note(struct cks_handle_names *n, uint64_t id, enum cks_kind kind,
			  const void *handle)
{
	const struct name name = name_of(kind, handle);

	if (!n->map)
		n->map = ck_map_create();
	if (!n->map)
		return -ENOMEM;
	ck_map_remove(n->map, &name, sizeof(name));
	return ck_map_insert(n->map, &name, sizeof(name), (void *)(uintptr_t)id);
}

void cks_handle_names_forget(struct cks_handle_names *n, enum cks_kind kind, const void *handle)
{
	const struct name name = name_of(kind, handle);

	ck_map_remove(n->map, &name, sizeof(name));
}

uint32_t cks_handle_names_own_id(struct cks_handle_names *n)
{
	bool more = CK_OWN_OBJECTS + n->own_first < CK_MAX_OBJECTS;
	uint32_t id;

	if (n->own_free_count <= CK_OWN_REST && more)
		return CK_OWN_OBJECTS + n->own_first++;
	if (n->own_free_count == 0)
		return 0;
	id = n->own_free[n->own_free_at];
	n->own_free_at = (n->own_free_at + 1) % n->own_free_room;
	n->own_free_count--;
	return id;
}

static int grow_ring(struct cks_handle_names *n)
{
	size_t room = n->own_free_room ? 2 * n->own_free_room : 256;
	uint32_t *more = malloc(room * sizeof(*more));

	if (!more)
		return -ENOMEM;
	for (size_t i = 0; i < n->own_free_count; i++)
		more[i] = n->own_free[(n->own_free_at + i) % n->own_free_room];
	free(n->own_free);
	n->own_free = more;
	n->own_free_at = 0;
	n->own_free_room = room;
	return 0;
}

void cks_handle_names_own_release(struct cks_handle_names *n, uint32_t id)
{
	if (n->own_free_count == n->own_free_room && grow_ring(n) < 0)
		return;
	n->own_free[(n->own_free_at + n->own_free_count++) % n->own_free_room] = id;
}
