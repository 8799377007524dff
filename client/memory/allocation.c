/*
 * client/memory/allocation.c - the table of known memory: device allocations and variables by the
 * server's addresses, pinned host memory by this process's addresses.
 *
 * There are two sets, because the two kinds of addresses belong to two processes and may coincide.
 * The lock is a leaf: no function that locks is called with it held.
 */
#include <stddef.h>
#include <stdlib.h>

#include "client/memory/state.h"
#include "client/link/hooks.h"
#include "client/link/session_list.h"
#include "util/range.h"

static struct ckc_allocations *get_allocations(void)
{
	return &ckc_client_current()->memory->allocations;
}

/* Those of the session that @device belongs to. */
static struct ckc_allocations *allocations_on(CUdevice device)
{
	struct ckc_client *c = ckc_many ? ckc_gpu_client(device) : NULL;

	return c ? &c->memory->allocations : get_allocations();
}

static struct ck_ranges **set_of(struct ckc_allocations *all, enum ckc_memory_kind kind)
{
	return ckc_kind_on_device(kind) ? &all->device_set : &all->host_set;
}

/*
 * Remove entries that overlap [lo, hi), which is about to be noted. On the device, the server's
 * answer is newer: an old entry went away unnoticed, as a module's variables do. A registration is
 * likewise stale if its range was just mapped as new host memory. But registering a range twice is
 * an error.
 */
static CUresult clear_way(struct ck_ranges *set, uint64_t lo, uint64_t hi,
			  enum ckc_memory_kind kind)
{
	const struct ck_range *range;

	while ((range = ck_ranges_overlap(set, lo, hi)) != NULL) {
		struct ckc_allocation *old = range->value;

		if (kind == CK_MEMORY_HOST_REGISTERED)
			return old->kind == kind ? CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED
						 : CUDA_ERROR_INVALID_VALUE;
		ck_ranges_remove(set, range->lo, NULL);
		free(old);
	}
	return CUDA_SUCCESS;
}

