/*
 * tests/unit/test_client_answer_store.c - what one session learns, the next one does not ask; and
 * whatever could change an answer is asked for.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "client/memory/arena.h"
#include "client/modules/state.h"
#include "tests/unit/client_peer.h"
#include "tests/unit/elf_data.h"
#include "util/map.h"

static CUmodule module;
static CUfunction bounded, mixed;
static char kept[4096]; /* as the server keeps it */
static size_t kept_size;

static CUresult answer(const struct peer_message *m, void *res, struct peer_payload *payload)
{
	(void)payload;
	if (m->number == CK_PROC_cuFuncGetAttribute)
		((cuFuncGetAttribute_res *)res)->pi =
			40 + (int)((const cuFuncGetAttribute_args *)m->args)->attrib;
	if (m->number == CK_PROC_cuOccupancyAvailableDynamicSMemPerBlock)
		((cuOccupancyAvailableDynamicSMemPerBlock_res *)res)->dynamicSmemSize =
			0x123456789abcull;
	if (m->number == CK_PROC_cuMemAddressReserve)
		((cuMemAddressReserve_res *)res)->ptr = ((cuMemAddressReserve_args *)m->args)->addr;
	if (m->number == CK_PROC_lease_quiet)
		((ck_lease_quiet_res *)res)->over = 1;
	if (m->number == CK_PROC_cuFuncSetAttribute &&
	    ((const cuFuncSetAttribute_args *)m->args)->value < 0)
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

static void load(void)
{
	struct elf_data data = elf_data_read("sm_90.cubin");

	assert_int_equal(cuModuleLoadData(&module, data.bytes), CUDA_SUCCESS);
	assert_int_equal(cuModuleGetFunction(&bounded, module, "bounded"), CUDA_SUCCESS);
	assert_int_equal(cuModuleGetFunction(&mixed, module, "mixed_args"), CUDA_SUCCESS);
	elf_data_free(&data);
}

/* The program ends and starts anew: its ids differ, and the server sends what it has kept. */
static void restart(void)
{
	struct ckc_client *c = ckc_client_current();

	for (size_t i = 0;; i++) {
		const ck_learned_args *a = peer_args(CK_PROC_learned, i);

		if (!a)
			break;
		assert_int_equal(a->answers.answers_len, CK_ANSWER);
		memcpy(kept + kept_size, a->answers.answers_val, CK_ANSWER);
		kept_size += CK_ANSWER;
	}
	cuModuleUnload(module);
	ck_map_destroy(c->modules->recall.answers);
	c->modules->recall = (struct ckc_recall){.lock = c->modules->recall.lock};
	c->offers.recalled.recalled_val = kept;
	c->offers.recalled.recalled_len = (u_int)kept_size;
	c->answers.altered = false;
	load();
	peer_clear();
}

static int begin(void **state)
{
	(void)state;
	kept_size = 0;
	restart();
	kept_size = 0;
	ckc_client_current()->offers.recalled.recalled_len = 0;
	return 0;
}

/* An attribute, and how often the server was asked for it. */
static size_t asks(CUfunction f, CUfunction_attribute attribute)
{
	size_t before = peer_count(CK_PROC_cuFuncGetAttribute);
	int value = 0;

	assert_int_equal(cuFuncGetAttribute(&value, attribute, f), CUDA_SUCCESS);
	assert_int_equal(value, 40 + attribute);
	return peer_count(CK_PROC_cuFuncGetAttribute) - before;
}

static void what_one_session_asks_the_next_one_knows(void **state)
{
	size_t size = 0;

	(void)state;
	assert_int_equal(asks(bounded, CU_FUNC_ATTRIBUTE_NUM_REGS), 1);
	assert_int_equal(cuOccupancyAvailableDynamicSMemPerBlock(&size, bounded, 1, 32),
			 CUDA_SUCCESS);
	assert_int_equal(peer_count(CK_PROC_learned), 2);
	restart();
	assert_int_equal(asks(bounded, CU_FUNC_ATTRIBUTE_NUM_REGS), 0);
	size = 0;
	assert_int_equal(cuOccupancyAvailableDynamicSMemPerBlock(&size, bounded, 1, 32),
			 CUDA_SUCCESS);
	assert_int_equal(size, 0x123456789abcull);
	assert_int_equal(peer_count(CK_PROC_cuOccupancyAvailableDynamicSMemPerBlock), 0);
	assert_int_equal(peer_count(CK_PROC_learned), 0);
}

static void limits_are_known_until_one_is_set(void **state)
{
	size_t size;

	(void)state;
	assert_int_equal(cuCtxGetLimit(&size, CU_LIMIT_STACK_SIZE), CUDA_SUCCESS);
	restart();
	assert_int_equal(cuCtxGetLimit(&size, CU_LIMIT_STACK_SIZE), CUDA_SUCCESS);
	assert_int_equal(peer_count(CK_PROC_cuCtxGetLimit), 0);
	restart();
	assert_int_equal(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 4096), CUDA_SUCCESS);
	assert_int_equal(cuCtxGetLimit(&size, CU_LIMIT_STACK_SIZE), CUDA_SUCCESS);
	assert_int_equal(peer_count(CK_PROC_cuCtxGetLimit), 1);
}

