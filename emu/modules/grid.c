/*
 * emu/modules/grid.c - requests of a running grid to the driver: memory it may touch, text, a heap,
 * the conditions of graphs, and whether to stop.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "emu/memory/arena.h"
#include "emu/modules/function.h"
#include "emu/core/hooks.h"
#include "emu/memory/texture.h"
#include "util/env.h"
#include "util/log.h"

CK_LOG_DEFINE("emu");

static int grid_range(void *opaque, uint64_t address, uint64_t *lo, uint64_t *hi)
{
	struct ck_emu_memory memory;

	if (!ck_emu_arena_find(address, &memory) || memory.kind == CK_EMU_MEMORY_ARRAY ||
	    !ck_emu_memory_usable(&memory, opaque))
		return -EFAULT;
	*lo = memory.lo;
	*hi = memory.lo + memory.size;
	return 0;
}

/* An address far behind an allocation is not compared with it. */
#define NEAR ((uint64_t)16 << 20)

static void grid_describe(void *opaque, uint64_t address, char *text, size_t size)
{
	struct ck_emu_memory memory;
	uint64_t end;

	(void)opaque;
	text[0] = '\0';
	if (!ck_emu_arena_find_before(address, &memory) || memory.kind == CK_EMU_MEMORY_ARRAY)
		return;
	end = memory.lo + memory.size;
	if (address < end)
		snprintf(text, size, ", %llu bytes into an allocation of %zu bytes at %#llx",
			 (unsigned long long)(address - memory.lo), memory.size,
			 (unsigned long long)memory.lo);
	else if (address - end < NEAR)
		snprintf(text, size,
			 ", %llu bytes after the end of an allocation of %zu bytes at "
			 "%#llx",
			 (unsigned long long)(address - end), memory.size,
			 (unsigned long long)memory.lo);
}

static void grid_print(void *opaque, const char *text, size_t size)
{
	ck_emu_print(opaque, text, size);
}

/* At once, to stderr, as the hardware's driver does. */
static void grid_complain(void *opaque, const char *text, size_t size)
{
	(void)opaque;
	fwrite(text, 1, size, stderr);
}

static uint64_t grid_alloc(void *opaque, size_t size)
{
	struct ck_emu_context *context = opaque;
	size_t limit = atomic_load(&context->limits[CU_LIMIT_MALLOC_HEAP_SIZE]);
	uint64_t address;

	if (size == 0 || size > limit)
		return 0;
	if (atomic_fetch_add(&context->heap_used, size) + size > limit) {
		atomic_fetch_sub(&context->heap_used, size);
		return 0;
	}
	address = ck_emu_arena_alloc(context, size, CK_EMU_MEMORY_HEAP, NULL);
	if (!address)
		atomic_fetch_sub(&context->heap_used, size);
	return address;
}

static void grid_free(void *opaque, uint64_t address)
{
	struct ck_emu_memory memory;

	(void)opaque;
	/* a pointer that malloc did not give is ignored */
	ck_emu_arena_remove(address, CK_EMU_MEMORY_HEAP, &memory);
}

static void grid_set_condition(void *opaque, uint64_t handle, uint32_t value)
{
	(void)opaque;
	ck_emu_hooks->graph_condition_set(handle, value);
}

/* An object outlives the work queued before its destruction, so it needs no reference here. */
static const struct ck_ptx_texture *grid_texture(void *opaque, uint64_t object, bool surface)
{
	const struct ck_emu_context *context = opaque;
	struct ck_emu_texture *texture = ck_emu_object_get(
		(const void *)(uintptr_t)object, surface ? CK_EMU_SURFACE : CK_EMU_TEXTURE);
	bool ours;

	if (!texture)
		return NULL;
	ours = texture->base.context == context;
	ck_emu_object_put(&texture->base);
	return ours ? &texture->texture : NULL;
}

static bool grid_cancelled(void *opaque)
{
	const struct ck_emu_context *context = opaque;

	return atomic_load_explicit(&context->cancelled, memory_order_relaxed) || ck_emu_exiting();
}

/* As many threads as there are processors for us, or as CRICKET_EMU=threads=N says, less the
 * caller.
 */
static unsigned int count_helpers(void)
{
	long wanted = ck_env_word_number("CRICKET_EMU", "threads");
	cpu_set_t set;

	if (wanted > 0)
		return (unsigned int)ck_min(wanted, 256l) - 1;
	if (sched_getaffinity(0, sizeof(set), &set) < 0)
		return 0;
	return (unsigned int)ck_max(CPU_COUNT(&set), 1) - 1;
}

static unsigned int find_checks(void)
{
	static const struct {
		const char *name;
		unsigned int value;
	} words[] = {{"race", CK_PTX_CHECK_RACE},
		     {"init", CK_PTX_CHECK_INIT},
		     {"count", CK_PTX_CHECK_COUNT}};
	unsigned int found = 0;

	for (size_t i = 0; i < CK_ARRAY_SIZE(words); i++)
		found |= ck_emu_check_asked(words[i].name) ? words[i].value : 0;
	return found;
}

static unsigned int helpers_found, checks_found;

static void find_settings(void)
{
	helpers_found = count_helpers();
	checks_found = find_checks();
}

void ck_emu_grid_host(struct ck_emu_context *context, struct ck_ptx_host *host)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, find_settings);
	*host = (struct ck_ptx_host){
		.opaque = context,
		.range = grid_range,
		.describe = grid_describe,
		.print = grid_print,
		.complain = grid_complain,
		.alloc = grid_alloc,
		.free = grid_free,
		.set_condition = grid_set_condition,
		.texture = grid_texture,
		.cancelled = grid_cancelled,
		.stack = (uint32_t)atomic_load(&context->limits[CU_LIMIT_STACK_SIZE]),
		.threads = helpers_found,
		.check = checks_found,
	};
}
