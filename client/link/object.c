/*
 * client/link/object.c - slots of handles in one reserved region.
 *
 * Slots are handed out in order. A freed slot is reused only after many others, so that a stale
 * handle can be told from a live one for a while. The region is reserved, not committed: pages are
 * allocated as slots are used.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#include "client/link/client.h"
#include "client/link/object.h"
#include "client/link/session_list.h"
#include "util/log.h"
#include "util/map.h"

CK_LOG_DEFINE("client");

#define SLOT_SIZE 128
#define SLOT_COUNT (1u << 22)
#define FIRST_ID 16 /* 0, 1 and 2 are streams that need no object */
#define MAGIC 0x6f6b6372u
#define REUSE_AFTER 1024 /* free slots that wait before one is reused */

union slot {
	struct ckc_object head;
	struct ckc_context context;
	struct ckc_stream stream;
	struct ckc_event event;
	struct ckc_module module;
	struct ck_function function;
	struct ckc_pool pool;
	struct ckc_physical physical;
	struct ckc_inmate inmate;
	struct ckc_graph graph;
	struct ckc_node node;
	struct ckc_exec exec;
	struct ckc_link link;
	struct ckc_green green;
	struct {
		struct ckc_object head;
		uint32_t next_free;
	} free;
	unsigned char size[SLOT_SIZE];
};

_Static_assert(sizeof(union slot) == SLOT_SIZE, "an object has outgrown its slot");

/* Per process, not per session: a value alone must show whether it is a handle. */
static struct ck_mutex slots_lock = CK_MUTEX(CK_RANK_SLOTS);
static union slot *slots;
static uint32_t used = FIRST_ID; /* slots ever handed out */
static uint32_t free_first, free_last, free_count;

