/*
 * server/session/handle_names.h - handles that the driver reports, back to their ids; and the ids
 * of the server's own. For handles.c alone, whose lock guards them.
 */
#ifndef CK_SERVER_SESSION_HANDLE_NAMES_H
#define CK_SERVER_SESSION_HANDLE_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/session/handles.h"

struct ck_map;

struct cks_handle_names {
	struct ck_map
		*map; /* (kind, handle) to id, for kinds that the driver reports; NULL: none yet */
	uint32_t own_first; /* the server's own ids: number used, and a ring of free ones */
	uint32_t *own_free;
	size_t own_free_at, own_free_count, own_free_room;
};

void cks_handle_names_fini(struct cks_handle_names *names);

/* Does the driver report objects of @kind? Others get no name. */
bool cks_handle_names_has(enum cks_kind kind);

/* The id of @handle; 0: it has none. */
uint64_t cks_handle_names_find(const struct cks_handle_names *names, enum cks_kind kind,
			       const void *handle);

/* Note @id as that of @handle: 0 or -ENOMEM. If the driver reuses a handle, the newer object
 * takes the name. */
int cks_handle_names_note(struct cks_handle_names *names, uint64_t id, enum cks_kind kind,
			  const void *handle);
void cks_handle_names_forget(struct cks_handle_names *names, enum cks_kind kind,
			     const void *handle);

/*
 * A free id of the server's own; 0: all are taken. Keep one for reuse; if that fails, the id is
 * lost, which is harmless. An id rests until CK_OWN_REST others are free: a thread of the client
 * may forget the old object after another one has got the new one.
 */
#define CK_OWN_REST (1u << 14)
uint32_t cks_handle_names_own_id(struct cks_handle_names *names);
void cks_handle_names_own_release(struct cks_handle_names *names, uint32_t id);

#endif
