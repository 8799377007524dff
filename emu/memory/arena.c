/*
 * emu/memory/arena.c - the address ranges that devices know, and where device memory comes from.
 *
 * Device memory lies in the device's stretch of addresses (address_space.c), which has a table of
 * its ranges. Host memory that devices may use is in another table.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "emu/core/emu.h"
#include "emu/core/usage.h"
#include "emu/memory/address_space.h"
#include "emu/memory/arena.h"
#include "util/page.h"
#include "util/range.h"

#define GRANULE 512ul /* alignment of device memory, and of its sizes */
/* The host keeps managed memory while the rest is evicted (evict.c), so it has pages of its own. */
#define GRANULE_OF(kind) ((kind) == CK_EMU_MEMORY_MANAGED ? PAGE : GRANULE)
#define PAGE ck_page()

static pthread_rwlock_t ranges_lock = PTHREAD_RWLOCK_INITIALIZER; /* leaf */
static struct ck_emu_address_space stretches[CK_EMU_MAX_DEVICES];
static int stretch_count;
static struct ck_ranges *host; /* of struct ck_emu_memory */
static uint64_t last_id;

int ck_emu_arena_init(void)
{
	int count = ck_emu_device_count();

	host = ck_ranges_create();
	if (!host)
		return -ENOMEM;
	for (int i = 0; i < count; i++) {
		int ret = ck_emu_address_space_init(&stretches[i], ck_emu_device_at(i), i);

		if (ret < 0)
			return ret;
	}
	stretch_count = count;
	return 0;
}

/* The range at @lo becomes the table's; the caller has checked that it is free. */
static int range_enter(struct ck_ranges *ranges, struct ck_emu_memory *memory)
{
	struct ck_emu_memory *copy = malloc(sizeof(*copy));
	int ret;

	if (!copy)
		return -ENOMEM;
	memory->id = ++last_id;
	if (memory->context && memory->kind != CK_EMU_MEMORY_IPC)
		memory->device = memory->context->device->ordinal;
	*copy = *memory;
	ret = ck_ranges_insert(ranges, memory->lo, memory->lo + memory->size, copy);
	if (ret < 0)
		free(copy);
	return ret;
}

/* The bytes of a range that count as used. Graphs count theirs when they are launched
 * (graph_pool.c). */
static size_t counted(const struct ck_emu_memory *memory)
{
	return memory->kind == CK_EMU_MEMORY_GRAPH
		       ? 0
		       : CK_ALIGN_UP(memory->size, GRANULE_OF(memory->kind));
}

/* Device memory as *@memory says, which gets its address: 0 when there is none left. */
static uint64_t alloc_range(struct ck_emu_memory *memory)
{
	struct ck_emu_address_space *stretch = &stretches[memory->device];
	size_t size = memory->size, rounded;

	if (size == 0 || size > stretch->total)
		return 0;
	rounded = CK_ALIGN_UP(size, GRANULE_OF(memory->kind));
	pthread_rwlock_wrlock(&ranges_lock);
	/* a context that ends frees all that it finds: add nothing after that */
	if ((!memory->context || atomic_load(&memory->context->live)) &&
	    ck_emu_address_space_take(stretch, counted(memory))) {
		memory->lo = ck_emu_address_space_room(stretch, rounded, GRANULE_OF(memory->kind));
		if (memory->lo && range_enter(stretch->ranges, memory) < 0)
			memory->lo = 0;
		if (memory->lo)
			stretch->next = memory->lo + rounded;
		else
			ck_emu_address_space_give(stretch, counted(memory));
	}
	pthread_rwlock_unlock(&ranges_lock);
	return memory->lo;
}

uint64_t ck_emu_arena_alloc(struct ck_emu_context *context, size_t size,
			    enum ck_emu_memory_kind kind, const void *owner)
{
	struct ck_emu_memory memory = {.size = size,
				       .kind = kind,
				       .context = context,
				       .device = context->device->ordinal,
				       .owner = owner};

	return alloc_range(&memory);
}

uint64_t ck_emu_arena_alloc_unbound(int device, size_t size, enum ck_emu_memory_kind kind,
				    const void *owner)
{
	struct ck_emu_memory memory = {
		.size = size, .kind = kind, .device = device, .owner = owner};

	return alloc_range(&memory);
}

/* Enter a range that is outside of the devices' own stretches. Write lock held. */
static int host_enter(struct ck_emu_memory *memory)
{
	uint64_t end = memory->lo + memory->size;

	for (int i = 0; i < stretch_count; i++) {
		if (memory->lo < stretches[i].hi && end > stretches[i].lo)
			return -EINVAL;
	}
	return range_enter(host, memory);
}

int ck_emu_arena_add_host(struct ck_emu_context *context, uint64_t lo, size_t size,
			  enum ck_emu_memory_kind kind, unsigned int flags)
{
	struct ck_emu_memory memory = {
		.lo = lo, .size = size, .kind = kind, .context = context, .flags = flags};
	uint64_t end;
	int ret = -EINVAL;