static void another_kernel_attribute_or_size_is_another_question(void **state)
{
	size_t size;

	(void)state;
	asks(bounded, CU_FUNC_ATTRIBUTE_NUM_REGS);
	cuOccupancyAvailableDynamicSMemPerBlock(&size, bounded, 1, 32);
	restart();
	assert_int_equal(asks(mixed, CU_FUNC_ATTRIBUTE_NUM_REGS), 1);
	assert_int_equal(asks(bounded, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES), 1);
	cuOccupancyAvailableDynamicSMemPerBlock(&size, bounded, 1, 64);
	assert_int_equal(peer_count(CK_PROC_cuOccupancyAvailableDynamicSMemPerBlock), 1);
}

static void an_attribute_that_is_set_makes_other_questions(void **state)
{
	const CUfunction_attribute shared = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;

	(void)state;
	asks(bounded, CU_FUNC_ATTRIBUTE_NUM_REGS);
	restart();
	assert_int_equal(cuFuncSetAttribute(bounded, shared, 1000), CUDA_SUCCESS);
	assert_int_equal(asks(bounded, CU_FUNC_ATTRIBUTE_NUM_REGS), 1);
	restart();
	assert_int_equal(cuFuncSetAttribute(bounded, shared, 2000), CUDA_SUCCESS);
	assert_int_equal(asks(bounded, CU_FUNC_ATTRIBUTE_NUM_REGS), 1);
}

static void a_value_that_was_accepted_is_set_one_way(void **state)
{
	const CUfunction_attribute shared = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;

	(void)state;
	assert_int_equal(cuFuncSetAttribute(bounded, shared, 1000), CUDA_SUCCESS);
	assert_int_equal(peer_count(CK_PROC_cuFuncSetAttribute), 1);
	restart();
	assert_int_equal(cuFuncSetAttribute(bounded, shared, 1000), CUDA_SUCCESS);
	assert_int_equal(peer_count(CK_PROC_cuFuncSetAttribute), 0);
	assert_int_equal(peer_count(CK_PROC_set_attribute), 1);
	assert_int_equal(cuFuncSetAttribute(bounded, shared, -5), CUDA_ERROR_INVALID_VALUE);
	restart();
	assert_int_equal(cuFuncSetAttribute(bounded, shared, -5), CUDA_ERROR_INVALID_VALUE);
}

static void a_setting_of_the_context_ends_it(void **state)
{
	(void)state;
	asks(bounded, CU_FUNC_ATTRIBUTE_NUM_REGS);
	restart();
	assert_int_equal(cuCtxSetCacheConfig(CU_FUNC_CACHE_PREFER_L1), CUDA_SUCCESS);
	assert_int_equal(asks(bounded, CU_FUNC_ATTRIBUTE_NUM_REGS), 1);
	assert_int_equal(peer_count(CK_PROC_learned), 0);
}

static void a_preference_of_a_kernel_ends_it(void **state)
{
	(void)state;
	asks(bounded, CU_FUNC_ATTRIBUTE_NUM_REGS);
	restart();
	assert_int_equal(cuFuncSetCacheConfig(bounded, CU_FUNC_CACHE_PREFER_L1), CUDA_SUCCESS);
	assert_int_equal(asks(bounded, CU_FUNC_ATTRIBUTE_NUM_REGS), 1);
}