static int reserve_slots(void)
{
	void *at = mmap(NULL, (size_t)SLOT_COUNT * SLOT_SIZE, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (at == MAP_FAILED) {
		ck_err("no address space for handles: %m");
		return -1;
	}
	__atomic_store_n(&slots, at, __ATOMIC_RELEASE);
	return 0;
}

static uint32_t allocate_slot(void)
{
	uint32_t i = 0;

	if (free_count > REUSE_AFTER || (used == SLOT_COUNT && free_count > 0)) {
		i = free_first;
		free_first = slots[i].free.next_free;
		free_count--;
	} else if (used < SLOT_COUNT) {
		i = used++;
	}
	return i;
}

static uint16_t session_for(enum ckc_object_kind kind, const struct ckc_context *context)
{
	if (likely(!ckc_many))
		return 0;
	if (!context && (kind == CK_OBJECT_MODULE || kind == CK_OBJECT_FUNCTION))
		return CKC_ALL_SESSIONS;
	return (uint16_t)(context ? context->client : ckc_client_current())->index;
}

void *ckc_object_new(enum ckc_object_kind kind, struct ckc_context *context)
{
	struct ckc_object *o = NULL;
	uint32_t i = 0;

	ck_lock(&slots_lock);
	if (slots || !reserve_slots())
		i = allocate_slot();
	ck_unlock(&slots_lock);
	if (i == 0)
		return NULL;
	o = &slots[i].head;
	memset(o, 0, SLOT_SIZE);
	o->kind = (uint16_t)kind;
	o->session = session_for(kind, context);
	o->id = i;
	o->context = context;
	__atomic_store_n(&o->magic, MAGIC, __ATOMIC_RELEASE);
	return o;
}

void ckc_object_filled(void *object)
{
	__atomic_store_n(&((struct ckc_object *)object)->magic, MAGIC, __ATOMIC_RELEASE);
}

static void forget_name(struct ckc_named *named, uint64_t id)
{
	ck_lock(&named->lock);
	if (named->objects)
		ck_map_remove(named->objects, &id, sizeof(id));
	ck_unlock(&named->lock);
}

void ckc_object_free(void *object)
{
	struct ckc_object *o = object;
	uint32_t i = (uint32_t)((union slot *)object - slots);

	__atomic_store_n(&o->magic, 0, __ATOMIC_RELEASE);
	if (o->id >= SLOT_COUNT)
		forget_name(&ckc_server_session(o->session)->named, o->id);
	ck_lock(&slots_lock);
	if (free_count == 0)
		free_first = i;
	else
		slots[free_last].free.next_free = i;
	free_last = i;
	free_count++;
	ck_unlock(&slots_lock);
}

void *ckc_object_check(const void *handle, enum ckc_object_kind kind)
{
	union slot *base = __atomic_load_n(&slots, __ATOMIC_ACQUIRE);
	uintptr_t offset = (uintptr_t)handle - (uintptr_t)base;
	struct ckc_object *o = (struct ckc_object *)(uintptr_t)handle;

	if (!base || offset >= (uintptr_t)SLOT_COUNT * SLOT_SIZE || offset % SLOT_SIZE)
		return NULL;
	if (__atomic_load_n(&o->magic, __ATOMIC_ACQUIRE) != MAGIC || o->kind != kind)
		return NULL;
	if (unlikely(ckc_many) && o->session != CKC_ALL_SESSIONS)
		ckc_route(ckc_server_session(o->session));
	return o;
}

struct ckc_client *ckc_object_session(uint64_t id, struct ckc_context **context)
{
	union slot *base = __atomic_load_n(&slots, __ATOMIC_ACQUIRE);
	struct ckc_object *o = &base[id].head;

	if (!base || id < FIRST_ID || id >= SLOT_COUNT ||
	    __atomic_load_n(&o->magic, __ATOMIC_ACQUIRE) != MAGIC || o->session == CKC_ALL_SESSIONS)
		return NULL;
	*context = o->kind == CK_OBJECT_CONTEXT ? (struct ckc_context *)o : o->context;
	return ckc_server_session(o->session);
}

/* False for kinds that outlive the context they were made in, such as graphs and pools. */
static bool of_context(enum ckc_object_kind kind)
{
	return kind == CK_OBJECT_ARRAY || kind == CK_OBJECT_MIPMAP || kind == CK_OBJECT_LINK ||
	       kind == CK_OBJECT_TEXREF || kind == CK_OBJECT_SURFREF;
}

CUresult ckc_object_make(enum ckc_object_kind kind, uint64_t *id)
{
	struct ckc_object *o =
		ckc_object_new(kind, of_context(kind) ? ckc_context_current() : NULL);

	if (!o)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*id = o->id;
	return CUDA_SUCCESS;
}

/* The object with an id that the server chose; with @make, create it if it is new here. */
static struct ckc_object *named_object(enum ckc_object_kind kind, uint64_t id, bool make)
{
	struct ckc_named *named = &ckc_client_current()->named;
	struct ckc_object *o = NULL;

	ck_lock(&named->lock);
	if (!named->objects)
		named->objects = ck_map_create();
	if (named->objects)
		o = ck_map_find(named->objects, &id, sizeof(id));
	ck_unlock(&named->lock);
	if (o || !make || !named->objects)
		return o && o->kind == kind ? o : NULL;
	o = ckc_object_new(kind, of_context(kind) ? ckc_context_current() : NULL);
	if (!o)
		return NULL;
	ck_lock(&named->lock);
	o->id = id;
	/* Two threads may learn of it at once: the first one's object wins. */
	if (ck_map_insert(named->objects, &id, sizeof(id), o)) {
		struct ckc_object *first = ck_map_find(named->objects, &id, sizeof(id));

		o->id = 0;
		ck_unlock(&named->lock);
		ckc_object_free(o);
		return first && first->kind == kind ? first : NULL;
	}
	ck_unlock(&named->lock);
	return o;
}

void *ckc_object_by_id(enum ckc_object_kind kind, uint64_t id)
{
	union slot *base = __atomic_load_n(&slots, __ATOMIC_ACQUIRE);

	if (id >= SLOT_COUNT)
		return named_object(kind, id, false);
	return base ? ckc_object_check(&base[id], kind) : NULL;
}

void *ckc_object_named(enum ckc_object_kind kind, uint64_t id)
{
	return id < SLOT_COUNT ? ckc_object_by_id(kind, id) : named_object(kind, id, true);
}

void ckc_object_end(enum ckc_object_kind kind, uint64_t id)
{
	void *o = ckc_object_by_id(kind, id);

	if (o)
		ckc_object_free(o);
}

CUresult ckc_object_id(const void *handle, enum ckc_object_kind kind, uint64_t *id)
{
	const struct ckc_object *o = ckc_object_check(handle, kind);

	if (!o)
		return CUDA_ERROR_INVALID_HANDLE;
	*id = o->id;
	return CUDA_SUCCESS;
}

void ckc_object_each(struct ckc_context *context,
		     void (*fn)(struct ckc_object *object, void *closure), void *closure)
{
	uint32_t end;

	ck_lock(&slots_lock);
	end = slots ? used : FIRST_ID;
	ck_unlock(&slots_lock);
	for (uint32_t i = FIRST_ID; i < end; i++) {
		struct ckc_object *o = &slots[i].head;

		if (__atomic_load_n(&o->magic, __ATOMIC_ACQUIRE) == MAGIC && o->context == context)
			fn(o, closure);
	}
}
