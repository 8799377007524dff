/*
 * tests/unit/test_client_cache.c - answers that the client keeps: each is asked for once, and again
 * after every call that may change it.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/client_peer.h"
#include "tests/unit/elf_data.h"

#define FIRST_POOL (1ull << 32) /* an id that the server gives to a pool that it tells of */

static int truth = 1; /* what the driver answers to everything */
static CUmodule module;
static CUfunction function;
static CUmemoryPool pool;

#define ANSWER(name, field)                                                                        \
	case PROC_##name:                                                                          \
		((name##_res *)res)->field = (unsigned)truth;                                      \
		break

static CUresult answer(const struct peer_message *m, void *res, struct peer_payload *payload)
{
	(void)payload;
	switch (m->number) {
		ANSWER(cuCtxGetLimit, pvalue);
		ANSWER(cuCtxGetCacheConfig, pconfig);
		ANSWER(cuCtxGetSharedMemConfig, pConfig);
		ANSWER(cuFuncGetAttribute, pi);
		ANSWER(cuOccupancyMaxActiveBlocksPerMultiprocessor, numBlocks);
		ANSWER(cuOccupancyAvailableDynamicSMemPerBlock, dynamicSmemSize);
		ANSWER(ck_cluster, value);
		ANSWER(ck_pool_attribute, result);
		ANSWER(cuMemGetAllocationGranularity, granularity);
		ANSWER(cuMemGetInfo_v2, free);
	case CK_PROC_cuDeviceGetMemPool:
		((cuDeviceGetMemPool_res *)res)->pool = FIRST_POOL + (unsigned)truth;
		break;
	case CK_PROC_cuDeviceGetDefaultMemPool:
		((cuDeviceGetDefaultMemPool_res *)res)->pool_out = FIRST_POOL;
		break;
	}
	return CUDA_SUCCESS;
}

static int begin(void **state)
{
	struct elf_data data;
	CUresult err;

	peer.call = answer;
	setenv("CRICKET_DEBUG", "no-arena", 1); /* all memory is the server's to know */
	if (peer_begin(state) < 0)
		return -1;
	data = elf_data_read("sm_90.cubin");
	err = cuModuleLoadData(&module, data.bytes);
	elf_data_free(&data);
	if (!err)
		err = cuModuleGetFunction(&function, module, "bounded");
	if (!err)
		err = cuDeviceGetDefaultMemPool(&pool, 0);
	return (int)err;
}

static int end(void **state)
{
	cuModuleUnload(module);
	return peer_end(state);
}

static int clear(void **state)
{
	(void)state;
	peer_clear();
	ckc_cache_clear();
	truth = 1;
	return 0;
}

/* --- questions: each gives the driver's answer as a number */

static uint64_t limit(void)
{
	size_t value = 0;

	assert_int_equal(cuCtxGetLimit(&value, CU_LIMIT_STACK_SIZE), CUDA_SUCCESS);
	return value;
}

static uint64_t cache_config(void)
{
	CUfunc_cache value = 0;

	assert_int_equal(cuCtxGetCacheConfig(&value), CUDA_SUCCESS);
	return value;
}

static uint64_t shared_config(void)
{
	CUsharedconfig value = 0;

	assert_int_equal(cuCtxGetSharedMemConfig(&value), CUDA_SUCCESS);
	return value;
}

static uint64_t attribute(void)
{
	int value = 0;

	assert_int_equal(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, function),
			 CUDA_SUCCESS);
	return (uint64_t)value;
}

static uint64_t occupancy(void)
{
	int value = 0;

	assert_int_equal(cuOccupancyMaxActiveBlocksPerMultiprocessor(&value, function, 128, 1000),
			 CUDA_SUCCESS);
	return (uint64_t)value;
}

static uint64_t dynamic_shared(void)
{
	size_t value = 0;

	assert_int_equal(cuOccupancyAvailableDynamicSMemPerBlock(&value, function, 2, 128),
			 CUDA_SUCCESS);
	return value;
}

static uint64_t clusters_of(unsigned int block)
{
	CUlaunchAttribute cluster = {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
				     .value.clusterDim = {2, 1, 1}};
	CUlaunchConfig config = {.gridDimX = 4,
				 .gridDimY = 1,
				 .gridDimZ = 1,
				 .blockDimX = block,
				 .blockDimY = 1,
				 .blockDimZ = 1,
				 .attrs = &cluster,
				 .numAttrs = 1};
	int value = 0;

	assert_int_equal(cuOccupancyMaxActiveClusters(&value, function, &config), CUDA_SUCCESS);
	return (uint64_t)value;
}

static uint64_t clusters(void)
{
	return clusters_of(64);
}

static uint64_t pool_value(CUmemPool_attribute which)
{
	cuuint64_t value = 0;

	assert_int_equal(cuMemPoolGetAttribute(pool, which, &value), CUDA_SUCCESS);
	return value;
}

static uint64_t threshold(void)
{
	return pool_value(CU_MEMPOOL_ATTR_RELEASE_THRESHOLD);
}

static uint64_t used(void)
{
	return pool_value(CU_MEMPOOL_ATTR_USED_MEM_CURRENT);
}

static uint64_t current_pool(void)
{
	CUmemoryPool found = NULL;

	assert_int_equal(cuDeviceGetMemPool(&found, 0), CUDA_SUCCESS);
	return ((struct ckc_object *)found)->id - FIRST_POOL;
}

static uint64_t granularity(void)
{
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				    .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	size_t value = 0;

	assert_int_equal(
		cuMemGetAllocationGranularity(&value, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
		CUDA_SUCCESS);
	return value;
}

static uint64_t free_memory(void)
{
	size_t value = 0, total;

	assert_int_equal(cuMemGetInfo_v2(&value, &total), CUDA_SUCCESS);
	return value;
}

/* --- changes */

static void set_limit(void)
{
	assert_int_equal(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 4096), CUDA_SUCCESS);
}

static void set_cache_config(void)
{
	assert_int_equal(cuCtxSetCacheConfig(CU_FUNC_CACHE_PREFER_L1), CUDA_SUCCESS);
}

static void set_shared_config(void)
{
	assert_int_equal(cuCtxSetSharedMemConfig(CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE),
			 CUDA_SUCCESS);
}

static void preferences_that_do_not_exist_are_refused(void **state)
{
	(void)state;
	assert_int_equal(cuCtxSetCacheConfig(CU_FUNC_CACHE_PREFER_EQUAL + 1),
			 CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuFuncSetCacheConfig(function, CU_FUNC_CACHE_PREFER_EQUAL + 1),
			 CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuCtxSetSharedMemConfig(CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE + 1),
			 CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(
		cuFuncSetSharedMemConfig(function, CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE + 1),
		CUDA_ERROR_INVALID_VALUE);
}

/* The client answers cuStreamGetPriority. */
static void a_stream_has_the_priority_that_it_was_given_last(void **state)
{
	CUstreamAttrValue value = {.priority = -99};
	CUstream a, b;
	int priority;

	(void)state;
	assert_int_equal(cuStreamCreate(&a, 0), CUDA_SUCCESS);
	assert_int_equal(cuStreamCreate(&b, 0), CUDA_SUCCESS);
	assert_int_equal(cuStreamSetAttribute(a, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value), 0);
	assert_int_equal(cuStreamGetPriority(a, &priority), CUDA_SUCCESS);
	assert_int_equal(priority, -5);
	assert_int_equal(cuStreamCopyAttributes(b, a), CUDA_SUCCESS);
	assert_int_equal(cuStreamGetPriority(b, &priority), CUDA_SUCCESS);
	assert_int_equal(priority, -5);
	cuStreamDestroy_v2(a);
	cuStreamDestroy_v2(b);
}

static void set_attribute(void)
{
	static int value;

	assert_int_equal(cuFuncSetAttribute(function,
					    CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
					    ++value),
			 CUDA_SUCCESS);
}

static void set_threshold(void)
{
	cuuint64_t value = 1 << 20;

	assert_int_equal(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &value),
			 CUDA_SUCCESS);
}

static void set_pool(void)
{
	assert_int_equal(cuDeviceSetMemPool(0, pool), CUDA_SUCCESS);
}

static void set_pool_by_location(void)
{
	CUmemLocation location = {.type = CU_MEM_LOCATION_TYPE_DEVICE};

	assert_int_equal(cuMemSetMemPool(&location, CU_MEM_ALLOCATION_TYPE_PINNED, pool),
			 CUDA_SUCCESS);
}

static void destroy_pool(void)
{
	CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	CUmemoryPool own;

	assert_int_equal(cuMemPoolCreate(&own, &props), CUDA_SUCCESS);
	assert_int_equal(cuMemPoolDestroy(own), CUDA_SUCCESS);
}

static void unload_a_module(void)
{
	struct elf_data data = elf_data_read("sm_90.cubin");
	CUmodule other;

	assert_int_equal(cuModuleLoadData(&other, data.bytes), CUDA_SUCCESS);
	elf_data_free(&data);
	assert_int_equal(cuModuleUnload(other), CUDA_SUCCESS);
}

static const struct {
	const char *name;
	uint32_t message;
	uint64_t (*ask)(void);
	void (*changes[4])(void);
} kept[] = {
	{"limit", CK_PROC_cuCtxGetLimit, limit, {set_limit}},
	{"cache", CK_PROC_cuCtxGetCacheConfig, cache_config, {set_cache_config}},
	{"shared", CK_PROC_cuCtxGetSharedMemConfig, shared_config, {set_shared_config}},
	{"attribute", CK_PROC_cuFuncGetAttribute, attribute, {set_attribute, unload_a_module}},
	{"occupancy",
	 CK_PROC_cuOccupancyMaxActiveBlocksPerMultiprocessor,
	 occupancy,
	 {set_attribute, set_limit, set_cache_config, set_shared_config}},
	{"dynamic",
	 CK_PROC_cuOccupancyAvailableDynamicSMemPerBlock,
	 dynamic_shared,
	 {set_attribute, set_limit}},
	{"clusters", CK_PROC_cluster, clusters, {set_attribute, set_limit}},
	{"threshold", CK_PROC_pool_attribute, threshold, {set_threshold, destroy_pool}},
	{"pool",
	 CK_PROC_cuDeviceGetMemPool,
	 current_pool,
	 {set_pool, set_pool_by_location, destroy_pool}},
	{"granularity", CK_PROC_cuMemGetAllocationGranularity, granularity, {NULL}},
};

static size_t asked(size_t i)
{
	size_t n = peer_count(kept[i].message);

	if (kept[i].message == CK_PROC_pool_attribute) { /* it sets them, too */
		for (size_t k = 0, all = n; k < all; k++) {
			const ck_pool_attribute_args *args = peer_args(kept[i].message, k);

			n -= args->set != 0;
		}
	}
	return n;
}

static void each_answer_is_asked_for_once(void **unused)
{
	(void)unused;
	for (size_t i = 0; i < CK_ARRAY_SIZE(kept); i++) {
		clear(NULL);
		for (int k = 0; k < 3; k++)
			assert_int_equal(kept[i].ask(), 1);
		if (asked(i) != 1)
			fail_msg("%s: asked %zu times", kept[i].name, asked(i));
	}
}

static void what_may_change_it_has_it_asked_for_anew(void **unused)
{
	(void)unused;
	for (size_t i = 0; i < CK_ARRAY_SIZE(kept); i++) {
		for (size_t k = 0; k < CK_ARRAY_SIZE(kept[i].changes) && kept[i].changes[k]; k++) {
			clear(NULL);
			assert_int_equal(kept[i].ask(), 1);
			kept[i].changes[k]();
			truth = 2;
			if (kept[i].ask() != 2 || kept[i].ask() != 2 || asked(i) != 2)
				fail_msg("%s: change %zu: asked %zu times, %d", kept[i].name, k,
					 asked(i), (int)kept[i].ask());
		}
	}
}

static void other_questions_have_other_answers(void **unused)
{
	(void)unused;
	assert_int_equal(clusters_of(64), 1);
	truth = 2;
	assert_int_equal(clusters_of(32), 2);
	assert_int_equal(clusters_of(64), 1);
	assert_int_equal(threshold(), 2);
	truth = 3;
	assert_int_equal(pool_value(CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC) & 0xffffffff, 3);
	assert_int_equal(threshold(), 2);
}

/* Other programs on the GPU change it, and the driver itself. */
static void what_changes_by_itself_is_always_asked_for(void **unused)
{
	(void)unused;
	assert_int_equal(free_memory(), 1);
	assert_int_equal(used(), 1);
	truth = 2;
	assert_int_equal(free_memory(), 2);
	assert_int_equal(used(), 2);
}

static CUresult refuse(const struct peer_message *m, void *res, struct peer_payload *payload)
{
	(void)m;
	(void)res;
	(void)payload;
	return CUDA_ERROR_UNKNOWN;
}

static void an_error_is_not_kept(void **unused)
{
	size_t value;

	(void)unused;
	peer.call = refuse;
	assert_int_equal(cuCtxGetLimit(&value, CU_LIMIT_STACK_SIZE), CUDA_ERROR_UNKNOWN);
	peer.call = answer;
	assert_int_equal(limit(), 1);
}

static void an_answer_from_before_a_change_is_not_kept(void **unused)
{
	const uint64_t key[] = {1, 2, 3}, other[] = {1, 2, 4};
	int value = 7, found;

	(void)unused;
	assert_false(ckc_cache_get(key, sizeof(key), &found, sizeof(found)));
	ckc_cache_forget(99); /* another thread changes something meanwhile */
	ckc_cache_put(key, sizeof(key), &value, sizeof(value));
	assert_false(ckc_cache_get(key, sizeof(key), &found, sizeof(found)));
	ckc_cache_put(key, sizeof(key), &value, sizeof(value));
	assert_true(ckc_cache_get(key, sizeof(key), &found, sizeof(found)));
	assert_false(ckc_cache_get(other, sizeof(other), &found, sizeof(found)));
	ckc_cache_forget(3);
	assert_false(ckc_cache_get(key, sizeof(key), &found, sizeof(found)));
}

#define TEST(name) cmocka_unit_test_setup(name, clear)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(each_answer_is_asked_for_once),
		TEST(what_may_change_it_has_it_asked_for_anew),
		TEST(other_questions_have_other_answers),
		TEST(what_changes_by_itself_is_always_asked_for),
		TEST(an_error_is_not_kept),
		TEST(an_answer_from_before_a_change_is_not_kept),
		TEST(preferences_that_do_not_exist_are_refused),
		TEST(a_stream_has_the_priority_that_it_was_given_last),
	};

	return cmocka_run_group_tests(tests, begin, end);
}