	if (ck_add_overflow(lo, size, &end))
		return -EINVAL;
	pthread_rwlock_wrlock(&ranges_lock);
	if (atomic_load(&context->live))
		ret = host_enter(&memory);
	pthread_rwlock_unlock(&ranges_lock);
	return ret;
}

int ck_emu_arena_add_mapping(struct ck_emu_memory *memory)
{
	int ret;

	pthread_rwlock_wrlock(&ranges_lock);
	ret = host_enter(memory);
	pthread_rwlock_unlock(&ranges_lock);
	return ret;
}

/* The table that an address belongs to. */
static struct ck_emu_address_space *stretch_of(uint64_t address)
{
	for (int i = 0; i < stretch_count; i++) {
		if (address >= stretches[i].lo && address < stretches[i].hi)
			return &stretches[i];
	}
	return NULL;
}

static const struct ck_emu_memory *find(uint64_t address)
{
	struct ck_emu_address_space *stretch = stretch_of(address);
	const struct ck_range *range = ck_ranges_find(stretch ? stretch->ranges : host, address);

	return range ? range->value : NULL;
}

bool ck_emu_arena_find(uint64_t address, struct ck_emu_memory *memory)
{
	const struct ck_emu_memory *found;

	pthread_rwlock_rdlock(&ranges_lock);
	found = find(address);
	if (found)
		*memory = *found;
	pthread_rwlock_unlock(&ranges_lock);
	return found != NULL;
}

bool ck_emu_arena_find_before(uint64_t address, struct ck_emu_memory *memory)
{
	const struct ck_emu_address_space *stretch = stretch_of(address);
	const struct ck_emu_memory *found = NULL;
	const struct ck_ranges *ranges = stretch ? stretch->ranges : host;

	pthread_rwlock_rdlock(&ranges_lock);
	for (size_t i = 0; i < ck_ranges_count(ranges); i++) {
		const struct ck_range *range = ck_ranges_at(ranges, i);

		if (range->lo <= address && (!found || range->lo > found->lo))
			found = range->value;
	}
	if (found)
		*memory = *found;
	pthread_rwlock_unlock(&ranges_lock);
	return found != NULL;
}

void ck_emu_arena_grant(uint64_t lo, unsigned int mask, bool read, bool write)
{
	const struct ck_range *range;
	struct ck_emu_memory *memory;

	pthread_rwlock_wrlock(&ranges_lock);
	range = ck_ranges_find(host, lo);
	memory = range ? range->value : NULL;
	if (memory &&
	    (memory->kind == CK_EMU_MEMORY_VIRTUAL || memory->kind == CK_EMU_MEMORY_POOL)) {
		memory->readers = read ? memory->readers | mask : memory->readers & ~mask;
		memory->writers = write ? memory->writers | mask : memory->writers & ~mask;
	}
	pthread_rwlock_unlock(&ranges_lock);
}

bool ck_emu_arena_retire(uint64_t lo)
{
	struct ck_emu_memory *memory;
	bool first;

	pthread_rwlock_wrlock(&ranges_lock);
	memory = (struct ck_emu_memory *)(uintptr_t)find(lo);
	first = memory && memory->lo == lo && !memory->retired;
	if (first)
		memory->retired = true;
	pthread_rwlock_unlock(&ranges_lock);
	return first;
}

bool ck_emu_arena_take(int device, size_t size)
{
	struct ck_emu_address_space *stretch = &stretches[device];
	bool fits;

	pthread_rwlock_wrlock(&ranges_lock);
	fits = ck_emu_address_space_take(stretch, size);
	pthread_rwlock_unlock(&ranges_lock);
	return fits;
}

void ck_emu_arena_give(int device, size_t size)
{
	pthread_rwlock_wrlock(&ranges_lock);
	ck_emu_address_space_give(&stretches[device], size);
	pthread_rwlock_unlock(&ranges_lock);
}

/* Take a range out of its table; @memory is a copy of it. Write lock held. */
static void range_drop(const struct ck_emu_memory *memory)
{
	struct ck_emu_address_space *stretch = stretch_of(memory->lo);
	size_t rounded = CK_ALIGN_UP(memory->size, GRANULE_OF(memory->kind));
	void *value = NULL;

	ck_ranges_remove(stretch ? stretch->ranges : host, memory->lo, &value);
	free(value);
	if (!stretch)
		return;
	ck_emu_address_space_give(stretch, counted(memory));
	if (memory->kind == CK_EMU_MEMORY_HEAP)
		atomic_fetch_sub(&memory->context->heap_used, memory->size);
	ck_emu_address_space_release(stretch, memory->lo, memory->lo + rounded);
	if (stretch->next == memory->lo + rounded)
		stretch->next = memory->lo;
}

