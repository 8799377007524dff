/*
 * tests/unit/test_ptx_cluster.c - clusters of blocks: addresses in each other's shared memory, what
 * is stored and copied there, mbarriers of other blocks, what is refused.
 */
#include "tests/unit/ptx_world.h"

#include "util/log.h"

static unsigned int told;

static void count_line(int level, char *text, size_t size)
{
	(void)level;
	(void)text;
	(void)size;
	told++;
}

/*
 * @blocks blocks of @threads in clusters of @size run @body; s is 4 KB of shared memory, %s its
 * address, %k the block's rank, %n the next one's, %next the address of s there.
 */
static CUresult run_clusters(unsigned int blocks, unsigned int threads, unsigned int size,
			     const char *body)
{
	static const char prologue[] =
		HEAD ".shared .align 16 .b8 s[4096];\n" KERNEL
		     ".reg .b32 %k, %n, %s, %next, %b; mov.u32 %k, %cluster_ctarank;\n"
		     "mov.u32 %r1, %cluster_nctarank; add.u32 %n, %k, 1; rem.u32 %n, %n, %r1;\n"
		     "mov.u32 %s, s; mapa.shared::cluster.u32 %next, %s, %n;\n"
		     "mov.u32 %b, %ctaid.x; mov.u32 %r1, %ntid.x;\n"
		     "mad.lo.u32 %r1, %b, %r1, %t; mad.wide.u32 %at, %r1, 4, %out;\n"
		     "setp.eq.u32 %p7, %t, 0; mov.u32 %r0, 0;\n";
	struct ck_ptx_grid grid = {
		.grid = {blocks, 1, 1}, .block = {threads, 1, 1}, .cluster = {size, 1, 1}};
	struct ck_ptx_host host = world_host;
	char text[8000];
	struct ck_ptx_module *module;
	uint64_t params[1];
	CUresult result;

	snprintf(text, sizeof(text), "%s%s%s%s", prologue, body, "\nst.global.u32 [%at], %r0;\n",
		 END);
	module = module_of(text);
	params[0] = (uint64_t)(uintptr_t)output();
	host.check = CK_PTX_CHECK_RACE | CK_PTX_CHECK_INIT;
	told = 0;
	ck_log_hook(count_line);
	result = ck_ptx_run(ck_ptx_kernel_find(module, "k"), &grid, params, &host);
	ck_log_hook(NULL);
	ck_ptx_destroy(module);
	return result;
}

#define SYNC "barrier.cluster.arrive; barrier.cluster.wait;\n"

static void blocks_read_and_write_each_others_memory(void **state)
{
	(void)state;
	assert_int_equal(run_clusters(8, 32, 4,
				      "mad.lo.u32 %r2, %t, 4, %next; mad.lo.u32 %r3, %b, 100, %t;\n"
				      "st.shared::cluster.u32 [%r2], %r3;\n" SYNC
				      "mad.lo.u32 %r2, %t, 4, %s; ld.shared.u32 %r0, [%r2];" SYNC),
			 CUDA_SUCCESS);
	for (unsigned int i = 0; i < 8 * 32; i++)
		assert_int_equal(output()[i], (i / 128 * 4 + (i / 32 + 3) % 4) * 100 + i % 32);
	assert_int_equal(told, 0);
}

static void generic_addresses_and_atomics_reach_them_too(void **state)
{
	(void)state;
	assert_int_equal(
		run_clusters(4, 32, 4,
			     "@%p7 st.shared.u32 [s], 1000;\n" SYNC
			     "cvt.u64.u32 %d1, %s; cvta.shared.u64 %d1, %d1;\n"
			     "mapa.u64 %d2, %d1, %n; atom.add.u32 %r2, [%d2], 1;\n" SYNC
			     "ld.shared.u32 %r0, [s];\n"
			     "isspacep.shared::cta %p1, %d2; @%p1 add.u32 %r0, %r0, 10000;\n"
			     "isspacep.shared::cluster %p1, %d2; @!%p1 add.u32 %r0, %r0, 20000;\n"
			     "getctarank.u64 %r3, %d2; setp.ne.u32 %p1, %r3, %n;\n"
			     "@%p1 add.u32 %r0, %r0, 40000;\n"
			     "mapa.u64 %d3, %d2, %k; setp.ne.u64 %p1, %d3, %d1;\n"
			     "@%p1 add.u32 %r0, %r0, 80000;\n" SYNC),
		CUDA_SUCCESS);
	for (unsigned int i = 0; i < 4 * 32; i++)
		assert_int_equal(output()[i], 1032);
	assert_int_equal(told, 0);
}

