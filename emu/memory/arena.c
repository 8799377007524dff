/*
 * emu/memory/arena.c - the address ranges that devices know, and where device memory comes from.
 *
 * Each device has a reserved stretch of addresses, larger than its memory so that gaps do not
 * make it run out early; a file in memory lies behind it, which other processes may map a part
 * of (ipc.c). Pages come from the kernel when they are first touched and go back when
 * a range is freed; they stay mapped, so that a kernel's late access to freed memory reads
 * something, and crashes nothing. Host memory that devices may use is in a table of its own.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "emu/memory/arena.h"
#include "emu/emu.h"
#include "emu/memory/ipc.h"
#include "emu/usage.h"
#include "util/log.h"
#include "util/page.h"
#include "util/range.h"

CK_LOG_DEFINE("emu");

#define GRANULE 512ul /* alignment of device memory, and what sizes are rounded to */
/* The host keeps managed memory while the rest is evicted (evict.c), so it has pages of its own. */
#define GRANULE_OF(kind) ((kind) == CK_EMU_MEMORY_MANAGED ? PAGE : GRANULE)
/* As on a GPU, large pieces have pages of their own; programs count on the alignment. */
#define LARGE (1ul << 20)
#define LARGE_PAGE (2ul << 20)
#define PAGE ck_page()
#define SLACK 4 /* reserved addresses by bytes of memory */
/*
 * Where devices' stretches begin, if there is room: far from where the kernel puts mappings. A client has its
 * managed variables at the same addresses as the server's driver, so a program's own mappings must not be there.
 */
#define PLACE 0x600000000000ul
#define PLACE_STEP (1ul << 40)

struct arena {
	const struct ck_emu_device *device;
	uint64_t lo, hi;
	uint64_t next;		  /* where the search for room starts */
	size_t used, total;	  /* bytes */
	int file;		  /* -1: none, the memory is this process's alone */
	struct ck_ranges *ranges; /* of struct ck_emu_memory */
};

static pthread_rwlock_t ranges_lock = PTHREAD_RWLOCK_INITIALIZER; /* leaf */
static struct arena arenas[CK_EMU_MAX_DEVICES];
static int arena_count;
static struct ck_ranges *host; /* of struct ck_emu_memory */
static uint64_t last_id;