static CUresult insert_allocation(struct ckc_allocations *all, struct ckc_allocation *a)
{
	static _Atomic uint64_t last_id; /* per process: CUDA promises that no id is reused */
	struct ck_ranges **set = set_of(all, a->kind);
	CUresult err;

	if (!*set)
		*set = ck_ranges_create();
	if (!*set)
		return CUDA_ERROR_OUT_OF_MEMORY;
	err = clear_way(*set, a->base, a->base + a->size, a->kind);
	if (err)
		return err;
	a->buffer_id = atomic_fetch_add(&last_id, 1) + 1;
	if (ck_ranges_insert(*set, a->base, a->base + a->size, a) < 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	return CUDA_SUCCESS;
}

CUresult ckc_allocation_note(const struct ckc_allocation *what)
{
	struct ckc_allocations *all = allocations_on(what->device);
	struct ckc_allocation *a;
	uint64_t end;
	CUresult err;

	if (what->size == 0 || ck_add_overflow(what->base, what->size, &end))
		return CUDA_ERROR_INVALID_VALUE;
	a = malloc(sizeof(*a));
	if (!a)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*a = *what;
	if (a->graph)
		atomic_store_explicit(&all->graphs, true, memory_order_relaxed);
	ck_lock(&all->lock);
	err = insert_allocation(all, a);
	ck_unlock(&all->lock);
	if (err)
		free(a);
	return err;
}

bool ckc_allocation_by_graphs(void)
{
	return atomic_load_explicit(&ckc_client_current()->memory->allocations.graphs,
				    memory_order_relaxed);
}

CUresult ckc_allocation_add(uint64_t base, size_t size, enum ckc_memory_kind kind,
			    struct ckc_context *context, unsigned int flags, bool variable)
{
	return ckc_allocation_note(&(struct ckc_allocation){
		.base = base,
		.size = size,
		.kind = kind,
		.context = context,
		.device = context ? context->device : 0,
		.flags = flags,
		.variable = variable,
	});
}

static struct ckc_allocation *find_allocation(const struct ck_ranges *set, uint64_t address)
{
	const struct ck_range *range = set ? ck_ranges_find(set, address) : NULL;

	return range ? range->value : NULL;
}

bool ckc_allocation_mapped(uint64_t base, size_t size)
{
	struct ckc_allocations *all = get_allocations();
	bool any;

	ck_lock(&all->lock);
	any = all->device_set && ck_ranges_overlap(all->device_set, base, base + size);
	ck_unlock(&all->lock);
	return any;
}

static bool find_in(struct ckc_allocations *all, uint64_t address, struct ckc_allocation *found)
{
	const struct ckc_allocation *a;

	ck_lock(&all->lock);
	a = find_allocation(all->device_set, address);
	if (!a)
		a = find_allocation(all->host_set, address);
	if (a)
		*found = *a;
	ck_unlock(&all->lock);
	return a != NULL;
}

bool ckc_allocation_find(uint64_t address, struct ckc_allocation *found)
{
	bool is = find_in(get_allocations(), address, found);

	for (unsigned int i = 0; unlikely(!is && ckc_many) && i < ckc_servers_count(); i++)
		is = find_in(&ckc_server_session(i)->memory->allocations, address, found);
	return is;
}

bool ckc_allocation_next(uint64_t from, struct ckc_allocation *found)
{
	struct ckc_allocations *all = get_allocations();
	const struct ck_range *range;

	ck_lock(&all->lock);
	range = all->device_set ? ck_ranges_overlap(all->device_set, from, UINT64_MAX) : NULL;
	if (range)
		*found = *(const struct ckc_allocation *)range->value;
	ck_unlock(&all->lock);
	return range != NULL;
}

static bool remove_from(struct ckc_allocations *all, uint64_t base, enum ckc_memory_kind kind,
			struct ckc_allocation *gone)
{
	struct ck_ranges *set;
	const struct ckc_allocation *a;

	ck_lock(&all->lock);
	set = *set_of(all, kind);
	a = find_allocation(set, base);
	if (a && (a->base != base || a->kind != kind))
		a = NULL;
	if (a) {
		ck_ranges_remove(set, base, NULL);
		if (gone)
			*gone = *a;
	}
	ck_unlock(&all->lock);
	free((void *)(uintptr_t)a);
	return a != NULL;
}

bool ckc_allocation_remove(uint64_t base, enum ckc_memory_kind kind, struct ckc_allocation *gone)
{
	bool is = remove_from(get_allocations(), base, kind, gone);

	for (unsigned int i = 0; unlikely(!is && ckc_many) && i < ckc_servers_count(); i++)
		is = remove_from(&ckc_server_session(i)->memory->allocations, base, kind, gone);
	return is;
}

bool ckc_allocation_take(const struct ckc_context *context, bool on_device, size_t *at,
			 struct ckc_allocation *taken)
{
	struct ckc_allocations *all = &context->client->memory->allocations;
	struct ckc_allocation *a = NULL;
	struct ck_ranges *set;

	ck_lock(&all->lock);
	set = on_device ? all->device_set : all->host_set;
	*at = ck_min(*at, set ? ck_ranges_count(set) : 0);
	while (!a && *at > 0) {
		const struct ck_range *range = ck_ranges_at(set, --*at);

		a = range->value;
		if (a->context == context)
			ck_ranges_remove(set, range->lo, NULL);
		else
			a = NULL;
	}
	ck_unlock(&all->lock);
	if (a)
		*taken = *a;
	free(a);
	return a != NULL;
}

/* Set the flag at offset @flag of the allocation that contains @address, if there is one. */
static void set_flag(bool on_device, uint64_t address, size_t flag)
{
	struct ckc_allocations *all = get_allocations();
	struct ckc_allocation *a;

	ck_lock(&all->lock);
	a = find_allocation(on_device ? all->device_set : all->host_set, address);
	if (a)
		*(bool *)((char *)a + flag) = true;
	ck_unlock(&all->lock);
}

void ckc_allocation_share(uint64_t base)
{
	set_flag(false, base, offsetof(struct ckc_allocation, shared));
}

void ckc_allocation_copied(uint64_t address)
{
	set_flag(false, address, offsetof(struct ckc_allocation, copied));
}

bool ckc_allocation_memops(uint64_t address, bool on)
{
	struct ckc_allocations *all = get_allocations();
	struct ckc_allocation *a;

	ck_lock(&all->lock);
	a = find_allocation(all->device_set, address);
	if (!a)
		a = find_allocation(all->host_set, address);
	if (a)
		a->memops = on ? 2 : 1;
	ck_unlock(&all->lock);
	return a != NULL;
}

void ckc_allocation_left(uint64_t base)
{
	set_flag(true, base, offsetof(struct ckc_allocation, left));
}

/* The mapping that contains @address, or the first one after it that begins before @end, or
 * NULL. */
static struct ckc_allocation *mapped_from(const struct ckc_allocations *all, uint64_t address,
					  uint64_t end)
{
	struct ck_ranges *set = all->device_set;
	const struct ck_range *range = set ? ck_ranges_overlap(set, address, end) : NULL;
	struct ckc_allocation *a = range ? range->value : NULL;

	return a && a->mapped ? a : NULL;
}

void ckc_allocation_access(uint64_t base, size_t size, uint64_t gained, uint64_t lost)
{
	struct ckc_allocations *all = get_allocations();
	uint64_t end = base + size;
	struct ckc_allocation *a;

	ck_lock(&all->lock);
	while (base < end && (a = mapped_from(all, base, end)) != NULL) {
		a->access = (a->access & ~lost) | gained;
		base = a->base + a->size;
	}
	ck_unlock(&all->lock);
}

void ckc_allocation_unmap(uint64_t base, size_t size)
{
	struct ckc_allocations *all = get_allocations();
	uint64_t end = base + size;
	struct ckc_allocation *a;

	ck_lock(&all->lock);
	while (base < end && (a = mapped_from(all, base, end)) != NULL) {
		base = a->base + a->size;
		ck_ranges_remove(all->device_set, a->base, NULL);
		free(a);
	}
	ck_unlock(&all->lock);
}

CUresult ckc_device_range(uint64_t address, size_t size)
{
	struct ckc_allocations *all = get_allocations();
	CUresult err = CUDA_SUCCESS;

	ck_lock(&all->lock);
	while (size > 0 && !err) {
		const struct ckc_allocation *a = find_allocation(all->device_set, address);
		size_t room = a ? a->size - (address - a->base) : 0;

		/* only mappings continue in adjacent ones; a mapping without access is invalid */
		if (!a || (a->mapped && !a->access) || (size > room && !a->mapped))
			err = CUDA_ERROR_INVALID_VALUE;
		room = size < room ? size : room;
		address += room;
		size -= room;
	}
	ck_unlock(&all->lock);
	return err;
}

bool ckc_on_device(uint64_t address)
{
	struct ckc_allocation a;

	return ckc_allocation_find(address, &a) && ckc_kind_on_device(a.kind);
}