/* Each block waits for what the one before it stores, by its own mbarrier. */
#define TELL(init, tell)                                                                           \
	"@%p7 mbarrier.init.shared.b64 [%s+1024], 1;\n" init                                       \
	"fence.mbarrier_init.release.cluster;\n" SYNC tell                                         \
	"wait: mbarrier.try_wait.parity.shared.b64 %p1, [%s+1024], 0; @!%p1 bra wait;\n"           \
	"ld.shared.u32 %r0, [%s+8];\n" SYNC

static void an_mbarrier_of_another_block_is_told(void **state)
{
	(void)state;
	assert_int_equal(
		run_clusters(4, 32, 2,
			     TELL("", "@%p7 st.shared::cluster.u32 [%next+8], %b;\n"
				      "@%p7 mbarrier.arrive.release.cluster.shared::cluster.b64 _, "
				      "[%next+1024];\n")),
		CUDA_SUCCESS);
	for (unsigned int i = 0; i < 4 * 32; i++)
		assert_int_equal(output()[i], i / 32 ^ 1);
	assert_int_equal(
		run_clusters(4, 32, 2,
			     TELL("@%p7 mbarrier.arrive.expect_tx.shared.b64 _, [%s+1024], 8;\n",
				  "mov.u32 %r4, 7; @%p7 "
				  "st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.b32 "
				  "[%next+8], {%b, %r4}, [%next+1024];\n")),
		CUDA_SUCCESS);
	for (unsigned int i = 0; i < 4 * 32; i++)
		assert_int_equal(output()[i], i / 32 ^ 1);
	assert_int_equal(
		run_clusters(4, 32, 2,
			     TELL("@%p7 st.shared.u32 [%s+8], 5; @%p7 "
				  "mbarrier.arrive.expect_tx.shared.b64 _, [%s+1024], 4;\n",
				  "@%p7 "
				  "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx:"
				  ":bytes.add.u32 "
				  "[%next+8], %b, [%next+1024];\n")),
		CUDA_SUCCESS);
	for (unsigned int i = 0; i < 4 * 32; i++)
		assert_int_equal(output()[i], 5 + (i / 32 ^ 1));
}

/* Bytes are announced and come in apart from arrivals, as cuda::barrier does it. */
static void bytes_are_expected_without_an_arrival(void **state)
{
	(void)state;
	assert_int_equal(
		run_clusters(1, 32, 1,
			     "@%p7 mbarrier.init.shared.b64 [%s+1024], 1;\n"
			     "@%p7 mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%s+1024], "
			     "2147483647;\n"
			     "@%p7 mbarrier.complete_tx.shared.b64 [%s+1024], 2147483640;\n"
			     "@%p7 mbarrier.arrive.shared.b64 _, [%s+1024]; bar.sync 0;\n"
			     "mbarrier.test_wait.parity.shared.b64 %p1, [%s+1024], 0; selp.u32 "
			     "%r0, 1, 0, %p1;\n"
			     "bar.sync 0;\n"
			     "@%p7 mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 "
			     "[%s+1024], 7;\n"
			     "bar.sync 0; mbarrier.test_wait.parity.shared.b64 %p1, [%s+1024], 0;\n"
			     "@%p1 add.u32 %r0, %r0, 2;\n"),
		CUDA_SUCCESS);
	for (unsigned int i = 0; i < 32; i++)
		assert_int_equal(output()[i], 2);
}

