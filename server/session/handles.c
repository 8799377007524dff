/*
 * server/session/handles.c - the table behind handles.h: pages of entries, by id.
 *
 * Ids are dense, so a page of entries is made when its first id is used: a client that uses id
 * 16,000,000 costs one page, not a table of that length.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "server/session/handle_names.h"
#include "server/session/handles.h"

#define CK_PAGE 4096u /* entries */
#define CK_PAGES (CK_MAX_OBJECTS / CK_PAGE)

/* Ids of relatives, 0 for none: the parent object, its first child, its siblings. */
struct entry {
	void *handle; /* NULL: the id is free */
	uint64_t ctx, serial;
	enum cks_kind kind;
	unsigned char mark;
	uint32_t parent, child, next, prev;
};

struct cks_handles {
	pthread_rwlock_t lock; /* leaf */
	uint64_t serial;       /* that of the newest entry */
	struct cks_handle_names names;
	_Atomic size_t marked;
	struct entry *pages[CK_PAGES];
};

/*
 * Cache of a thread's recent lookups, so that the stream and kernel of its next launch need no
 * lock. Valid until any table of the process changes; each change is counted with the lock held.
 */
#define CK_FOUND 64

struct found {
	const struct cks_handles *table; /* NULL: empty */
	uint64_t changes, id;
	struct cks_object object;
};

static _Thread_local struct found found[CK_FOUND];
static _Atomic uint64_t changes;

static void lock_for_change(struct cks_handles *h)
{
	pthread_rwlock_wrlock(&h->lock);
	atomic_fetch_add(&changes, 1);
}

int cks_handles_create(struct cks_handles **out)
{
	struct cks_handles *h = calloc(1, sizeof(*h));

	if (!h)
		return -ENOMEM;
	pthread_rwlock_init(&h->lock, NULL);
	*out = h;
	return 0;
}

void cks_handles_destroy(struct cks_handles *h)
{
	if (!h)
		return;
	atomic_fetch_add(&changes, 1);
	for (size_t i = 0; i < CK_PAGES; i++)
		free(h->pages[i]);
	cks_handle_names_fini(&h->names);
	pthread_rwlock_destroy(&h->lock);
	free(h);
}

/* The entry of @id if in use, or NULL. Call with the lock held, as for the next functions. */
static struct entry *entry_at(struct cks_handles *h, uint64_t id)
{
	struct entry *page;

	if (id == 0 || id >= CK_MAX_OBJECTS)
		return NULL;
	page = h->pages[id / CK_PAGE];
	if (!page || !page[id % CK_PAGE].handle)
		return NULL;
	return &page[id % CK_PAGE];
}

static struct cks_object object_of(const struct entry *e)
{
	return (struct cks_object){
		.handle = e->handle, .kind = e->kind, .ctx = e->ctx, .serial = e->serial};
}

static void unlink_child(struct cks_handles *h, struct entry *e)
{
	struct entry *parent = entry_at(h, e->parent);
	struct entry *next = entry_at(h, e->next);
	struct entry *prev = entry_at(h, e->prev);

	if (!parent)
		return;
	if (prev)
		prev->next = e->next;
	else
		parent->child = e->next;
	if (next)
		next->prev = e->prev;
}

static void link_child(struct cks_handles *h, uint32_t id, struct entry *e, uint32_t parent_id)
{
	struct entry *parent = entry_at(h, parent_id);
	struct entry *first = entry_at(h, parent->child);

	e->parent = parent_id;
	e->next = parent->child;
	if (first)
		first->prev = id;
	parent->child = id;
}

static void forget_name(struct cks_handles *h, uint64_t id, const struct entry *e)
{
	/* the driver may have reused the handle for a newer object */
	if (cks_handle_names_has(e->kind) &&
	    cks_handle_names_find(&h->names, e->kind, e->handle) == id)
		cks_handle_names_forget(&h->names, e->kind, e->handle);
}

/* Remove an entry and its children: functions, a library's modules, a graph's nodes and their
 * graphs. */
static void entry_remove(struct cks_handles *h, uint64_t id, struct entry *e)
{
	while (e->child)
		entry_remove(h, e->child, entry_at(h, e->child));
	unlink_child(h, e);
	forget_name(h, id, e);
	if (id >= CK_OWN_OBJECTS && cks_handle_names_has(e->kind))
		cks_handle_names_own_release(&h->names, (uint32_t)id);
	if (e->mark)
		atomic_fetch_sub(&h->marked, 1);
	*e = (struct entry){0};
}

