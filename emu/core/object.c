/*
 * emu/core/object.c - handles: the table of live objects, and reference counts.
 */
#include <errno.h>

#include "emu/core/emu.h"
#include "emu/core/locks.h"
#include "util/map.h"

static struct ck_mutex table_lock = CK_MUTEX(CK_RANK_OBJECTS);
static struct ck_map *table; /* address of an object -> the object; made at first use */

/* The object whose count stands for this one's. */
static struct ck_emu_object *get_counted_object(struct ck_emu_object *object)
{
	return object->owner ? object->owner : object;
}

void ck_emu_object_init(struct ck_emu_object *object, enum ck_emu_kind kind,
			struct ck_emu_context *context, void (*free)(struct ck_emu_object *object))
{
	object->kind = kind;
	atomic_init(&object->refs, 1);
	object->owner = NULL;
	object->context = context;
	object->free = free;
	object->retract = NULL;
	if (context)
		ck_emu_object_ref(&context->base);
}

CUresult ck_emu_object_publish(struct ck_emu_object *object)
{
	CUresult result = CUDA_SUCCESS;

	ck_lock(&table_lock);
	if (!table)
		table = ck_map_create();
	if (object->context && !atomic_load(&object->context->live))
		result = CUDA_ERROR_CONTEXT_IS_DESTROYED;
	else if (!table || ck_map_insert(table, &object, sizeof(object), object) < 0)
		result = CUDA_ERROR_OUT_OF_MEMORY;
	ck_unlock(&table_lock);
	return result;
}

void *ck_emu_object_get(const void *handle, enum ck_emu_kind kind)
{
	struct ck_emu_object *object = NULL;

	ck_lock(&table_lock);
	if (table && handle)
		object = ck_map_find(table, &handle, sizeof(handle));
	if (object && object->kind == CK_EMU_VIEW && kind == CK_EMU_CONTEXT)
		object = &((struct ck_emu_view *)object)->under->base;
	if (object && object->kind != kind)
		object = NULL;
	if (object)
		ck_emu_object_ref(object);
	ck_unlock(&table_lock);
	return object;
}

bool ck_emu_object_retract(struct ck_emu_object *object)
{
	bool found;

	ck_lock(&table_lock);
	found = table && ck_map_remove(table, &object, sizeof(object)) != NULL;
	ck_unlock(&table_lock);
	if (found && object->retract)
		object->retract(object);
	return found;
}

void ck_emu_object_ref(struct ck_emu_object *object)
{
	atomic_fetch_add_explicit(&get_counted_object(object)->refs, 1, memory_order_relaxed);
}

void ck_emu_object_put(struct ck_emu_object *object)
{
	struct ck_emu_context *context;

	object = get_counted_object(object);
	if (atomic_fetch_sub_explicit(&object->refs, 1, memory_order_acq_rel) != 1)
		return;
	context = object->context;
	object->free(object);
	if (context)
		ck_emu_object_put(&context->base);
}

struct ck_emu_object *ck_emu_object_search(bool (*match)(const struct ck_emu_object *object,
							 const void *key),
					   const void *key)
{
	struct ck_map_iter it = CK_MAP_ITER_INIT;
	struct ck_emu_object *found = NULL;

	ck_lock(&table_lock);
	while (table && !found && ck_map_next(table, &it)) {
		if (match(it.value, key))
			found = it.value;
	}
	if (found)
		ck_emu_object_ref(found);
	ck_unlock(&table_lock);
	return found;
}