/* Addresses for device @i, with a file behind them where one can be had. */
static void *stretch_map(struct arena *arena, int i, size_t size)
{
	void *place = (void *)(PLACE + (uint64_t)i * PLACE_STEP); /* a hint */
	void *base = MAP_FAILED;

	arena->file = memfd_create("cricket device", MFD_CLOEXEC);
	if (arena->file >= 0 && ftruncate(arena->file, (off_t)size) == 0)
		base = mmap(place, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
			    arena->file, 0);
	if (base != MAP_FAILED)
		return base;
	ck_info("device memory cannot be shared with other processes: %m");
	if (arena->file >= 0)
		close(arena->file);
	arena->file = -1;
	return mmap(place, size, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

int ck_emu_arena_init(const struct ck_emu_device *devices, int count)
{
	host = ck_ranges_create();
	if (!host)
		return -ENOMEM;
	for (int i = 0; i < count; i++) {
		size_t size = CK_ALIGN_UP(devices[i].memory_total, PAGE) * SLACK;
		void *base = stretch_map(&arenas[i], i, size);

		if (base == MAP_FAILED) {
			ck_err("reserve %zu bytes of addresses for device %d: %m", size, i);
			return -ENOMEM;
		}
		arenas[i].lo = arenas[i].next = (uint64_t)base;
		arenas[i].hi = arenas[i].lo + size;
		arenas[i].device = &devices[i];
		arenas[i].total = devices[i].memory_total;
		arenas[i].ranges = ck_ranges_create();
		if (!arenas[i].ranges)
			return -ENOMEM;
	}
	arena_count = count;
	return 0;
}

/* A free stretch of @size bytes, a multiple of @granule, or 0. */
static uint64_t room_find(const struct arena *arena, size_t size, size_t granule)
{
	const uint64_t align = size >= LARGE ? LARGE_PAGE : granule;
	uint64_t lo = CK_ALIGN_UP(arena->next, align);

	if (lo + size <= arena->hi && !ck_ranges_overlap(arena->ranges, lo, lo + size))
		return lo;
	lo = CK_ALIGN_UP(arena->lo, align);
	for (size_t i = 0; i < ck_ranges_count(arena->ranges); i++) {
		const struct ck_range *range = ck_ranges_at(arena->ranges, i);

		if (lo + size <= range->lo)
			return lo;
		lo = CK_ALIGN_UP(range->hi, align);
	}
	return lo + size <= arena->hi ? lo : 0;
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

/* Lock held. False: the device has not so much left. */
static bool take(struct arena *arena, size_t size)
{
	if (size > arena->total - arena->used ||
	    !ck_emu_usage_claim(arena->device->number, arena->used + size, arena->total))
		return false;
	arena->used += size;
	return true;
}

/* Lock held. */
static void give(struct arena *arena, size_t size)
{
	arena->used -= size;
	ck_emu_usage_set(arena->device->number, arena->used);
}

/* Device memory as *@memory says, which gets its address: 0 when there is none left. */
static uint64_t alloc(struct ck_emu_memory *memory)
{
	struct arena *arena = &arenas[memory->device];
	size_t size = memory->size, rounded;

	if (size == 0 || size > arena->total)
		return 0;
	rounded = CK_ALIGN_UP(size, GRANULE_OF(memory->kind));
	pthread_rwlock_wrlock(&ranges_lock);
	/* a context that is going frees what it finds: do not slip in after that */
	if ((!memory->context || atomic_load(&memory->context->live)) && take(arena, rounded)) {
		memory->lo = room_find(arena, rounded, GRANULE_OF(memory->kind));
		if (memory->lo && range_enter(arena->ranges, memory) < 0)
			memory->lo = 0;
		if (memory->lo)
			arena->next = memory->lo + rounded;
		else
			give(arena, rounded);
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

	return alloc(&memory);
}

uint64_t ck_emu_arena_alloc_unbound(int device, size_t size, enum ck_emu_memory_kind kind,
				    const void *owner)
{
	struct ck_emu_memory memory = {
		.size = size, .kind = kind, .device = device, .owner = owner};

	return alloc(&memory);
}

/* Enter a range that is outside of the devices' own stretches. Write lock held. */
static int host_enter(struct ck_emu_memory *memory)
{
	uint64_t end = memory->lo + memory->size;

	for (int i = 0; i < arena_count; i++) {
		if (memory->lo < arenas[i].hi && end > arenas[i].lo)
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
static struct arena *arena_of(uint64_t address)
{
	for (int i = 0; i < arena_count; i++) {
		if (address >= arenas[i].lo && address < arenas[i].hi)
			return &arenas[i];
	}
	return NULL;
}

static const struct ck_emu_memory *find(uint64_t address)
{
	struct arena *arena = arena_of(address);
	const struct ck_range *range = ck_ranges_find(arena ? arena->ranges : host, address);

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
	struct arena *arena = &arenas[device];
	bool fits;

	pthread_rwlock_wrlock(&ranges_lock);
	fits = take(arena, size);
	pthread_rwlock_unlock(&ranges_lock);
	return fits;
}

void ck_emu_arena_give(int device, size_t size)
{
	pthread_rwlock_wrlock(&ranges_lock);
	give(&arenas[device], size);
	pthread_rwlock_unlock(&ranges_lock);
}

bool ck_emu_arena_covers(uint64_t address, size_t size)
{
	struct ck_emu_memory memory;
	size_t rest;

	for (;;) {
		/*
		 * the device's own heap is out of the host's reach, as on a device; so are arrays
		 */
		if (!ck_emu_arena_find(address, &memory) || memory.kind == CK_EMU_MEMORY_HEAP ||
		    memory.kind == CK_EMU_MEMORY_ARRAY || memory.retired)
			return false;
		if (memory.kind == CK_EMU_MEMORY_VIRTUAL && !memory.readers)
			return false;
		rest = memory.size - (address - memory.lo);
		if (size <= rest)
			return true;
		/* mappings side by side are one stretch of memory to their users */
		if (memory.kind != CK_EMU_MEMORY_VIRTUAL)
			return false;
		address += rest;
		size -= rest;
	}
}

/*
 * Give the pages of [@lo, @hi), which has just become free, back to the system: those that it
 * shares with neighbours too, when these are free as well.
 */
static void pages_release(struct arena *arena, uint64_t lo, uint64_t hi)
{
	uint64_t first = lo & ~(PAGE - 1), last = CK_ALIGN_UP(hi, PAGE);

	if (first < lo && ck_ranges_overlap(arena->ranges, first, lo))
		first += PAGE;
	if (hi < last && ck_ranges_overlap(arena->ranges, hi, last))
		last -= PAGE;
	if (first < last)
		madvise((void *)first, last - first,
			arena->file >= 0 ? MADV_REMOVE : MADV_DONTNEED);
}

/* Take a range out of its table; @memory is a copy of it. Write lock held. */
static void range_drop(const struct ck_emu_memory *memory)
{
	struct arena *arena = arena_of(memory->lo);
	size_t rounded = CK_ALIGN_UP(memory->size, GRANULE_OF(memory->kind));
	void *value = NULL;

	ck_ranges_remove(arena ? arena->ranges : host, memory->lo, &value);
	free(value);
	if (!arena)
		return;
	give(arena, rounded);
	if (memory->kind == CK_EMU_MEMORY_HEAP)
		atomic_fetch_sub(&memory->context->heap_used, memory->size);
	pages_release(arena, memory->lo, memory->lo + rounded);
	if (arena->next == memory->lo + rounded)
		arena->next = memory->lo;
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
	table_sweep(arenas[context->device->ordinal].ranges, context, owner);
	if (!owner)
		table_sweep(host, context, NULL);
	pthread_rwlock_unlock(&ranges_lock);
}

void ck_emu_arena_sweep_unbound(const void *owner)
{
	pthread_rwlock_wrlock(&ranges_lock);
	for (int i = 0; i < arena_count; i++)
		table_sweep(arenas[i].ranges, NULL, owner);
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

static bool is_hosts(enum ck_emu_memory_kind kind)
{
	return kind == CK_EMU_MEMORY_HOST || kind == CK_EMU_MEMORY_REGISTERED ||
	       kind == CK_EMU_MEMORY_MANAGED;
}

int ck_emu_arena_walk(int (*visit)(const struct ck_emu_memory *memory, int file, uint64_t offset))
{
	int ret = 0;

	pthread_rwlock_rdlock(&ranges_lock);
	for (int i = 0; i <= arena_count && ret == 0; i++) {
		const struct arena *arena = i < arena_count ? &arenas[i] : NULL;
		const struct ck_ranges *ranges = arena ? arena->ranges : host;

		for (size_t k = 0; k < ck_ranges_count(ranges) && ret == 0; k++) {
			const struct ck_emu_memory *memory = ck_ranges_at(ranges, k)->value;

			if (!is_hosts(memory->kind))
				ret = visit(memory, arena ? arena->file : -1,
					    arena ? memory->lo - arena->lo : 0);
		}
	}
	pthread_rwlock_unlock(&ranges_lock);
	return ret;
}

void ck_emu_arena_vacate(void)
{
	for (int i = 0; i < arena_count; i++)
		ck_emu_usage_set(arenas[i].device->number, 0);
}

bool ck_emu_arena_reclaim(void)
{
	int i = 0;

	ck_emu_usage_rejoin();
	while (i < arena_count &&
	       ck_emu_usage_claim(arenas[i].device->number, arenas[i].used, arenas[i].total))
		i++;
	if (i < arena_count)
		ck_emu_arena_vacate();
	return i == arena_count;
}

int ck_emu_arena_file(int device)
{
	return arenas[device].file;
}

uint64_t ck_emu_arena_offset(int device, uint64_t address)
{
	return address - arenas[device].lo;
}

void ck_emu_arena_info(const struct ck_emu_device *device, size_t *used)
{
	pthread_rwlock_rdlock(&ranges_lock);
	*used = arenas[device->ordinal].used + ck_emu_usage_others(device->number);
	pthread_rwlock_unlock(&ranges_lock);
}