static CUresult entry_put(struct cks_handles *h, uint64_t id, const struct entry *from,
			  uint64_t parent)
{
	struct entry **page = &h->pages[id / CK_PAGE];
	struct entry *e;

	if (!*page)
		*page = calloc(CK_PAGE, sizeof(**page));
	if (!*page)
		return CUDA_ERROR_OUT_OF_MEMORY;
	e = &(*page)[id % CK_PAGE];
	if (e->handle)
		return CUDA_ERROR_INVALID_VALUE;
	if (parent && !entry_at(h, parent))
		return CUDA_ERROR_INVALID_HANDLE;
	if (cks_handle_names_has(from->kind) &&
	    cks_handle_names_note(&h->names, id, from->kind, from->handle) < 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*e = *from;
	e->serial = ++h->serial;
	if (parent)
		link_child(h, (uint32_t)id, e, (uint32_t)parent);
	return CUDA_SUCCESS;
}

CUresult cks_handles_put_child(struct cks_handles *h, uint64_t id, enum cks_kind kind, uint64_t ctx,
			       void *handle, uint64_t parent)
{
	const struct entry from = {.handle = handle, .ctx = ctx, .kind = kind};
	CUresult err;

	if (id == 0 || id >= CK_MAX_OBJECTS || !handle)
		return CUDA_ERROR_INVALID_VALUE;
	lock_for_change(h);
	err = entry_put(h, id, &from, parent);
	pthread_rwlock_unlock(&h->lock);
	return err;
}

CUresult cks_handles_put(struct cks_handles *h, uint64_t id, enum cks_kind kind, uint64_t ctx,
			 void *handle)
{
	return cks_handles_put_child(h, id, kind, ctx, handle, 0);
}

CUresult cks_handles_name(struct cks_handles *h, enum cks_kind kind, uint64_t ctx, void *handle,
			  uint64_t parent, uint64_t *id)
{
	const struct entry from = {.handle = handle, .ctx = ctx, .kind = kind};
	CUresult err = CUDA_SUCCESS;

	if (!handle || !cks_handle_names_has(kind))
		return CUDA_ERROR_INVALID_VALUE;
	lock_for_change(h);
	*id = cks_handle_names_find(&h->names, kind, handle);
	if (*id == 0) {
		*id = cks_handle_names_own_id(&h->names);
		err = *id ? entry_put(h, *id, &from, parent) : CUDA_ERROR_OUT_OF_MEMORY;
		if (err && *id)
			cks_handle_names_own_release(&h->names, (uint32_t)*id);
	}
	pthread_rwlock_unlock(&h->lock);
	return err;
}

static void name_entry(struct cks_handles *h, uint64_t id, bool named)
{
	const struct entry *e = entry_at(h, id);

	if (!e)
		return;
	for (uint32_t at = e->child; at; at = entry_at(h, at)->next)
		name_entry(h, at, named);
	if (!named)
		forget_name(h, id, e);
	else if (cks_handle_names_has(e->kind))
		cks_handle_names_note(&h->names, id, e->kind, e->handle);
}

void cks_handles_ending(struct cks_handles *h, uint64_t id, bool ending)
{
	lock_for_change(h);
	name_entry(h, id, !ending);
	pthread_rwlock_unlock(&h->lock);
}

bool cks_handles_known(struct cks_handles *h, enum cks_kind kind, const void *handle, uint64_t *id)
{
	pthread_rwlock_rdlock(&h->lock);
	*id = cks_handle_names_find(&h->names, kind, handle);
	pthread_rwlock_unlock(&h->lock);
	return *id != 0;
}

uint64_t cks_handles_parent(struct cks_handles *h, uint64_t id)
{
	const struct entry *e;
	uint64_t parent;

	pthread_rwlock_rdlock(&h->lock);
	e = entry_at(h, id);
	parent = e ? e->parent : 0;
	pthread_rwlock_unlock(&h->lock);
	return parent;
}

/* Is @id inside @outer, or the same? */
static bool lies_in(struct cks_handles *h, uint64_t id, uint64_t outer)
{
	const struct entry *e;

	while (id != outer && (e = entry_at(h, id)) != NULL)
		id = e->parent;
	return id == outer;
}

CUresult cks_handles_adopt(struct cks_handles *h, uint64_t id, uint64_t parent)
{
	CUresult err = CUDA_ERROR_INVALID_HANDLE;
	struct entry *e;

	lock_for_change(h);
	e = entry_at(h, id);
	if (e && !e->parent && entry_at(h, parent) && !lies_in(h, parent, id)) {
		link_child(h, (uint32_t)id, e, (uint32_t)parent);
		err = CUDA_SUCCESS;
	}
	pthread_rwlock_unlock(&h->lock);
	return err;
}

uint64_t *cks_handles_children(struct cks_handles *h, uint64_t id, enum cks_kind kind,
			       size_t *count)
{
	const struct entry *e, *child;
	uint64_t *ids = NULL;
	size_t room = 0;

	*count = 0;
	pthread_rwlock_rdlock(&h->lock);
	e = entry_at(h, id);
	for (uint32_t at = e ? e->child : 0; at; at = child->next) {
		child = entry_at(h, at);
		room++;
	}
	if (room > 0)
		ids = calloc(room, sizeof(*ids));
	for (uint32_t at = ids ? e->child : 0; at; at = child->next) {
		child = entry_at(h, at);
		if (child->kind == kind)
			ids[(*count)++] = at;
	}
	pthread_rwlock_unlock(&h->lock);
	return ids;
}

bool cks_handles_next(struct cks_handles *h, uint64_t *id, enum cks_kind kind,
		      struct cks_object *object)
{
	const struct entry *e = NULL;

	pthread_rwlock_rdlock(&h->lock);
	while (!e && ++*id < CK_MAX_OBJECTS) {
		if (!h->pages[*id / CK_PAGE]) {
			*id |= CK_PAGE - 1; /* the last id of a missing page */
			continue;
		}
		e = entry_at(h, *id);
		if (e && e->kind != kind)
			e = NULL;
	}
	if (e)
		*object = object_of(e);
	pthread_rwlock_unlock(&h->lock);
	return e != NULL;
}

unsigned char cks_handles_mark(struct cks_handles *h, uint64_t id, unsigned char mark)
{
	struct entry *e;
	unsigned char was;

	lock_for_change(h);
	e = entry_at(h, id);
	was = e ? e->mark : 0;
	if (e) {
		e->mark = mark;
		atomic_fetch_add(&h->marked, (size_t)(mark != 0) - (size_t)(was != 0));
	}
	pthread_rwlock_unlock(&h->lock);
	return was;
}

size_t cks_handles_marked(struct cks_handles *h)
{
	return atomic_load(&h->marked);
}

/* Find @id and cache it. */
static bool find_locked(struct cks_handles *h, uint64_t id, struct found *f)
{
	const struct entry *e;

	pthread_rwlock_rdlock(&h->lock);
	e = entry_at(h, id);
	f->table = NULL;
	if (e)
		*f = (struct found){
			.table = h,
			.changes = atomic_load(&changes),
			.id = id,
			.object = object_of(e),
		};
	pthread_rwlock_unlock(&h->lock);
	return e != NULL;
}

bool cks_handles_find(struct cks_handles *h, uint64_t id, unsigned int kinds,
		      struct cks_object *object)
{
	struct found *f = &found[id % CK_FOUND];

	if ((f->id != id || f->table != h ||
	     f->changes != atomic_load_explicit(&changes, memory_order_acquire)) &&
	    !find_locked(h, id, f))
		return false;
	if (!(CK_KIND_BIT(f->object.kind) & kinds))
		return false;
	*object = f->object;
	return true;
}

void *cks_handles_get(struct cks_handles *h, uint64_t id, enum cks_kind kind)
{
	struct cks_object object;

	return cks_handles_find(h, id, CK_KIND_BIT(kind), &object) ? object.handle : NULL;
}

void cks_handles_remove(struct cks_handles *h, uint64_t id)
{
	struct entry *e;

	lock_for_change(h);
	e = entry_at(h, id);
	if (e)
		entry_remove(h, id, e);
	pthread_rwlock_unlock(&h->lock);
}

void cks_handles_drop_context(struct cks_handles *h, uint64_t ctx)
{
	if (ctx == 0)
		return;
	lock_for_change(h);
	for (size_t i = 0; i < CK_PAGES; i++) {
		for (size_t j = 0; h->pages[i] && j < CK_PAGE; j++) {
			struct entry *e = &h->pages[i][j];

			if (e->handle && e->ctx == ctx && e->kind != CK_KIND_CONTEXT)
				entry_remove(h, i * CK_PAGE + j, e);
		}
	}
	pthread_rwlock_unlock(&h->lock);
}