static void a_copy_goes_to_all_blocks_of_a_mask(void **state)
{
	(void)state;
	/* from block 0 to blocks 0, 1 and 3, which wait for it; block 2 does not */
	assert_int_equal(
		run_clusters(
			4, 32, 4,
			"@%p7 mbarrier.init.shared.b64 [%s+1024], 1;\n"
			"@%p7 mbarrier.arrive.expect_tx.shared.b64 _, [%s+1024], 128;\n"
			"mad.lo.u32 %r2, %t, 4, %s; st.shared.u32 [%r2], 77;\n"
			"add.u64 %d1, %out, 4096; mad.wide.u32 %d2, %t, 4, %d1;\n"
			"setp.ne.u32 %p2, %k, 0; setp.eq.u32 %p3, %k, 2;\n"
			"add.u32 %r3, %t, 500; @!%p2 st.global.u32 [%d2], %r3;\n" SYNC
			"@%p2 bra wait; @!%p7 bra wait; mov.b16 %h1, 11;\n"
			"cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes."
			"multicast::cluster "
			"[%s], [%d1], 128, [%s+1024], %h1;\n"
			"wait: @%p3 bra out;\n"
			"mbarrier.try_wait.parity.shared.b64 %p1, [%s+1024], 0; @!%p1 bra wait;\n"
			"out: ld.shared.u32 %r0, [%r2];\n" SYNC),
		CUDA_SUCCESS);
	for (unsigned int i = 0; i < 4 * 32; i++)
		assert_int_equal(output()[i], i / 32 == 2 ? 77 : 500 + i % 32);
	/* a block by itself may name itself */
	assert_int_equal(
		run_clusters(1, 32, 1,
			     "@%p7 mbarrier.init.shared.b64 [%s+1024], 1;\n"
			     "@%p7 mbarrier.arrive.expect_tx.shared.b64 _, [%s+1024], 16;\n"
			     "add.u64 %d1, %out, 4096; @%p7 st.global.u32 [%d1], 77;\n"
			     "@%p7 mov.b16 %h1, 1; @!%p7 bra wait;\n"
			     "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes."
			     "multicast::cluster [%s], [%d1], 16, [%s+1024], %h1;\n"
			     "wait: bar.sync 0;\n"
			     "more: mbarrier.try_wait.parity.shared.b64 %p1, [%s+1024], 0; @!%p1 "
			     "bra more;\n"
			     "ld.shared.u32 %r0, [%s];\n"),
		CUDA_SUCCESS);
	assert_int_equal(output()[31], 77);
}

static void the_barrier_counts_phases_of_all_blocks(void **state)
{
	(void)state;
	/* one block is late each time; exited threads have arrived */
	assert_int_equal(
		run_clusters(
			2, 64, 2,
			"setp.gt.u32 %p1, %t, 40; @%p1 exit; mov.u32 %r5, 0;\n"
			"@%p7 st.shared.u32 [s], 0;\n" SYNC
			"more: and.b32 %r6, %r5, 1; setp.ne.u32 %p2, %r6, %k; mov.u32 %r7, 0;\n"
			"@%p2 bra go; work: add.u32 %r7, %r7, 1; setp.lt.u32 %p3, %r7, 2000; @%p3 "
			"bra work;\n"
			"go: @%p7 red.shared::cluster.add.u32 [%next], 1;\n" SYNC
			"ld.volatile.shared.u32 %r0, [s]; add.u32 %r5, %r5, 1;\n" SYNC
			"setp.lt.u32 %p3, %r5, 10; @%p3 bra more;\n"),
		CUDA_SUCCESS);
	for (unsigned int i = 0; i <= 40; i++)
		assert_int_equal(output()[i], 10);
	assert_int_equal(output()[64], 10);
	assert_int_equal(told, 0);
}

static void who_arrives_and_exits_counts_for_nobody_else(void **state)
{
	(void)state;
	/* block 0's thread arrives and has gone; block 1's waits for what block 2's stores late */
	assert_int_equal(
		run_clusters(
			3, 1, 3,
			"setp.eq.u32 %p1, %k, 2; setp.eq.u32 %p2, %k, 1; mov.u32 %r7, 0;\n"
			"@%p2 st.shared.u32 [s], 0; @%p1 bra late; barrier.cluster.arrive;\n"
			"@!%p2 exit; barrier.cluster.wait; ld.shared.u32 %r0, [s]; bra out;\n"
			"late: add.u32 %r7, %r7, 1; setp.lt.u32 %p3, %r7, 20000; @%p3 bra late;\n"
			"mapa.shared::cluster.u32 %r2, %s, 1; st.shared::cluster.u32 [%r2], "
			"9;\n" SYNC "out:"),
		CUDA_SUCCESS);
	assert_int_equal(output()[1], 9);
}

