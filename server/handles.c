/*
 * server/handles.c - the table behind handles.h: pages of entries, found by id.
 *
 * Ids are dense, so a page of entries is made when its first id is used: a client that names id
 * 16,000,000 costs one page, not a table of that length.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "server/handles.h"

#define CK_PAGE 4096u /* entries */
#define CK_PAGES (CK_MAX_OBJECTS / CK_PAGE)

/* Ids of relatives, 0 for none: the object it lives in, its first inmate, its neighbours there. */
struct entry {
	void *handle; /* NULL: the id is free */
	uint64_t ctx, serial;
	enum ck_kind kind;
	uint32_t parent, child, next, prev;
};

struct ck_handles {
	pthread_rwlock_t lock;
	uint64_t serial; /* of the newest entry */
	struct entry *pages[CK_PAGES];
};

int ck_handles_create(struct ck_handles **out)
{
	struct ck_handles *h = calloc(1, sizeof(*h));

	if (!h)
		return -ENOMEM;
	pthread_rwlock_init(&h->lock, NULL);
	*out = h;
	return 0;
}

void ck_handles_destroy(struct ck_handles *h)
{
	if (!h)
		return;
	for (size_t i = 0; i < CK_PAGES; i++)
		free(h->pages[i]);
	pthread_rwlock_destroy(&h->lock);
	free(h);
}

/* The entry in use of @id, or NULL. Locked by the caller, as in all that follow. */
static struct entry *entry_at(struct ck_handles *h, uint64_t id)
{
	struct entry *page;

	if (id == 0 || id >= CK_MAX_OBJECTS)
		return NULL;
	page = h->pages[id / CK_PAGE];
	if (!page || !page[id % CK_PAGE].handle)
		return NULL;
	return &page[id % CK_PAGE];
}

static void unlink_child(struct ck_handles *h, struct entry *e)
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

static void link_child(struct ck_handles *h, uint32_t id, struct entry *e, uint32_t parent_id)
{
	struct entry *parent = entry_at(h, parent_id);
	struct entry *first = entry_at(h, parent->child);

	e->parent = parent_id;
	e->next = parent->child;
	if (first)
		first->prev = id;
	parent->child = id;
}

/* Children are functions, or a library's modules with theirs: the recursion is two deep. */
static void entry_remove(struct ck_handles *h, struct entry *e)
{
	while (e->child)
		entry_remove(h, entry_at(h, e->child));
	unlink_child(h, e);
	*e = (struct entry){ 0 };
}

static CUresult entry_put(struct ck_handles *h, uint64_t id, const struct entry *from,
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
	*e = *from;
	e->serial = ++h->serial;
	if (parent)
		link_child(h, (uint32_t)id, e, (uint32_t)parent);
	return CUDA_SUCCESS;
}

CUresult ck_handles_put_child(struct ck_handles *h, uint64_t id, enum ck_kind kind, uint64_t ctx,
			      void *handle, uint64_t parent)
{
	const struct entry from = { .handle = handle, .ctx = ctx, .kind = kind };
	CUresult err;

	if (id == 0 || id >= CK_MAX_OBJECTS || !handle)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_rwlock_wrlock(&h->lock);
	err = entry_put(h, id, &from, parent);
	pthread_rwlock_unlock(&h->lock);
	return err;
}

CUresult ck_handles_put(struct ck_handles *h, uint64_t id, enum ck_kind kind, uint64_t ctx,
			void *handle)
{
	return ck_handles_put_child(h, id, kind, ctx, handle, 0);
}

bool ck_handles_find(struct ck_handles *h, uint64_t id, unsigned int kinds,
		     struct ck_object *object)
{
	const struct entry *e;
	bool found;

	pthread_rwlock_rdlock(&h->lock);
	e = entry_at(h, id);
	found = e && (CK_KIND_BIT(e->kind) & kinds);
	if (found)
		*object = (struct ck_object){
			.handle = e->handle, .kind = e->kind, .ctx = e->ctx, .serial = e->serial
		};
	pthread_rwlock_unlock(&h->lock);
	return found;
}

void *ck_handles_get(struct ck_handles *h, uint64_t id, enum ck_kind kind)
{
	struct ck_object object;

	return ck_handles_find(h, id, CK_KIND_BIT(kind), &object) ? object.handle : NULL;
}

void ck_handles_remove(struct ck_handles *h, uint64_t id)
{
	struct entry *e;

	pthread_rwlock_wrlock(&h->lock);
	e = entry_at(h, id);
	if (e)
		entry_remove(h, e);
	pthread_rwlock_unlock(&h->lock);
}

void ck_handles_drop_context(struct ck_handles *h, uint64_t ctx)
{
	if (ctx == 0)
		return;
	pthread_rwlock_wrlock(&h->lock);
	for (size_t i = 0; i < CK_PAGES; i++) {
		for (size_t j = 0; h->pages[i] && j < CK_PAGE; j++) {
			struct entry *e = &h->pages[i][j];

			if (e->handle && e->ctx == ctx && e->kind != CK_KIND_CONTEXT)
				entry_remove(h, e);
		}
	}
	pthread_rwlock_unlock(&h->lock);
}
