/*
 * emu/memory/memory_access.c - the memory that a context may use, and the permitted uses.
 *
 * Measured on two H100s with driver 580: a copy finds memory of cuMemAlloc on any device, a fill or
 * a kernel needs peer access to it. Mapped memory and that of pools needs access for the context's
 * device in every case, except in copies that name a context for each end.
 */
#include "emu/memory/arena.h"

static unsigned int get_device_bit(const struct ck_emu_context *context)
{
	return 1u << context->device->ordinal;
}

/* Memory whose access is set by itself. */
static bool has_access(const struct ck_emu_memory *memory)
{
	return memory->kind == CK_EMU_MEMORY_VIRTUAL || memory->kind == CK_EMU_MEMORY_POOL;
}

static bool is_of_all(const struct ck_emu_memory *memory)
{
	return memory->kind == CK_EMU_MEMORY_HOST || memory->kind == CK_EMU_MEMORY_REGISTERED ||
	       memory->kind == CK_EMU_MEMORY_MANAGED;
}

static bool is_peer(const struct ck_emu_memory *memory, const struct ck_emu_context *context)
{
	return memory->device != context->device->ordinal &&
	       atomic_load(&context->peers) & 1u << memory->device;
}

bool ck_emu_memory_copyable(const struct ck_emu_memory *memory,
			    const struct ck_emu_context *context)
{
	return !has_access(memory) || memory->readers & get_device_bit(context);
}

bool ck_emu_memory_fillable(const struct ck_emu_memory *memory,
			    const struct ck_emu_context *context)
{
	if (has_access(memory))
		return memory->writers & get_device_bit(context);
	return is_of_all(memory) || memory->device == context->device->ordinal ||
	       is_peer(memory, context);
}

bool ck_emu_memory_usable(const struct ck_emu_memory *memory, const struct ck_emu_context *context)
{
	if (has_access(memory))
		return memory->readers & get_device_bit(context);
	return is_of_all(memory) || memory->context == context || is_peer(memory, context);
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