/* PTX is a string. */
static struct elf_data text_read(const char *name)
{
	struct elf_data data = elf_data_read(name);

	data.bytes = realloc(data.bytes, data.size + 1);
	assert_non_null(data.bytes);
	data.bytes[data.size] = '\0';
	return data;
}

static void text_that_has_compiled_is_compiled_one_way(void **state)
{
	struct elf_data data = text_read("kernels.ptx");
	CUjit_option option = CU_JIT_MAX_REGISTERS;
	void *value = (void *)(uintptr_t)32;
	CUmodule ptx;

	(void)state;
	for (int i = 0; i < 2; i++) {
		assert_int_equal(cuModuleLoadData(&ptx, data.bytes), CUDA_SUCCESS);
		assert_int_equal(peer_count(CK_PROC_module_build), i == 0);
		cuModuleUnload(ptx);
		restart();
	}
	/* options make other code of it, and other answers */
	assert_int_equal(cuModuleLoadDataEx(&ptx, data.bytes, 1, &option, &value), CUDA_SUCCESS);
	assert_int_equal(peer_count(CK_PROC_module_build), 1);
	assert_int_equal(peer_count(CK_PROC_learned), 0);
	cuModuleUnload(ptx);
	elf_data_free(&data);
}

/* Allocate, and wait until the client has what it wants to have free. */
static CUdeviceptr take(size_t size)
{
	CUdeviceptr at = 0;

	assert_int_equal(cuMemAlloc_v2(&at, size), CUDA_SUCCESS);
	ckc_arena_idle(ckc_client_current(), 0); /* waits for it */
	return at;
}

static void memory_that_one_session_has_used_the_next_one_leases_at_once(void **state)
{
	const size_t piece = (size_t)32 << 20, count = 20;
	struct ckc_arena *arena = &ckc_client_current()->memory->arena;
	const ck_lease_args *lease;
	CUdeviceptr at[20];

	(void)state;
	ckc_client_current()->offers.lease_size = piece; /* the server gives leases in advance */
	for (size_t i = 0; i < count; i++)
		at[i] = take(piece);
	assert_int_equal(peer_count(CK_PROC_learned), 6); /* 256 to 640 MiB */
	for (size_t i = 0; i < count; i++)
		assert_int_equal(cuMemFree_v2(at[i]), CUDA_SUCCESS);
	ckc_arena_shed(0, 0, true); /* a client at rest has done so on its own */
	restart();
	ckc_cache_clear();
	arena->devices[0].recalled = false;
	arena->devices[0].level = 0;
	at[0] = take(1000); /* waits for its lease */
	at[1] = take(1000);
	lease = peer_args(CK_PROC_lease, 1);
	assert_non_null(lease);
	assert_in_range(lease->size, piece * 22, piece * 24);
	ckc_client_current()->offers.lease_size = 0;
	assert_int_equal(peer_count(CK_PROC_learned), 0);
}

static int group_begin(void **state)
{
	peer.call = answer;
	if (peer_begin(state) < 0)
		return -1;
	load();
	return 0;
}

static int group_end(void **state)
{
	cuModuleUnload(module);
	ckc_client_current()->offers.recalled.recalled_len = 0;
	ckc_client_current()->offers.recalled.recalled_val = NULL;
	return peer_end(state);
}

#define recall_test(name) cmocka_unit_test_setup(name, begin)

int main(void)
{
	const struct CMUnitTest tests[] = {
		recall_test(what_one_session_asks_the_next_one_knows),
		recall_test(limits_are_known_until_one_is_set),
		recall_test(another_kernel_attribute_or_size_is_another_question),
		recall_test(an_attribute_that_is_set_makes_other_questions),
		recall_test(a_value_that_was_accepted_is_set_one_way),
		recall_test(a_setting_of_the_context_ends_it),
		recall_test(a_preference_of_a_kernel_ends_it),
		recall_test(text_that_has_compiled_is_compiled_one_way),
		recall_test(memory_that_one_session_has_used_the_next_one_leases_at_once),
	};

	return cmocka_run_group_tests(tests, group_begin, group_end);
}
