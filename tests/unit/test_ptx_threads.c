/*
 * tests/unit/test_ptx_threads.c - the PTX interpreter: what threads, warps, blocks and grids do
 * together.
 */
#include "tests/unit/ptx_world.h"

#include <pthread.h>

/* Run @body on @threads threads; %r0 of each is its output. */
static CUresult run_body(const char *body, unsigned int threads)
{
	char text[4096];

	snprintf(text, sizeof(text), "%s%s%s", HEAD KERNEL, body,
		 "\nst.global.u32 [%at], %r0;\n" END);
	return run_text(text, threads);
}

static void special_registers_number_the_threads(void **state)
{
	struct ck_ptx_module *module = module_of(
		HEAD
		".visible .entry k(.param .u64 out) {\n.reg .b32 %r<9>; .reg .b64 %d<3>;\n"
		"mov.u32 %r1, %tid.x; mov.u32 %r2, %tid.y; mov.u32 %r3, %ntid.x;\n"
		"mad.lo.u32 %r4, %r2, %r3, %r1; mov.u32 %r5, %ctaid.y;\n"
		"mad.lo.u32 %r4, %r5, 40, %r4; ld.param.u64 %d1, [out];\n"
		"mad.wide.u32 %d1, %r4, 4, %d1; mov.u32 %r6, %laneid; mov.u32 %r7, %warpid;\n"
		"mad.lo.u32 %r6, %r7, 100, %r6; mov.u32 %r7, %lanemask_lt; popc.b32 %r7, %r7;\n"
		"mad.lo.u32 %r6, %r7, 10000, %r6; st.global.u32 [%d1], %r6;\n" END);
	struct ck_ptx_grid grid = {{1, 2, 1}, {10, 4, 1}, 0, false, {0}};
	uint64_t params[1] = {(uint64_t)(uintptr_t)output()};

	(void)state;
	assert_int_equal(ck_ptx_run(ck_ptx_kernel_at(module, 0), &grid, params, &world_host),
			 CUDA_SUCCESS);
	for (unsigned int i = 0; i < 80; i++) {
		unsigned int t = i % 40;

		assert_int_equal(output()[i], t % 32 * 10000 + t / 32 * 100 + t % 32);
	}
	ck_ptx_destroy(module);
}

static void shuffles_move_values_in_every_mode(void **state)
{
	(void)state;
	assert_int_equal(run_body("shfl.sync.down.b32 %r0|%p1, %t, 4, 31, -1;", 32), CUDA_SUCCESS);
	for (unsigned int i = 0; i < 32; i++)
		assert_int_equal(output()[i], i + 4 < 32 ? i + 4 : i);
	assert_int_equal(run_body("shfl.sync.up.b32 %r0|%p1, %t, 3, 0, -1;"
				  "@!%p1 mov.u32 %r0, 99;",
				  32),
			 CUDA_SUCCESS);
	for (unsigned int i = 0; i < 32; i++)
		assert_int_equal(output()[i], i >= 3 ? i - 3 : 99);
	/* Segments of 8 lanes. */
	assert_int_equal(run_body("shfl.sync.idx.b32 %r0, %t, 2, 6175, -1;", 32), CUDA_SUCCESS);
	for (unsigned int i = 0; i < 32; i++)
		assert_int_equal(output()[i], (i & ~7u) + 2);
	assert_int_equal(run_body("shfl.sync.bfly.b32 %r0, %t, 1, 31, -1;", 32), CUDA_SUCCESS);
	for (unsigned int i = 0; i < 32; i++)
		assert_int_equal(output()[i], i ^ 1);
}

