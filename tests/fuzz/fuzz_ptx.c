/*
 * tests/fuzz/fuzz_ptx.c - the PTX interpreter on text nobody vouches for: parse, place, and run
 * the first kernel on a small grid until its patience ends.
 */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "emu/ptx/language/ptx.h"
#include "tests/fuzz/standalone.h"

#define MEMORY (64u << 10) /* all that the module's variables get */
#define TURNS 24	   /* slices of warps before the kernel is cancelled */

struct world {
	uint8_t *memory;
	size_t used;
	unsigned int turns;
	char *printed; /* one byte past the text is out of bounds */
};

static uint64_t place(void *opaque, struct ck_ptx_room *room)
{
	struct world *w = opaque;
	size_t at = (w->used + room->align - 1) & ~(room->align - 1);

	if (room->size > MEMORY || at > MEMORY - room->size)
		return 0;
	w->used = at + room->size;
	return (uint64_t)(uintptr_t)(w->memory + at);
}

static int no_range(void *opaque, uint64_t address, uint64_t *lo, uint64_t *hi)
{
	(void)opaque;
	(void)address;
	(void)lo;
	(void)hi;
	return -EFAULT;
}

static void print(void *opaque, const char *text, size_t size)
{
	struct world *w = opaque;

	free(w->printed);
	w->printed = malloc(size ? size : 1);
	if (w->printed)
		memcpy(w->printed, text, size);
}

static bool cancelled(void *opaque)
{
	struct world *w = opaque;

	return ++w->turns > TURNS;
}

static void run_first(const struct ck_ptx_module *module, struct world *world)
{
	const struct ck_ptx_kernel *kernel = ck_ptx_kernel_at(module, 0);
	const struct ck_ptx_host host = {
		.opaque = world, .range = no_range, .print = print, .cancelled = cancelled};
	struct ck_ptx_grid grid = {
		.grid = {2, 1, 1}, .block = {40, 1, 1}, .dynamic_shared = 64, .cooperative = true};
	struct ck_ptx_kernel_info info;
	uint8_t *params;

	if (!kernel)
		return;
	ck_ptx_kernel_info(kernel, &info);
	params = calloc(1, info.param_bytes + 1);
	if (params)
		ck_ptx_run(kernel, &grid, params, &host);
	free(params);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct world world = {.memory = aligned_alloc(4096, MEMORY)};
	struct ck_ptx_module *module;
	char log[128];

	if (!world.memory)
		return 0;
	memset(world.memory, 0, MEMORY);
	if (ck_ptx_parse((const char *)data, size, log, sizeof(log), &module) == 0) {
		if (ck_ptx_place(module, place, &world) == 0)
			run_first(module, &world);
		ck_ptx_destroy(module);
	}
	free(world.printed);
	free(world.memory);
	return 0;
}
