/*
 * emu/graphs/user_object.c - user objects: memory of the application that lives as long as graphs
 * need it.
 *
 * A destructor is the application's function, so none is called under a lock: objects without a
 * reference are put in a list, and the thread that releases the lock of the graphs calls their
 * destructors.
 */
#include <limits.h>
#include <stdlib.h>

#include "emu/graphs/graph.h"
#include "emu/core/locks.h"
#include "emu/graphs/user_object.h"

struct user_object {
	struct ck_emu_object base;
	uint64_t count; /* references, under the lock */
	void *data;
	CUhostFn destroy;
	struct user_object *next; /* in the list of those to be destroyed */
};

static struct ck_mutex dead_lock = CK_MUTEX(CK_RANK_USER_OBJECTS);
static struct user_object *dead;
static atomic_bool any_dead;

static void object_free(struct ck_emu_object *object)
{
	free(object);
}

/* False when there are fewer. */
static bool give_back(struct user_object *object, uint64_t count)
{
	bool enough;

	ck_lock(&dead_lock);
	enough = object->count >= count;
	if (enough)
		object->count -= count;
	if (enough && !object->count) {
		ck_emu_object_retract(&object->base);
		object->next = dead;
		dead = object;
		atomic_store(&any_dead, true);
	}
	ck_unlock(&dead_lock);
	return enough;
}

static void add_references(struct user_object *object, uint64_t count)
{
	ck_lock(&dead_lock);
	object->count += count;
	ck_unlock(&dead_lock);
}

void ck_emu_user_objects_run(void)
{
	struct user_object *list, *next;
	bool inside = ck_emu_thread_in_callback();

	if (!atomic_load_explicit(&any_dead, memory_order_relaxed))
		return;
	ck_lock(&dead_lock);
	list = dead;
	dead = NULL;
	atomic_store(&any_dead, false);
	ck_unlock(&dead_lock);
	ck_emu_thread_callback(true);
	for (; list; list = next) {
		next = list->next;
		list->destroy(list->data);
		ck_emu_object_put(&list->base);
	}
	ck_emu_thread_callback(inside);
}

void ck_emu_keeps_drop(struct ck_emu_keep **keeps)
{
	while (*keeps) {
		struct ck_emu_keep *keep = *keeps;

		*keeps = keep->next;
		give_back(keep->object, keep->count);
		free(keep);
	}
}

/* The graph's entry for an object, made at need; NULL: out of memory. */
static struct ck_emu_keep *keep_get(struct ck_emu_keep **keeps, struct user_object *object)
{
	struct ck_emu_keep *keep = *keeps;

	while (keep && keep->object != object)
		keep = keep->next;
	if (keep)
		return keep;
	keep = calloc(1, sizeof(*keep));
	if (!keep)
		return NULL;
	keep->object = object;
	keep->next = *keeps;
	*keeps = keep;
	return keep;
}

bool ck_emu_keeps_copy(struct ck_emu_keep **to, const struct ck_emu_keep *from)
{
	for (; from; from = from->next) {
		struct ck_emu_keep *keep = keep_get(to, from->object);

		if (!keep)
			return false;
		add_references(from->object, from->count);
		keep->count = from->count;
	}
	return true;
}

/* A call on a user object: takes the lock of the graphs, if it succeeds. */
static CUresult begin_object_call(CUuserObject handle, unsigned int count,
				  struct user_object **object)
{
	CUresult result = ck_emu_enter_bare();

	if (result != CUDA_SUCCESS)
		return result;
	if (!handle || !count || count > INT_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	ck_emu_graph_lock();
	*object = ck_emu_object_get(handle, CK_EMU_USER_OBJECT);
	if (*object) {
		ck_emu_object_put(&(*object)->base); /* it goes under that lock only */
		return CUDA_SUCCESS;
	}
	ck_emu_graph_unlock();
	return CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuUserObjectCreate(CUuserObject *object_out, void *ptr, CUhostFn destroy,
			    unsigned int initialRefcount, unsigned int flags)
{
	CUresult result = ck_emu_enter_bare();
	struct user_object *object;

	if (result != CUDA_SUCCESS)
		return result;
	/* the flag is required: destructors run when they run */
	if (!object_out || !destroy || !initialRefcount || initialRefcount > INT_MAX ||
	    flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC)
		return CUDA_ERROR_INVALID_VALUE;
	object = calloc(1, sizeof(*object));
	if (!object)
		return CUDA_ERROR_OUT_OF_MEMORY;
	ck_emu_object_init(&object->base, CK_EMU_USER_OBJECT, NULL, object_free);
	object->count = initialRefcount;
	object->data = ptr;
	object->destroy = destroy;
	result = ck_emu_object_publish(&object->base);
	if (result == CUDA_SUCCESS)
		*object_out = (CUuserObject)object;
	else
		ck_emu_object_put(&object->base);
	return result;
}

CUresult cuUserObjectRetain(CUuserObject object, unsigned int count)
{
	struct user_object *found;
	CUresult result = begin_object_call(object, count, &found);

	if (result != CUDA_SUCCESS)
		return result;
	add_references(found, count);
	ck_emu_graph_unlock();
	return CUDA_SUCCESS;
}

CUresult cuUserObjectRelease(CUuserObject object, unsigned int count)
{
	struct user_object *found;
	CUresult result = begin_object_call(object, count, &found);

	if (result != CUDA_SUCCESS)
		return result;
	if (!give_back(found, count))
		result = CUDA_ERROR_INVALID_VALUE;
	ck_emu_graph_unlock();
	return result;
}

CUresult cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned int count,
				 unsigned int flags)
{
	struct ck_emu_graph *holder;
	struct ck_emu_keep *keep = NULL;
	struct user_object *found;
	CUresult result;

	if (!graph || flags & ~(unsigned int)CU_GRAPH_USER_OBJECT_MOVE)
		return CUDA_ERROR_INVALID_VALUE;
	result = begin_object_call(object, count, &found);
	if (result != CUDA_SUCCESS)
		return result;
	holder = ck_emu_graph_find(graph);
	if (holder)
		keep = keep_get(&holder->keeps, found);
	if (keep) {
		/* a move takes the caller's references, which there have to be */
		keep->count += count;
		if (!(flags & CU_GRAPH_USER_OBJECT_MOVE))
			add_references(found, count);
	}
	ck_emu_graph_unlock();
	if (!holder)
		return CUDA_ERROR_INVALID_HANDLE;
	return keep ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuGraphReleaseUserObject(CUgraph graph, CUuserObject object, unsigned int count)
{
	struct ck_emu_keep **link, *keep = NULL;
	struct ck_emu_graph *holder;
	struct user_object *found;
	CUresult result;

	if (!graph)
		return CUDA_ERROR_INVALID_VALUE;
	result = begin_object_call(object, count, &found);
	if (result != CUDA_SUCCESS)
		return result;
	holder = ck_emu_graph_find(graph);
	for (link = holder ? &holder->keeps : NULL; link && *link; link = &(*link)->next) {
		keep = *link;
		if (keep->object == found)
			break;
		keep = NULL;
	}
	if (keep && keep->count >= count) {
		keep->count -= count;
		give_back(found, count);
	} else {
		result = holder ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
	}
	if (keep && !keep->count) {
		*link = keep->next;
		free(keep);
	}
	ck_emu_graph_unlock();
	return result;
}