static void a_shuffle_waits_for_its_members(void **state)
{
	(void)state;
	/* The even lanes come late; the members of the mask are then all lanes. */
	assert_int_equal(run_body("and.b32 %r1, %t, 1; setp.eq.s32 %p1, %r1, 1; @%p1 bra go;\n"
				  "mov.u32 %r2, 0; work: add.s32 %r2, %r2, 1;\n"
				  "setp.lt.s32 %p2, %r2, 50; @%p2 bra work;\n"
				  "go: shfl.sync.bfly.b32 %r0, %t, 1, 31, -1;",
				  32),
			 CUDA_SUCCESS);
	for (unsigned int i = 0; i < 32; i++)
		assert_int_equal(output()[i], i ^ 1);
}

static void a_mask_of_half_a_warp_is_enough(void **state)
{
	(void)state;
	assert_int_equal(run_body("mov.u32 %r0, 7; setp.ge.s32 %p1, %t, 16; @%p1 bra out;\n"
				  "vote.sync.ballot.b32 %r0, 1, 0xffff;\nout:",
				  32),
			 CUDA_SUCCESS);
	assert_int_equal(output()[3], 0xffff);
	assert_int_equal(output()[16], 7);
}

static void lanes_that_left_are_not_waited_for(void **state)
{
	(void)state;
	assert_int_equal(run_body("setp.ge.s32 %p1, %t, 20; @%p1 exit;\n"
				  "bar.warp.sync -1; vote.sync.ballot.b32 %r0, 1, -1;\n"
				  "bar.sync 0;",
				  64),
			 CUDA_SUCCESS);
	assert_int_equal(output()[0], 0xfffff);
}

static void votes_and_matches_see_the_members(void **state)
{
	(void)state;
	assert_int_equal(run_body("setp.lt.s32 %p1, %t, 5; vote.sync.any.pred %p2, %p1, -1;\n"
				  "vote.sync.all.pred %p3, !%p1, -1; selp.u32 %r1, 1, 0, %p2;\n"
				  "selp.u32 %r2, 2, 0, %p3; add.u32 %r0, %r1, %r2;",
				  32),
			 CUDA_SUCCESS);
	assert_int_equal(output()[9], 1);
	assert_int_equal(run_body("and.b32 %r1, %t, 3; match.any.sync.b32 %r0, %r1, -1;", 32),
			 CUDA_SUCCESS);
	assert_int_equal(output()[6], 0x44444444);
	assert_int_equal(run_body("match.all.sync.b32 %r0|%p1, 5, -1;", 32), CUDA_SUCCESS);
	assert_int_equal(output()[6], 0xffffffff);
	assert_int_equal(run_body("redux.sync.max.s32 %r0, %t, -1;", 32), CUDA_SUCCESS);
	assert_int_equal(output()[6], 31);
}

static void a_barrier_orders_shared_memory(void **state)
{
	(void)state;
	assert_int_equal(run_body(".shared .align 4 .b8 s[1024]; mov.u32 %r1, s;\n"
				  "mad.lo.u32 %r2, %t, 4, %r1; st.shared.u32 [%r2], %t;\n"
				  "bar.sync 0; sub.u32 %r3, 255, %t; mad.lo.u32 %r2, %r3, 4, %r1;\n"
				  "ld.shared.u32 %r0, [%r2];",
				  256),
			 CUDA_SUCCESS);
	for (unsigned int i = 0; i < 256; i++)
		assert_int_equal(output()[i], 255 - i);
}

static void lanes_may_come_to_a_barrier_one_by_one(void **state)
{
	(void)state;
	assert_int_equal(run_body(".shared .u32 n; mov.u32 %r1, n; and.b32 %r2, %t, 1;\n"
				  "setp.eq.s32 %p1, %r2, 0; @%p1 bra other;\n"
				  "atom.shared.add.u32 %r3, [%r1], 1; bar.sync 0; bra out;\n"
				  "other: atom.shared.add.u32 %r3, [%r1], 100; bar.sync 0;\n"
				  "out: ld.shared.u32 %r0, [%r1];",
				  64),
			 CUDA_SUCCESS);
	for (unsigned int i = 0; i < 64; i++)
		assert_int_equal(output()[i], 3232);
}