bool ck_emu_arena_remove(uint64_t lo, enum ck_emu_memory_kind kind, struct ck_emu_memory *memory)
{
	const struct ck_emu_memory *found;

	pthread_rwlock_wrlock(&ranges_lock);
	found = find(lo);
	if (found && (found->lo != lo || found->kind != kind))
		found = NULL;
	if (found) {
		*memory = *found;
		range_drop(memory);
	}
	pthread_rwlock_unlock(&ranges_lock);
	return found != NULL;
}

/* Drop the matching ranges of one table; host memory that we allocated goes as well. */
static void table_sweep(struct ck_ranges *ranges, const struct ck_emu_context *context,
			const void *owner)
{
	for (size_t i = ck_ranges_count(ranges); i-- > 0;) {
		const struct ck_emu_memory *found = ck_ranges_at(ranges, i)->value;
		struct ck_emu_memory memory = *found;

		if (memory.context != context || (owner && memory.owner != owner))
			continue;
		range_drop(&memory);
		if (memory.kind == CK_EMU_MEMORY_HOST)
			munmap((void *)memory.lo, CK_ALIGN_UP(memory.size, PAGE));
		if (memory.kind == CK_EMU_MEMORY_IPC)
			ck_emu_ipc_unmap(memory.lo, memory.size);
	}
}

void ck_emu_arena_sweep(const struct ck_emu_context *context, const void *owner)
{
	pthread_rwlock_wrlock(&ranges_lock);
	table_sweep(stretches[context->device->ordinal].ranges, context, owner);
	if (!owner)
		table_sweep(host, context, NULL);
	pthread_rwlock_unlock(&ranges_lock);
}

void ck_emu_arena_sweep_unbound(const void *owner)
{
	pthread_rwlock_wrlock(&ranges_lock);
	for (int i = 0; i < stretch_count; i++)
		table_sweep(stretches[i].ranges, NULL, owner);
	pthread_rwlock_unlock(&ranges_lock);
}

void ck_emu_arena_note_shared(uint64_t lo)
{
	struct ck_emu_memory *memory;

	pthread_rwlock_wrlock(&ranges_lock);
	memory = (struct ck_emu_memory *)(uintptr_t)find(lo);
	if (memory && memory->lo == lo)
		memory->shared = true;
	pthread_rwlock_unlock(&ranges_lock);
}

bool ck_emu_arena_set_memops(uint64_t address, bool on)
{
	struct ck_emu_memory *memory;

	pthread_rwlock_wrlock(&ranges_lock);
	memory = (struct ck_emu_memory *)(uintptr_t)find(address);
	if (memory)
		memory->memops = on ? 2 : 1;
	pthread_rwlock_unlock(&ranges_lock);
	return memory != NULL;
}

static bool is_hosts(enum ck_emu_memory_kind kind)
{
	return kind == CK_EMU_MEMORY_HOST || kind == CK_EMU_MEMORY_REGISTERED ||
	       kind == CK_EMU_MEMORY_MANAGED;
}

int ck_emu_arena_walk(int (*visit)(const struct ck_emu_memory *memory, int file, uint64_t offset))
{
	int ret = 0;

	pthread_rwlock_rdlock(&ranges_lock);
	for (int i = 0; i <= stretch_count && ret == 0; i++) {
		const struct ck_emu_address_space *stretch =
			i < stretch_count ? &stretches[i] : NULL;
		const struct ck_ranges *ranges = stretch ? stretch->ranges : host;

		for (size_t k = 0; k < ck_ranges_count(ranges) && ret == 0; k++) {
			const struct ck_emu_memory *memory = ck_ranges_at(ranges, k)->value;

			if (!is_hosts(memory->kind))
				ret = visit(memory, stretch ? stretch->file : -1,
					    stretch ? memory->lo - stretch->lo : 0);
		}
	}
	pthread_rwlock_unlock(&ranges_lock);
	return ret;
}

void ck_emu_arena_vacate(void)
{
	for (int i = 0; i < stretch_count; i++)
		ck_emu_usage_set(stretches[i].device->number, 0);
}

bool ck_emu_arena_reclaim(void)
{
	int i = 0;

	ck_emu_usage_rejoin();
	while (i < stretch_count && ck_emu_usage_claim(stretches[i].device->number,
						       stretches[i].used, stretches[i].total))
		i++;
	if (i < stretch_count)
		ck_emu_arena_vacate();
	return i == stretch_count;
}

int ck_emu_arena_file(int device)
{
	return stretches[device].file;
}

uint64_t ck_emu_arena_offset(int device, uint64_t address)
{
	return address - stretches[device].lo;
}

void ck_emu_arena_info(const struct ck_emu_device *device, size_t *used)
{
	pthread_rwlock_rdlock(&ranges_lock);
	*used = stretches[device->ordinal].used + ck_emu_usage_others(device->number);
	pthread_rwlock_unlock(&ranges_lock);
}