static void what_is_wrong_is_an_error(void **state)
{
	(void)state;
	/* no such block */
	assert_int_equal(run_clusters(2, 1, 2, "mapa.shared::cluster.u32 %r2, %s, 2;"),
			 CUDA_ERROR_ILLEGAL_ADDRESS);
	assert_int_equal(
		run_clusters(2, 1, 2,
			     "add.u32 %r2, %s, 0x4000000; ld.shared::cluster.u32 %r0, [%r2];"),
		CUDA_ERROR_ILLEGAL_ADDRESS);
	assert_int_equal(run_clusters(2, 1, 2, "ld.shared::cluster.u32 %r0, [%next+4096];"),
			 CUDA_ERROR_ILLEGAL_ADDRESS);
	/* without other blocks there is no memory but the own, at its own addresses */
	assert_int_equal(
		run_clusters(1, 1, 1, "add.u32 %r2, %s, 0x1000000; ld.shared.u32 %r0, [%r2];"),
		CUDA_ERROR_ILLEGAL_ADDRESS);
	/* a block that has ended has no memory; the other one looks late */
	assert_int_equal(run_clusters(2, 1, 2,
				      "setp.eq.u32 %p1, %k, 0; @%p1 exit; nanosleep.u32 10;\n"
				      "ld.shared::cluster.u32 %r0, [%next];"),
			 CUDA_ERROR_LAUNCH_FAILED);
	assert_int_equal(run_clusters(2, 32, 2,
				      "barrier.cluster.arrive; setp.eq.u32 %p1, %k, 0;\n"
				      "@%p1 bar.sync 0, 64; barrier.cluster.wait;"),
			 CUDA_ERROR_LAUNCH_TIMEOUT);
	/* no whole clusters, too many blocks */
	assert_int_equal(run_clusters(3, 1, 2, ""), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(run_clusters(32, 1, 32, ""), CUDA_ERROR_INVALID_VALUE);
}

static void a_kernel_may_say_how_it_is_launched(void **state)
{
	struct ck_ptx_grid grid = {.grid = {4, 2, 1}, .block = {1, 1, 1}};
	struct ck_ptx_module *module = module_of(
		HEAD
		".visible .entry k(.param .u64 out) .explicitcluster .reqnctapercluster 2, 2\n{\n"
		".reg .b32 %r<9>; .reg .b64 %d<3>; .reg .pred %p<2>;\n"
		"mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ctaid.y; mad.lo.u32 %r1, %r2, 4, %r1;\n"
		"ld.param.u64 %d1, [out]; mad.wide.u32 %d1, %r1, 4, %d1;\n"
		"mov.u32 %r3, %cluster_ctarank; mov.u32 %r4, %clusterid.x;\n"
		"mad.lo.u32 %r3, %r4, 10, %r3; mov.u32 %r4, %cluster_nctarank;\n"
		"mad.lo.u32 %r3, %r4, 100, %r3; mov.u32 %r4, %cluster_ctaid.y;\n"
		"mad.lo.u32 %r3, %r4, 1000, %r3; mov.pred %p1, %is_explicit_cluster;\n"
		"@%p1 add.u32 %r3, %r3, 10000; st.global.u32 [%d1], %r3;\n" END
		".visible .entry any() .explicitcluster .maxclusterrank 4 { ret; }\n");
	const struct ck_ptx_kernel *k = ck_ptx_kernel_find(module, "k");
	struct ck_ptx_kernel_info info;
	uint64_t params[1] = {(uint64_t)(uintptr_t)output()};

	(void)state;
	ck_ptx_kernel_info(k, &info);
	assert_true(info.must_cluster);
	assert_int_equal(info.cluster[0] * 100 + info.cluster[1] * 10 + info.cluster[2], 221);
	assert_int_equal(ck_ptx_run(k, &grid, params, &world_host), CUDA_SUCCESS);
	for (unsigned int i = 0; i < 8; i++)
		assert_int_equal(output()[i],
				 10400 + i / 4 * 1000 + i % 4 / 2 * 10 + i / 4 * 2 + i % 2);
	grid.cluster[0] = grid.cluster[1] = grid.cluster[2] = 1;
	assert_int_equal(ck_ptx_run(k, &grid, params, &world_host),
			 CUDA_ERROR_INVALID_CLUSTER_SIZE);
	memset(grid.cluster, 0, sizeof(grid.cluster));
	assert_int_equal(ck_ptx_run(ck_ptx_kernel_find(module, "any"), &grid, params, &world_host),
			 CUDA_ERROR_INVALID_CLUSTER_SIZE);
	ck_ptx_destroy(module);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(blocks_read_and_write_each_others_memory),
		cmocka_unit_test(generic_addresses_and_atomics_reach_them_too),
		cmocka_unit_test(an_mbarrier_of_another_block_is_told),
		cmocka_unit_test(bytes_are_expected_without_an_arrival),
		cmocka_unit_test(a_copy_goes_to_all_blocks_of_a_mask),
		cmocka_unit_test(the_barrier_counts_phases_of_all_blocks),
		cmocka_unit_test(who_arrives_and_exits_counts_for_nobody_else),
		cmocka_unit_test(what_is_wrong_is_an_error),
		cmocka_unit_test(a_kernel_may_say_how_it_is_launched),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