static void named_barriers_count_warps(void **state)
{
	(void)state;
	/* Warp 0 arrives and goes on; warp 1, which is not full, waits for it. */
	assert_int_equal(
		run_body(".shared .u32 n; setp.ge.s32 %p1, %t, 32; @%p1 bra late;\n"
			 "st.shared.u32 [n], 5; bar.arrive 3, 64; mov.u32 %r0, 1; bra out;\n"
			 "late: bar.sync 3, 64; ld.shared.u32 %r0, [n];\nout:",
			 40),
		CUDA_SUCCESS);
	assert_int_equal(output()[0], 1);
	assert_int_equal(output()[39], 5);
}

static void a_barrier_all_only_arrive_at_can_be_used_again(void **state)
{
	(void)state;
	/* Both warps arrive at 3 and go on; then warp 0 waits there for what warp 1 stores late. */
	assert_int_equal(
		run_body(".shared .u32 n; setp.ge.s32 %p1, %t, 32; mov.u32 %r0, 0;\n"
			 "bar.arrive 3, 64; bar.sync 0; @!%p1 bra meet;\n"
			 "more: add.u32 %r0, %r0, 1; setp.lt.u32 %p2, %r0, 20000; @%p2 bra more;\n"
			 "st.shared.u32 [n], 5;\n"
			 "meet: bar.sync 3, 64; ld.shared.u32 %r0, [n];",
			 64),
		CUDA_SUCCESS);
	assert_int_equal(output()[0], 5);
	assert_int_equal(output()[63], 5);
}

static void a_reducing_barrier_gives_all_the_result(void **state)
{
	(void)state;
	assert_int_equal(run_body("setp.lt.s32 %p1, %t, 37; bar.red.popc.u32 %r1, 0, %p1;\n"
				  "barrier.red.and.pred %p2, 0, %p1; bar.red.or.pred %p3, 0, %p1;\n"
				  "selp.u32 %r2, 1000, 0, %p2; selp.u32 %r3, 2000, 0, %p3;\n"
				  "add.u32 %r0, %r1, %r2; add.u32 %r0, %r0, %r3;",
				  64),
			 CUDA_SUCCESS);
	assert_int_equal(output()[63], 2037);
}

static void a_barrier_nobody_completes_is_an_error(void **state)
{
	(void)state;
	assert_int_equal(run_body("mov.u32 %r0, 0; bar.sync 1, 128;", 32),
			 CUDA_ERROR_LAUNCH_TIMEOUT);
}

static void a_lock_between_lanes_is_passed_on(void **state)
{
	(void)state;
	assert_int_equal(run_body("spin: atom.global.cas.b32 %r1, [%out+4096], 0, 1;\n"
				  "setp.ne.s32 %p1, %r1, 0; @%p1 bra spin;\n"
				  "ld.volatile.global.u32 %r2, [%out+4100]; add.u32 %r0, %r2, 1;\n"
				  "st.volatile.global.u32 [%out+4100], %r0; membar.gl;\n"
				  "atom.global.exch.b32 %r1, [%out+4096], 0;",
				  64),
			 CUDA_SUCCESS);
	assert_int_equal(output()[1025], 64);
}

static void lanes_that_are_not_there_have_zeroes_in_a_matrix(void **state)
{
	(void)state;
	/* the first row of 8 x 8 becomes the first column: of lane 4 r it is the lower half */
	assert_int_equal(run_body(".shared .align 16 .b8 s[128]; mov.u32 %r1, 0x20001;\n"
				  "movmatrix.sync.aligned.m8n8.trans.b16 %r0, %r1;\n"
				  "mov.u32 %r2, s; mad.lo.u32 %r3, %t, 16, %r2;\n"
				  "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r3], {%r1};\n"
				  "ld.shared.u32 %r4, [s+64]; add.u32 %r0, %r0, %r4;",
				  8),
			 CUDA_SUCCESS);
	for (unsigned int i = 0; i < 8; i++)
		assert_int_equal(output()[i], i % 4 ? 0 : i / 4 ? 0x20002 : 0x10001);
}

