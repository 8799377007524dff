/*
 * tests/unit/ptx_world.h - a device's memory and a host for kernels of the PTX tests.
 *
 * One arena is all the memory there is; what lies outside it is a wild address.
 */
#ifndef CK_TESTS_PTX_WORLD_H
#define CK_TESTS_PTX_WORLD_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "emu/ptx/language/ptx.h"

#define HEAD ".version 8.0\n.target sm_90\n.address_size 64\n"
/* A kernel with one pointer, in %out, and plenty of registers. */
#define KERNEL                                                                                     \
	".visible .entry k(.param .u64 out) {\n"                                                   \
	".reg .pred %p<9>; .reg .b16 %h<9>; .reg .b32 %r<30>; .reg .b64 %d<30>;\n"                 \
	".reg .f32 %f<9>; .reg .f64 %e<9>; .reg .b64 %out, %at; .reg .b32 %t;\n"                   \
	"ld.param.u64 %out, [out];\n"                                                              \
	"mov.u32 %t, %tid.x;\n"                                                                    \
	"mad.wide.u32 %at, %t, 4, %out;\n"
#define END "ret;\n}\n"

#define ARENA (1u << 20)

struct ptx_world {
	uint8_t arena[ARENA] __attribute__((aligned(4096)));
	size_t used;
	char printed[4096];
	size_t printed_size;
	unsigned int turns, patience; /* slices until cancelled; patience 0: never */
	unsigned int allocated;
};

static struct ptx_world world;

static uint64_t world_take(size_t size, size_t align)
{
	world.used = (world.used + align - 1) & ~(align - 1);
	if (size > ARENA - world.used)
		return 0;
	world.used += size;
	return (uint64_t)(uintptr_t)(world.arena + world.used - size);
}

static uint64_t world_place(void *opaque, struct ck_ptx_room *room)
{
	(void)opaque;
	return world_take(room->size, room->align);
}

static int world_range(void *opaque, uint64_t address, uint64_t *lo, uint64_t *hi)
{
	uint64_t start = (uint64_t)(uintptr_t)world.arena;

	(void)opaque;
	if (address < start || address >= start + ARENA)
		return -EFAULT;
	*lo = start;
	*hi = start + ARENA;
	return 0;
}

static void world_print(void *opaque, const char *text, size_t size)
{
	(void)opaque;
	assert_true(world.printed_size + size < sizeof(world.printed));
	memcpy(world.printed + world.printed_size, text, size);
	world.printed_size += size;
	world.printed[world.printed_size] = '\0';
}

static uint64_t world_alloc(void *opaque, size_t size)
{
	(void)opaque;
	world.allocated++;
	return world_take(size, 16);
}

static void world_free(void *opaque, uint64_t address)
{
	(void)opaque;
	(void)address;
	world.allocated--;
}

static bool world_cancelled(void *opaque)
{
	(void)opaque;
	return world.patience && ++world.turns > world.patience;
}

static const struct ck_ptx_host world_host = {
	.range = world_range,
	.print = world_print,
	.complain = world_print,
	.alloc = world_alloc,
	.free = world_free,
	.cancelled = world_cancelled,
};

/* Exactly the bytes of the text, so that ASan sees a read beyond them. */
static int text_parse(const char *text, char *log, size_t log_size, struct ck_ptx_module **module)
{
	size_t size = strlen(text);
	char *exact = malloc(size ? size : 1);
	int ret;

	assert_non_null(exact);
	memcpy(exact, text, size);
	ret = ck_ptx_parse(exact, size, log, log_size, module);
	free(exact);
	return ret;
}

/* The module of @text, placed in a fresh arena. */
static struct ck_ptx_module *module_of(const char *text)
{
	struct ck_ptx_module *module;
	char log[200];
	int ret;

	memset(&world, 0, sizeof(world));
	ret = text_parse(text, log, sizeof(log), &module);
	if (ret < 0)
		fail_msg("%s", log);
	assert_int_equal(ck_ptx_place(module, world_place, NULL), 0);
	return module;
}

/* Where kernel k finds its output: the upper half of the arena. */
static uint32_t *output(void)
{
	return (uint32_t *)(void *)(world.arena + ARENA / 2);
}

static CUresult launch(const struct ck_ptx_module *module, unsigned int blocks,
		       unsigned int threads)
{
	struct ck_ptx_grid grid = {{blocks, 1, 1}, {threads, 1, 1}, 0, false, {0}};
	uint64_t params[4] = {(uint64_t)(uintptr_t)output()};

	return ck_ptx_run(ck_ptx_kernel_find(module, "k"), &grid, params, &world_host);
}

/* Parse, run kernel k with one block of @threads, forget the module. */
static __attribute__((unused)) CUresult run_text(const char *text, unsigned int threads)
{
	struct ck_ptx_module *module = module_of(text);
	CUresult result = launch(module, 1, threads);

	ck_ptx_destroy(module);
	return result;
}

#endif