static void atomics_have_all_operations(void **state)
{
	static const struct {
		const char *text;
		uint32_t before, after;
	} rows[] = {
		{"atom.global.add.u32 %r0, [%out+512], 3;", 5, 8},
		{"atom.global.min.s32 %r0, [%out+512], -3;", 5, (uint32_t)-3},
		{"atom.global.max.u32 %r0, [%out+512], -3;", 5, (uint32_t)-3},
		{"atom.global.inc.u32 %r0, [%out+512], 5;", 5, 0},
		{"atom.global.dec.u32 %r0, [%out+512], 5;", 0, 5},
		{"atom.global.and.b32 %r0, [%out+512], 4;", 5, 4},
		{"atom.global.or.b32 %r0, [%out+512], 2;", 5, 7},
		{"atom.global.xor.b32 %r0, [%out+512], 1;", 5, 4},
		{"atom.global.exch.b32 %r0, [%out+512], 9;", 5, 9},
		{"atom.global.cas.b32 %r0, [%out+512], 5, 6;", 5, 6},
		{"atom.global.cas.b32 %r0, [%out+512], 4, 6;", 5, 5},
		{"atom.global.add.f32 %r0, [%out+512], 0f3F800000;", 0x3f800000, 0x40000000},
		{"atom.add.noftz.f16x2 %r0, [%out+512], 0x3c003c00;", 0x3c000000, 0x40003c00},
		{"atom.relaxed.gpu.global.add.s32 %r0, [%out+512], -1;", 5, 4},
	};
	char body[256];

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		snprintf(body, sizeof(body), "st.global.u32 [%%out+512], %u; %s", rows[i].before,
			 rows[i].text);
		assert_int_equal(run_body(body, 1), CUDA_SUCCESS);
		assert_int_equal(output()[0], rows[i].before);
		assert_int_equal(output()[128], rows[i].after);
	}
}

static void *add_from_thread(void *module)
{
	return (void *)(uintptr_t)launch(module, 100, 64);
}

static void atomics_hold_between_host_threads(void **state)
{
	struct ck_ptx_module *module = module_of(
		HEAD KERNEL "red.global.add.u32 [%out], 1;\n"
			    "atom.global.add.f64 %e1, [%out+8], 0d3FF0000000000000;\n" END);
	pthread_t threads[3];
	double sum;

	(void)state;
	for (int i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, add_from_thread, module), 0);
	for (int i = 0; i < 3; i++) {
		void *result;

		pthread_join(threads[i], &result);
		assert_null(result);
	}
	memcpy(&sum, output() + 2, sizeof(sum));
	assert_int_equal(output()[0], 3 * 6400);
	assert_true(sum == 3 * 6400);
	ck_ptx_destroy(module);
}

static void a_block_may_wait_for_a_later_one(void **state)
{
	struct ck_ptx_module *module = module_of(
		HEAD KERNEL "mov.u32 %r1, %ctaid.x; setp.eq.s32 %p1, %r1, 1; @%p1 bra set;\n"
			    "wait: ld.volatile.global.u32 %r2, [%out];\n"
			    "setp.eq.s32 %p2, %r2, 0; @%p2 bra wait; bra out;\n"
			    "set: st.global.u32 [%out], 1;\nout:\n" END);

	(void)state;
	world.patience = 100000;
	assert_int_equal(launch(module, 2, 1), CUDA_SUCCESS);
	ck_ptx_destroy(module);
}

static void a_cooperative_grid_meets_in_its_workspace(void **state)
{
	/* Each block adds to the word that %envreg1:%envreg2 point to and waits for the others. */
	struct ck_ptx_module *module = module_of(
		HEAD KERNEL "mov.u32 %r1, %envreg1; mov.u32 %r2, %envreg2;\n"
			    "mov.b64 %d1, {%r2, %r1}; atom.add.u32 %r3, [%d1+4], 1;\n"
			    "mov.u32 %r5, %nctaid.x;\n"
			    "wait: ld.acquire.gpu.u32 %r4, [%d1+4]; setp.lt.u32 %p1, %r4, %r5;\n"
			    "@%p1 bra wait; red.global.add.u32 [%out], 1;\n" END);
	struct ck_ptx_grid grid = {{20, 1, 1}, {1, 1, 1}, 0, true, {0}};
	uint64_t params[1] = {(uint64_t)(uintptr_t)output()};

	(void)state;
	assert_int_equal(ck_ptx_run(ck_ptx_kernel_at(module, 0), &grid, params, &world_host),
			 CUDA_SUCCESS);
	assert_int_equal(output()[0], 20);
	ck_ptx_destroy(module);
}

static void dynamic_shared_memory_lies_behind_the_static(void **state)
{
	struct ck_ptx_module *module = module_of(
		HEAD ".extern .shared .align 16 .b8 dyn[];\n" KERNEL
		     ".shared .align 4 .b8 fix[20]; mov.u32 %r1, dyn; st.shared.u32 [fix+16], 3;\n"
		     "st.shared.u32 [%r1+60], 4; ld.shared.u32 %r2, [fix+16];\n"
		     "mov.u32 %r3, %dynamic_smem_size; st.global.v2.u32 [%out], {%r2, %r3};\n"
		     "mov.u32 %r4, dyn+60; ld.shared.u32 %r5, [dyn+60]; sub.u32 %r4, %r4, %r5;\n"
		     "st.global.v2.u32 [%out+8], {%r1, %r4};\n" END);
	struct ck_ptx_grid grid = {{1, 1, 1}, {1, 1, 1}, 64, false, {0}};
	uint64_t params[1] = {(uint64_t)(uintptr_t)output()};

	(void)state;
	assert_int_equal(ck_ptx_run(ck_ptx_kernel_at(module, 0), &grid, params, &world_host),
			 CUDA_SUCCESS);
	assert_int_equal(output()[0], 3);
	assert_int_equal(output()[1], 64);
	assert_int_equal(output()[2], 32);
	assert_int_equal(output()[3], 32 + 60 - 4);
	grid.dynamic_shared = 60;
	assert_int_equal(ck_ptx_run(ck_ptx_kernel_at(module, 0), &grid, params, &world_host),
			 CUDA_ERROR_ILLEGAL_ADDRESS);
	ck_ptx_destroy(module);
}

static void reserved_shared_memory_lies_behind_all_other(void **state)
{
	struct ck_ptx_module *module = module_of(
		HEAD
		".extern .shared .align 16 .b8 dyn[];\n" KERNEL
		".shared .align 4 .b8 fix[20]; mov.u32 %r9, dyn; st.shared.u32 [fix], %r9;\n"
		"mov.u32 %r1, %reserved_smem_offset_begin; mov.u32 %r2, "
		"%reserved_smem_offset_end;\n"
		"mov.u32 %r3, %reserved_smem_offset_cap; mov.u32 %r4, %reserved_smem_offset_1;\n"
		"st.global.v4.u32 [%out], {%r1, %r2, %r3, %r4};\n"
		"mov.u32 %r5, %total_smem_size; ld.shared.u32 %r6, [%r4+284];\n"
		"st.global.v2.u32 [%out+16], {%r5, %r6}; st.shared.u32 [%r4+284], %r5;\n"
		"st.shared.u32 [%r9+56], %r5; st.shared.u32 [%r1], %r5; st.shared.u32 [%r2+-4], "
		"%r5;\n" END);
	struct ck_ptx_grid grid = {{1, 1, 1}, {1, 1, 1}, 60, false, {0}};
	uint64_t params[1] = {(uint64_t)(uintptr_t)output()};

	(void)state;
	assert_int_equal(ck_ptx_run(ck_ptx_kernel_at(module, 0), &grid, params, &world_host),
			 CUDA_SUCCESS);
	assert_int_equal(output()[0], 96);
	assert_int_equal(output()[1] - output()[0], output()[2]);
	assert_in_range(output()[3], output()[0], output()[1] - 288);
	assert_int_equal(output()[4], 92);
	assert_int_equal(output()[5], 0);
	ck_ptx_destroy(module);
}

/* Run the kernel with the host's help: long enough that the caller asks for it. */
static CUresult run_shared(const struct ck_ptx_module *module, unsigned int blocks, bool together)
{
	struct ck_ptx_host host = world_host;
	struct ck_ptx_grid grid = {{blocks, 1, 1}, {64, 1, 1}, 0, together, {0}};
	uint64_t params[1] = {(uint64_t)(uintptr_t)output()};

	host.threads = 3;
	return ck_ptx_run(ck_ptx_kernel_at(module, 0), &grid, params, &host);
}

#define SOME_WORK                                                                                  \
	"mov.u32 %r1, 200; again: sub.u32 %r1, %r1, 1; setp.ne.u32 %p1, %r1, 0; @%p1 bra again;\n"

static void threads_share_the_blocks_of_a_grid(void **state)
{
	struct ck_ptx_module *module = module_of(
		HEAD KERNEL SOME_WORK "red.global.add.u32 [%out], 1; mov.u32 %r2, %ctaid.x;\n"
				      "red.global.add.u32 [%out+4], %r2;\n" END);

	(void)state;
	assert_int_equal(run_shared(module, 1000, false), CUDA_SUCCESS);
	assert_int_equal(output()[0], 64 * 1000);
	assert_int_equal(output()[1], 64 * 1000 * 999 / 2);
	ck_ptx_destroy(module);
}

static void a_fault_in_any_thread_ends_the_grid(void **state)
{
	struct ck_ptx_module *module = module_of(
		HEAD KERNEL SOME_WORK "mov.u32 %r2, %ctaid.x; setp.eq.u32 %p2, %r2, 900;\n"
				      "@%p2 trap; red.global.add.u32 [%out], 1;\n" END);

	(void)state;
	assert_int_equal(run_shared(module, 1000000, false), CUDA_ERROR_LAUNCH_FAILED);
	assert_true(output()[0] < 64 * 900000);
	ck_ptx_destroy(module);
}

static void a_cooperative_grid_meets_across_threads(void **state)
{
	struct ck_ptx_module *module = module_of(
		HEAD KERNEL
		"mov.u32 %r5, %nctaid.x; mul.lo.u32 %r5, %r5, 64;\n"
		"atom.global.add.u32 %r3, [%out], 1;\n"
		"wait: ld.acquire.gpu.global.u32 %r4, [%out]; setp.lt.u32 %p1, %r4, %r5;\n"
		"@%p1 bra wait; red.global.add.u32 [%out+4], 1;\n" END);

	(void)state;
	assert_int_equal(run_shared(module, 17, true), CUDA_SUCCESS);
	assert_int_equal(output()[1], 17 * 64);
	ck_ptx_destroy(module);
}

static void a_grid_that_cannot_be_is_refused(void **state)
{
	struct ck_ptx_module *module = module_of(HEAD KERNEL END);

	(void)state;
	assert_int_equal(launch(module, 0, 1), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(launch(module, 1, 1025), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(launch(module, 1, 1024), CUDA_SUCCESS);
	ck_ptx_destroy(module);
}

static void a_warps_row_is_checked_to_its_end(void **state)
{
	(void)state;
	/* the last 48 elements before the end of memory: the third half warp is outside */
	assert_int_equal(
		run_body("add.u64 %d1, %out, 524096; mad.wide.u32 %d2, %t, 4, %d1;\n"
			 "mov.u32 %r0, 5; st.global.u32 [%d2], %t; ld.global.u32 %r1, [%d2];",
			 64),
		CUDA_ERROR_ILLEGAL_ADDRESS);
	assert_int_equal(output()[524096 / 4 + 47], 47);
	assert_int_equal(run_body("mad.wide.u32 %d2, %t, 4, %out; ld.global.u32 %r0, [%d2+2];", 32),
			 CUDA_ERROR_MISALIGNED_ADDRESS);
	assert_int_equal(run_body("ld.global.u32 %r0, [%out+524288];", 32),
			 CUDA_ERROR_ILLEGAL_ADDRESS);
}

static void rows_and_single_places_are_read_as_lane_by_lane(void **state)
{
	(void)state;
	/* bytes with their sign, in a row and backwards; then one vector for all */
	assert_int_equal(
		run_body("cvt.u64.u32 %d1, %t; add.u64 %d1, %out, %d1; add.u32 %r1, %t, 120;\n"
			 "st.global.u8 [%d1+1024], %r1; bar.sync 0; ld.global.s8 %r2, [%d1+1024];\n"
			 "sub.u32 %r3, 31, %t; cvt.u64.u32 %d2, %r3; add.u64 %d2, %out, %d2;\n"
			 "ld.global.u8 %r4, [%d2+1024]; ld.global.v2.u16 {%h1, %h2}, [%out+1028];\n"
			 "cvt.u32.u16 %r5, %h1; cvt.u32.u16 %r6, %h2;\n"
			 "mad.lo.u32 %r0, %r4, 1000, %r2; mad.lo.u32 %r0, %r5, 3, %r0;\n"
			 "add.u32 %r0, %r0, %r6;",
			 32),
		CUDA_SUCCESS);
	for (unsigned int i = 0; i < 32; i++)
		assert_int_equal(output()[i], (151 - i) * 1000 + (uint32_t)(int8_t)(120 + i) +
						      3 * (124 | 125 << 8) + (126 | 127 << 8));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(special_registers_number_the_threads),
		cmocka_unit_test(shuffles_move_values_in_every_mode),
		cmocka_unit_test(a_shuffle_waits_for_its_members),
		cmocka_unit_test(a_mask_of_half_a_warp_is_enough),
		cmocka_unit_test(lanes_that_left_are_not_waited_for),
		cmocka_unit_test(votes_and_matches_see_the_members),
		cmocka_unit_test(a_barrier_orders_shared_memory),
		cmocka_unit_test(lanes_may_come_to_a_barrier_one_by_one),
		cmocka_unit_test(named_barriers_count_warps),
		cmocka_unit_test(a_barrier_all_only_arrive_at_can_be_used_again),
		cmocka_unit_test(a_reducing_barrier_gives_all_the_result),
		cmocka_unit_test(a_barrier_nobody_completes_is_an_error),
		cmocka_unit_test(a_lock_between_lanes_is_passed_on),
		cmocka_unit_test(lanes_that_are_not_there_have_zeroes_in_a_matrix),
		cmocka_unit_test(atomics_have_all_operations),
		cmocka_unit_test(atomics_hold_between_host_threads),
		cmocka_unit_test(a_block_may_wait_for_a_later_one),
		cmocka_unit_test(a_cooperative_grid_meets_in_its_workspace),
		cmocka_unit_test(dynamic_shared_memory_lies_behind_the_static),
		cmocka_unit_test(reserved_shared_memory_lies_behind_all_other),
		cmocka_unit_test(threads_share_the_blocks_of_a_grid),
		cmocka_unit_test(a_fault_in_any_thread_ends_the_grid),
		cmocka_unit_test(a_cooperative_grid_meets_across_threads),
		cmocka_unit_test(a_grid_that_cannot_be_is_refused),
		cmocka_unit_test(a_warps_row_is_checked_to_its_end),
		cmocka_unit_test(rows_and_single_places_are_read_as_lane_by_lane),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
