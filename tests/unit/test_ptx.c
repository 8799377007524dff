/*
 * tests/unit/test_ptx.c - the PTX interpreter: language, arithmetic, memory, calls, faults.
 */
#include "tests/unit/ptx_world.h"

#include <math.h>

/* Run @body on one thread; its result is the 64-bit value in %d0. */
static uint64_t compute(const char *body)
{
	char text[4096];

	snprintf(text, sizeof(text), "%s%s%s", HEAD KERNEL, body,
		 "\nst.global.u64 [%out], %d0;\n" END);
	assert_int_equal(run_text(text, 1), CUDA_SUCCESS);
	return *(uint64_t *)(void *)output();
}

/* The message of a text that must be refused with @err. */
static const char *refusal(const char *text, int err)
{
	static char log[200];
	struct ck_ptx_module *module = NULL;

	assert_int_equal(text_parse(text, log, sizeof(log), &module), err);
	assert_null(module);
	return log;
}

struct sum {
	const char *body;
	uint64_t result;
};

static void check_sums(const struct sum *sums, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		uint64_t got = compute(sums[i].body);

		if (got != sums[i].result)
			fail_msg("%s: %#llx, not %#llx", sums[i].body, (unsigned long long)got,
				 (unsigned long long)sums[i].result);
	}
}

#define CHECK(sums) check_sums(sums, sizeof(sums) / sizeof((sums)[0]))
#define R32(text) text " cvt.u64.u32 %d0, %r0;"
#define F32(text) text " mov.b32 %r0, %f0; cvt.u64.u32 %d0, %r0;"
#define H16(text) text " cvt.u64.u16 %d0, %h0;"

static void integers_wrap_clamp_and_divide(void **state)
{
	static const struct sum sums[] = {
		{R32("add.s32 %r0, 2147483647, 1;"), 0x80000000},
		{R32("add.sat.s32 %r0, 2147483647, 1;"), 0x7fffffff},
		{R32("sub.sat.s32 %r0, -2147483648, 1;"), 0x80000000},
		{R32("mul.hi.s32 %r0, -2, 3;"), 0xffffffff},
		{"mul.wide.s32 %d0, -2, 3;", (uint64_t)-6},
		{"mad.wide.u32 %d0, 0xffffffff, 2, 5;", 0x1fffffffe + 5},
		{"mul.hi.u64 %d0, -1, -1;", UINT64_MAX - 1},
		{R32("div.s32 %r0, -7, 2;"), (uint32_t)-3},
		{R32("div.u32 %r0, 7, 0;"), 0xffffffff},
		{R32("div.s32 %r0, -2147483648, -1;"), 0x80000000},
		{R32("rem.s32 %r0, -7, 2;"), 0xffffffff},
		{R32("rem.s32 %r0, -2147483648, -1;"), 0},
		{R32("sad.s32 %r0, -3, 4, 10;"), 17},
		{R32("mul24.lo.s32 %r0, 0xffffff, 3;"), (uint32_t)-3},
		{R32("min.s32 %r0, -1, 1;"), 0xffffffff},
		{R32("min.u32 %r0, -1, 1;"), 1},
		{R32("abs.s32 %r0, -5;"), 5},
	};

	(void)state;
	CHECK(sums);
}

static void carries_run_from_word_to_word(void **state)
{
	static const struct sum sums[] = {
		{R32("add.cc.u32 %r1, -1, 1; addc.u32 %r0, 5, 6;"), 12},
		{R32("add.cc.u32 %r1, 1, 1; addc.u32 %r0, 5, 6;"), 11},
		{R32("sub.cc.u32 %r1, 0, 1; subc.u32 %r0, 5, 1;"), 3},
		{R32("sub.cc.u32 %r1, 1, 1; subc.u32 %r0, 5, 1;"), 4},
		{R32("mad.lo.cc.u32 %r1, -1, 2, 2; madc.hi.u32 %r0, -1, 2, 0;"), 2},
		{R32("sub.cc.u32 %r1, 1, 0; addc.u32 %r0, 0, 0;"), 1},
	};

	(void)state;
	CHECK(sums);
}

static void bits_are_counted_moved_and_permuted(void **state)
{
	static const struct sum sums[] = {
		{R32("popc.b64 %r0, 0xff00ff00ff;"), 24},
		{R32("clz.b32 %r0, 1;"), 31},
		{R32("clz.b64 %r0, 0;"), 64},
		{R32("bfind.s32 %r0, -1;"), 0xffffffff},
		{R32("bfind.u32 %r0, 0x100;"), 8},
		{R32("bfind.shiftamt.u32 %r0, 0x100;"), 23},
		{R32("brev.b32 %r0, 1;"), 0x80000000},
		{R32("bfe.u32 %r0, 0x12345678, 8, 12;"), 0x456},
		{R32("bfe.s32 %r0, 0x00000f00, 8, 4;"), 0xffffffff},
		{R32("bfe.s32 %r0, 0x80000000, 28, 16;"), 0xfffffff8},
		{R32("bfi.b32 %r0, 0xff, 0, 8, 4;"), 0xf00},
		{R32("prmt.b32 %r0, 0x33221100, 0x77665544, 0x7531;"), 0x77553311},
		{R32("prmt.b32 %r0, 0x80, 0, 0x8888;"), 0xffffffff},
		{R32("lop3.b32 %r0, 0xf0, 0xcc, 0xaa, 0x96;"), 0xf0 ^ 0xcc ^ 0xaa},
		{R32("shf.l.wrap.b32 %r0, 0x80000001, 0x2, 33;"), 5},
		{R32("shf.r.clamp.b32 %r0, 1, 0x12345678, 40;"), 0x12345678},
		{R32("shl.b32 %r0, 1, 32;"), 0},
		{R32("shr.s32 %r0, -8, 40;"), 0xffffffff},
		{R32("dp4a.s32.s32 %r0, 0x01ff0203, 0x01010101, 10;"), 15},
		{R32("fns.b32 %r0, 0x50, 0, 2;"), 6},
		{R32("szext.wrap.s32 %r0, 0xf, 4;"), 0xffffffff},
		{R32("bmsk.clamp.b32 %r0, 4, 8;"), 0xff0},
	};

	(void)state;
	CHECK(sums);
}

static void floats_round_in_the_named_direction(void **state)
{
	static const struct sum sums[] = {
		{F32("add.rn.f32 %f0, 0f3F800000, 0f33000000;"), 0x3f800000},
		{F32("add.rp.f32 %f0, 0f3F800000, 0f33000000;"), 0x3f800001},
		{F32("sub.rz.f32 %f0, 0f3F800000, 0f33000000;"), 0x3f7fffff},
		{F32("div.rm.f32 %f0, 0f3F800000, 0f40400000;"), 0x3eaaaaaa},
		{F32("div.rp.f32 %f0, 0f3F800000, 0f40400000;"), 0x3eaaaaab},
		{F32("fma.rn.f32 %f0, 0f3F800001, 0f3F800001, 0fBF800002;"), 0x28800000},
		{F32("mul.ftz.f32 %f0, 0f00800000, 0f3F000000;"), 0},
		{F32("mul.f32 %f0, 0f00800000, 0f3F000000;"), 0x00400000},
		{F32("add.sat.f32 %f0, 0f3F800000, 0f3F800000;"), 0x3f800000},
		{F32("sub.f32 %f0, 0f7F800000, 0f7F800000;"), 0x7fffffff},
		{F32("min.f32 %f0, 0f7FC00000, 0f3F800000;"), 0x3f800000},
		{F32("max.NaN.f32 %f0, 0f7FC00000, 0f3F800000;"), 0x7fffffff},
		{F32("min.f32 %f0, 0f00000000, 0f80000000;"), 0x80000000},
		{F32("sqrt.rn.f32 %f0, 0f40000000;"), 0x3fb504f3},
		{F32("rcp.approx.f32 %f0, 0f40800000;"), 0x3e800000},
		{F32("ex2.approx.f32 %f0, 0f40400000;"), 0x41000000},
		{F32("copysign.f32 %f0, 0f80000000, 0f3F800000;"), 0xbf800000},
		{"add.rp.f64 %d0, 0d3FF0000000000000, 0d3C00000000000000;", 0x3ff0000000000001},
		{"fma.rn.f64 %d0, 0d4000000000000000, 0d4008000000000000, 0d3FF0000000000000;",
		 0x401c000000000000},
	};

	(void)state;
	CHECK(sums);
}

static void conversions_round_and_saturate(void **state)
{
	static const struct sum sums[] = {
		{R32("cvt.rzi.s32.f32 %r0, 0fC0200000;"), (uint32_t)-2},
		{R32("cvt.rni.s32.f32 %r0, 0fC0200000;"), (uint32_t)-2},
		{R32("cvt.rmi.s32.f32 %r0, 0fC0200000;"), (uint32_t)-3},
		{R32("cvt.rpi.s32.f32 %r0, 0f40200000;"), 3},
		{R32("cvt.rzi.s32.f32 %r0, 0f7F800000;"), 0x7fffffff},
		{R32("cvt.rzi.u32.f32 %r0, 0fBF800000;"), 0},
		{R32("cvt.rzi.s32.f32 %r0, 0f7FC00000;"), 0},
		{"cvt.rzi.s64.f64 %d0, 0d7FF8000000000000;", 1ull << 63},
		{"cvt.rzi.u64.f64 %d0, 0d43F0000000000000;", UINT64_MAX},
		{"mov.b32 %r1, 0x1ff; cvt.s64.s8 %d0, %r1;", UINT64_MAX},
		{"mov.b32 %r1, 0x1ff; cvt.u64.u8 %d0, %r1;", 0xff},
		{R32("cvt.sat.u8.s32 %r0, 300;"), 255},
		{R32("cvt.sat.s8.s32 %r0, -300;"), (uint32_t)-128},
		{R32("mov.s32 %r0, -WARP_SZ;"), (uint32_t)-32},
		{F32("cvt.rn.f32.u64 %f0, 0xffffff8000000001;"), 0x5f800000},
		{F32("cvt.rz.f32.s32 %f0, 0x7fffffff;"), 0x4effffff},
		{F32("cvt.sat.f32.f32 %f0, 0f40000000;"), 0x3f800000},
		{F32("cvt.rmi.f32.f32 %f0, 0fBFC00000;"), 0xc0000000},
		{F32("cvt.rn.f32.f64 %f0, 0d3FB999999999999A;"), 0x3dcccccd},
		{H16("cvt.rn.f16.f32 %h0, 0f477FEF00;"), 0x7bff},
		{H16("cvt.rn.f16.f32 %h0, 0f477FF000;"), 0x7c00},
		{H16("cvt.rz.f16.f32 %h0, 0f477FF000;"), 0x7bff},
		{H16("cvt.rn.f16.f32 %h0, 0f33800000;"), 1},
		{H16("cvt.rn.bf16.f32 %h0, 0f3F808001;"), 0x3f81},
		{R32("cvt.rn.f16x2.f32 %r0, 0f3F800000, 0f40000000;"), 0x3c004000},
	};

	(void)state;
	CHECK(sums);
}

static void halves_are_rounded_once(void **state)
{
	static const struct sum sums[] = {
		{H16("mov.b16 %h1, 0x3c00; mov.b16 %h2, 0x1000; add.f16 %h0, %h1, %h2;"), 0x3c00},
		{H16("mov.b16 %h1, 0x3c01; mov.b16 %h2, 0x1000; add.f16 %h0, %h1, %h2;"), 0x3c02},
		{H16("mov.b16 %h1, 0x4200; fma.rn.f16 %h0, %h1, %h1, %h1;"), 0x4a00},
		{H16("mov.b16 %h1, 0x7bff; mul.f16 %h0, %h1, %h1;"), 0x7c00},
		{R32("mov.b32 %r1, 0x3c004000; add.f16x2 %r0, %r1, %r1;"), 0x40004400},
		{H16("mov.b16 %h1, 0x3f80; fma.rn.bf16 %h0, %h1, %h1, %h1;"), 0x4000},
	};

	(void)state;
	CHECK(sums);
}

static void comparisons_know_unordered(void **state)
{
	static const struct sum sums[] = {
		{R32("setp.lt.f32 %p0, 0f7FC00000, 0f00000000; selp.u32 %r0, 1, 0, %p0;"), 0},
		{R32("setp.ltu.f32 %p0, 0f7FC00000, 0f00000000; selp.u32 %r0, 1, 0, %p0;"), 1},
		{R32("setp.ne.f32 %p0, 0f7FC00000, 0f00000000; selp.u32 %r0, 1, 0, %p0;"), 0},
		{R32("setp.lt.s32 %p0|%p1, -1, 0; selp.u32 %r0, 1, 2, %p1;"), 2},
		{R32("setp.lo.u32 %p0, -1, 0; selp.u32 %r0, 1, 2, %p0;"), 2},
		{R32("setp.eq.s32 %p1, 0, 0; setp.eq.and.s32 %p0, 1, 1, !%p1; "
		     "selp.u32 %r0, 1, 2, %p0;"),
		 2},
		{R32("set.gt.u32.f32 %r0, 0f40000000, 0f3F800000;"), 0xffffffff},
		{R32("set.gt.f32.s32 %r0, 2, 1;"), 0x3f800000},
		{R32("slct.u32.s32 %r0, 7, 8, -1;"), 8},
		{R32("testp.subnormal.f32 %p0, 0f00000001; selp.u32 %r0, 1, 0, %p0;"), 1},
	};

	(void)state;
	CHECK(sums);
}

static void vectors_pack_and_unpack(void **state)
{
	static const struct sum sums[] = {
		{"mov.b64 %d0, {0x11, 0x22};", 0x2200000011},
		{R32("mov.b64 {%r1, %r0}, 0x1234567800000001;"), 0x12345678},
		{R32("mov.b32 {_, %h1}, 0xabcd1234; cvt.u32.u16 %r0, %h1;"), 0xabcd},
		{"st.global.v4.u32 [%out+16], {1, 2, 3, 4}; ld.global.v2.u64 {%d1, %d0}, "
		 "[%out+16];",
		 0x400000003},
		{"st.global.u8 [%out+3], 0xff; ld.global.s8 %d0, [%out+3];", UINT64_MAX},
	};

	(void)state;
	CHECK(sums);
}

static void lanes_that_part_meet_again(void **state)
{
	(void)state;
	assert_int_equal(run_text(HEAD KERNEL
				  "and.b32 %r1, %t, 3; mov.u32 %r2, 0;\n"
				  "loop: setp.eq.s32 %p1, %r1, 0; @%p1 bra done;\n"
				  "add.s32 %r2, %r2, %r1; sub.s32 %r1, %r1, 1; bra loop;\n"
				  "done: activemask.b32 %r3; mad.lo.s32 %r2, %r2, 1000, 0;\n"
				  "popc.b32 %r3, %r3; add.s32 %r2, %r2, %r3;\n"
				  "st.global.u32 [%at], %r2;\n" END,
				  32),
			 CUDA_SUCCESS);
	for (unsigned int i = 0; i < 32; i++)
		assert_int_equal(output()[i], (i & 3) * ((i & 3) + 1) / 2 * 1000 + 32);
}

static void a_branch_table_sends_each_lane_its_way(void **state)
{
	(void)state;
	assert_int_equal(run_text(HEAD KERNEL
				  "t: .branchtargets a, b, c;\n"
				  "rem.u32 %r1, %t, 3; brx.idx %r1, t;\n"
				  "a: mov.u32 %r2, 10; bra out;\nb: mov.u32 %r2, 20; bra out;\n"
				  "c: mov.u32 %r2, 30;\nout: st.global.u32 [%at], %r2;\n" END,
				  32),
			 CUDA_SUCCESS);
	for (unsigned int i = 0; i < 32; i++)
		assert_int_equal(output()[i], (i % 3 + 1) * 10);
}

#define FUNC                                                                                       \
	".func (.param .b32 ret0) fact(.param .b32 n) {\n"                                         \
	".reg .b32 %r<9>; .reg .pred %p<2>; ld.param.u32 %r1, [n];\n"                              \
	"setp.lt.s32 %p1, %r1, 2; @%p1 bra one;\n"                                                 \
	"sub.s32 %r2, %r1, 1;\n"                                                                   \
	"{ .param .b32 p0; st.param.b32 [p0+0], %r2; .param .b32 r0;\n"                            \
	"call.uni (r0), fact, (p0); ld.param.b32 %r3, [r0+0]; }\n"                                 \
	"mul.lo.s32 %r4, %r3, %r1; st.param.b32 [ret0+0], %r4; ret;\n"                             \
	"one: st.param.b32 [ret0+0], 1; ret; }\n"                                                  \
	".func (.param .b32 ret0) twice(.param .b32 n) {\n"                                        \
	".reg .b32 %r<9>; ld.param.u32 %r1, [n]; add.s32 %r1, %r1, %r1;\n"                         \
	"st.param.b32 [ret0+0], %r1; ret; }\n"

static void functions_call_themselves(void **state)
{
	(void)state;
	assert_int_equal(run_text(HEAD FUNC KERNEL
				  "and.b32 %r1, %t, 7;\n"
				  "{ .param .b32 p0; st.param.b32 [p0+0], %r1; .param .b32 r0;\n"
				  "call (r0), fact, (p0); ld.param.b32 %r2, [r0+0]; }\n"
				  "st.global.u32 [%at], %r2;\n" END,
				  40),
			 CUDA_SUCCESS);
	assert_int_equal(output()[5], 120);
	assert_int_equal(output()[39], 5040);
}

static void functions_are_called_through_a_table(void **state)
{
	(void)state;
	assert_int_equal(run_text(HEAD FUNC
				  ".global .u64 table[2] = {fact, twice};\n" KERNEL
				  "and.b32 %r1, %t, 1; mov.u64 %d1, table;\n"
				  "mad.wide.u32 %d1, %r1, 8, %d1; ld.global.u64 %d2, [%d1];\n"
				  "{ .param .b32 p0; st.param.b32 [p0+0], 5; .param .b32 r0;\n"
				  "proto: .callprototype (.param .b32 _) _ (.param .b32 _);\n"
				  "call (r0), %d2, (p0), proto; ld.param.b32 %r2, [r0+0]; }\n"
				  "st.global.u32 [%at], %r2;\n" END,
				  4),
			 CUDA_SUCCESS);
	assert_int_equal(output()[0], 120);
	assert_int_equal(output()[1], 10);
	assert_int_equal(output()[3], 10);
}

static void a_call_of_no_function_is_an_error(void **state)
{
	(void)state;
	assert_int_equal(run_text(HEAD KERNEL "mov.u64 %d1, 4096; call %d1, (), q;\n" END, 1),
			 CUDA_ERROR_INVALID_PC);
}

static void recursion_without_end_is_a_stack_error(void **state)
{
	(void)state;
	assert_int_equal(run_text(HEAD ".func f() { .local .b8 a[64]; call f; ret; }\n" KERNEL
				       "call f;\n" END,
				  1),
			 CUDA_ERROR_HARDWARE_STACK_ERROR);
}

static void variables_are_placed_and_initialised(void **state)
{
	struct ck_ptx_module *module = module_of(
		HEAD
		".global .align 4 .b8 bytes[4] = {1, 2, 3};\n"
		".global .u64 pointer = generic(bytes)+1;\n"
		".const .f32 pi = 0f40490FDB;\n"
		".visible .global .align 8 .u32 grid[2][2] = {{1, 2}, {3, 4}};\n" KERNEL
		"ld.global.u64 %d1, [pointer]; ld.u8 %r1, [%d1+1]; st.global.u32 [%out], %r1;\n"
		"ld.const.u32 %r1, [pi]; st.global.u32 [%out+4], %r1;\n"
		"ld.global.u32 %r1, [grid+12]; st.global.u32 [%out+8], %r1;\n" END);
	uint64_t address;
	size_t size;

	(void)state;
	assert_int_equal(ck_ptx_variable(module, "grid", &address, &size), 0);
	assert_int_equal(size, 16);
	assert_int_equal(address % 8, 0);
	assert_int_equal(ck_ptx_variable(module, "none", &address, &size), -ENOENT);
	assert_int_equal(launch(module, 1, 1), CUDA_SUCCESS);
	assert_int_equal(output()[0], 3);
	assert_int_equal(output()[1], 0x40490fdb);
	assert_int_equal(output()[2], 4);
	ck_ptx_destroy(module);
}

static void a_kernel_tells_its_needs(void **state)
{
	struct ck_ptx_module *module = module_of(
		HEAD ".visible .entry k(.param .u32 a, .param .align 8 .b8 b[12], .param .u8 c)\n"
		     ".maxntid 128, 2, 1 {\n.shared .align 4 .b8 s[100]; .local .b8 l[20];\n"
		     ".reg .b32 %r<3>; mov.u32 %r1, s; mov.u32 %r2, l;\n" END);
	struct ck_ptx_kernel_info info;

	(void)state;
	ck_ptx_kernel_info(ck_ptx_kernel_at(module, 0), &info);
	assert_string_equal(info.name, "k");
	assert_int_equal(info.param_count, 3);
	assert_int_equal(info.params[1].offset, 8);
	assert_int_equal(info.params[1].size, 12);
	assert_int_equal(info.params[2].offset, 20);
	assert_int_equal(info.param_bytes, 21);
	assert_int_equal(info.shared_bytes, 100);
	assert_int_equal(info.local_bytes, 32);
	assert_int_equal(info.max_threads, 256);
	assert_null(ck_ptx_kernel_at(module, 1));
	assert_null(ck_ptx_kernel_find(module, "other"));
	assert_int_equal(launch(module, 1, 512), CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
	ck_ptx_destroy(module);
}

#define VPRINTF ".extern .func (.param .b32 r) vprintf (.param .b64 f, .param .b64 a);\n"
#define PRINT(text, stores)                                                                        \
	HEAD VPRINTF                                                                               \
		".global .align 1 .b8 fmt[] = {" text "0};\n"                                      \
		".global .align 1 .b8 str[] = {104, 105, 0};\n" KERNEL                             \
		".local .align 8 .b8 buf[64]; .reg .b64 %sp; mov.u64 %sp, buf;\n" stores           \
		"cvta.local.u64 %d1, %sp; mov.u64 %d2, fmt;\n"                                     \
		"{ .param .b64 a; st.param.b64 [a], %d2; .param .b64 b; st.param.b64 [b], %d1;\n"  \
		".param .b32 r; call (r), vprintf, (a, b); ld.param.b32 %r1, [r]; }\n"             \
		"st.global.u32 [%out], %r1;\n" END

static void printf_formats_what_the_buffer_holds(void **state)
{
	(void)state;
	/* "%d %s %5.2f%%\n" with -7, "hi", 2.5 */
	assert_int_equal(run_text(PRINT("37,100,32,37,115,32,37,53,46,50,102,37,37,10,",
					"st.local.u32 [%sp], -7; mov.u64 %d3, str;\n"
					"st.local.u64 [%sp+8], %d3;\n"
					"st.local.f64 [%sp+16], 0d4004000000000000;\n"),
				  1),
			 CUDA_SUCCESS);
	assert_string_equal(world.printed, "-7 hi  2.50%\n");
	assert_int_equal(output()[0], 3);
}

static void a_wild_string_of_printf_is_a_fault(void **state)
{
	(void)state;
	assert_int_equal(run_text(PRINT("37,115,", "st.local.u64 [%sp], 64;\n"), 1),
			 CUDA_ERROR_ILLEGAL_ADDRESS);
}

static void a_failed_assert_says_where(void **state)
{
	(void)state;
	assert_int_equal(run_text(HEAD
				  ".extern .func __assertfail (.param .b64 a, .param .b64 b,\n"
				  ".param .b32 c, .param .b64 d, .param .b64 e);\n"
				  ".global .align 1 .b8 what[] = {120, 0};\n"
				  ".global .align 1 .b8 file[] = {102, 0};\n" KERNEL
				  "mov.u64 %d1, what; mov.u64 %d2, file; setp.ne.s32 %p1, %t, 2;\n"
				  "@%p1 bra out;\n"
				  "{ .param .b64 a; st.param.b64 [a], %d1; .param .b64 b;\n"
				  "st.param.b64 [b], %d2; .param .b32 c; st.param.b32 [c], 9;\n"
				  ".param .b64 d; st.param.b64 [d], %d2; .param .b64 e;\n"
				  "st.param.b64 [e], 1; call __assertfail, (a, b, c, d, e); }\n"
				  "out:\n" END,
				  4),
			 CUDA_ERROR_ASSERT);
	assert_string_equal(world.printed,
			    "f:9: f: block: [0,0,0], thread: [2,0,0] Assertion `x` failed.\n");
}

static void device_malloc_comes_from_the_host(void **state)
{
	(void)state;
	assert_int_equal(run_text(HEAD
				  ".extern .func (.param .b64 r) malloc (.param .b64 n);\n"
				  ".extern .func free (.param .b64 p);\n" KERNEL
				  "{ .param .b64 n; st.param.b64 [n], 16; .param .b64 r;\n"
				  "call (r), malloc, (n); ld.param.b64 %d1, [r]; }\n"
				  "st.u32 [%d1+12], 77; ld.u32 %r1, [%d1+12];\n"
				  "st.global.u32 [%out], %r1;\n"
				  "{ .param .b64 p; st.param.b64 [p], %d1; call free, (p); }\n" END,
				  1),
			 CUDA_SUCCESS);
	assert_int_equal(output()[0], 77);
	assert_int_equal(world.allocated, 0);
}

/* A host that holds one allocation at most. */
static int heap_range(void *opaque, uint64_t address, uint64_t *lo, uint64_t *hi)
{
	return world.allocated ? world_range(opaque, address, lo, hi) : -EFAULT;
}

static void what_was_freed_is_no_memory_any_more(void **state)
{
	struct ck_ptx_grid grid = {.grid = {1, 1, 1}, .block = {1, 1, 1}};
	struct ck_ptx_host host = world_host;
	struct ck_ptx_module *module =
		module_of(HEAD ".extern .func (.param .b64 r) malloc (.param .b64 n);\n"
			       ".extern .func free (.param .b64 p);\n" KERNEL
			       "{ .param .b64 n; st.param.b64 [n], 16; .param .b64 r;\n"
			       "call (r), malloc, (n); ld.param.b64 %d1, [r]; }\n"
			       "st.u32 [%d1+12], 77;\n"
			       "{ .param .b64 p; st.param.b64 [p], %d1; call free, (p); }\n"
			       "ld.u32 %r1, [%d1+12];\n" END);
	uint64_t params[1] = {0};

	(void)state;
	host.range = heap_range;
	assert_int_equal(ck_ptx_run(ck_ptx_kernel_find(module, "k"), &grid, params, &host),
			 CUDA_ERROR_ILLEGAL_ADDRESS);
	ck_ptx_destroy(module);
}

static void wild_addresses_are_faults(void **state)
{
	static const char *const accesses[] = {
		"ld.global.u32 %r1, [0];",
		"st.u32 [%d1], 5;",
		"mov.u64 %d1, -8; ld.u64 %d2, [%d1];",
		"ld.shared.u32 %r1, [%r2+1024];",
		"mov.u64 %d1, 0x100000000001000; ld.u32 %r1, [%d1];",
		"ld.local.u32 %r1, [%d1+1000000];",
		"mov.u64 %d1, 0x300000000000008; ld.u64 %d2, [%d1];",
		"atom.add.u32 %r1, [%d1], 1;",
	};
	char text[2048];

	(void)state;
	for (size_t i = 0; i < sizeof(accesses) / sizeof(accesses[0]); i++) {
		snprintf(text, sizeof(text), "%s%s%s",
			 HEAD KERNEL "mov.u64 %d1, 64; mov.u32 %r2, 0;\n", accesses[i], END);
		assert_int_equal(run_text(text, 1), CUDA_ERROR_ILLEGAL_ADDRESS);
	}
}

static void misaligned_addresses_are_faults(void **state)
{
	(void)state;
	assert_int_equal(run_text(HEAD KERNEL "ld.global.u32 %r1, [%out+2];\n" END, 1),
			 CUDA_ERROR_MISALIGNED_ADDRESS);
	assert_int_equal(run_text(HEAD KERNEL "ld.global.v2.u32 {%r1, %r2}, [%out+4];\n" END, 1),
			 CUDA_ERROR_MISALIGNED_ADDRESS);
}

static void trap_ends_the_launch(void **state)
{
	(void)state;
	assert_int_equal(run_text(HEAD KERNEL "setp.eq.s32 %p1, %t, 3; @%p1 trap;\n" END, 2),
			 CUDA_SUCCESS);
	assert_int_equal(run_text(HEAD KERNEL "setp.eq.s32 %p1, %t, 3; @%p1 trap;\n" END, 4),
			 CUDA_ERROR_LAUNCH_FAILED);
}

static void an_endless_kernel_is_stopped(void **state)
{
	struct ck_ptx_module *module = module_of(HEAD KERNEL "again: bra again;\n" END);

	(void)state;
	world.patience = 10;
	assert_int_equal(launch(module, 1, 1), CUDA_ERROR_LAUNCH_TIMEOUT);
	ck_ptx_destroy(module);
}

/* The first instruction of a text needs one register more than there may be. */
static void too_many_registers_are_refused_at_any_operand(void **state)
{
	const unsigned int count = (1u << 18) - 6; /* all but what every function has */
	char *text = malloc(count * 10 + 400), *at = text;
	struct ck_ptx_module *module;
	char log[200];

	(void)state;
	assert_non_null(text);
	at += sprintf(at, "%s", HEAD ".extern .shared .b8 d[];\n.visible .entry k() { .reg .b64 ");
	for (unsigned int i = 0; i < count; i++)
		at += sprintf(at, "%sa%u", i ? ", " : "", i);
	sprintf(at, ";\nmov.u64 a0, d;\nret;\n}\n");
	assert_int_equal(text_parse(text, log, sizeof(log), &module), -EINVAL);
	assert_non_null(strstr(log, "registers in a function"));
	free(text);
}

/* Why the first kernel of a text that can be loaded cannot be launched. */
static const char *kernel_refusal(const char *text)
{
	static char refusal[200];
	struct ck_ptx_kernel_info info;
	struct ck_ptx_module *module;
	char log[200];

	assert_int_equal(text_parse(text, log, sizeof(log), &module), 0);
	assert_string_equal(log, "");
	ck_ptx_kernel_info(ck_ptx_kernel_at(module, 0), &info);
	assert_non_null(info.refusal);
	snprintf(refusal, sizeof(refusal), "%s", info.refusal);
	ck_ptx_destroy(module);
	return refusal;
}

#define ENTRY(name, body) ".visible .entry " name "(.param .u64 p) {\n" body "ret;\n}\n"

/* Also those that reach it through functions; the others run, and all say what they are. */
static void an_unsupported_instruction_refuses_only_its_kernels(void **state)
{
	static const char text[] = HEAD
		".func bad() {\n.reg .b32 %x;\nadd.u8 %x, %x, 1;\nret;\n}\n"
		".func worse() {\ncall bad;\nret;\n}\n" ENTRY(
			"direct",
			".reg .b64 %d<4>;\nL: wgmma.fence.sync.aligned {%d1, %d2}, 4;\nbra L;\n")
			ENTRY("calls", "call worse;\n") ENTRY(
				"fine",
				".reg .b64 %a;\nld.param.u64 %a, [p];\nst.global.u32 [%a], 42;\n");
	struct ck_ptx_kernel_info info;
	struct ck_ptx_module *module;
	char log[200];

	(void)state;
	assert_int_equal(text_parse(text, log, sizeof(log), &module), 0);
	ck_ptx_kernel_info(ck_ptx_kernel_find(module, "direct"), &info);
	assert_non_null(
		strstr(info.refusal, "instruction 'wgmma.fence.sync.aligned' is not supported"));
	ck_ptx_kernel_info(ck_ptx_kernel_find(module, "calls"), &info);
	assert_non_null(strstr(info.refusal, "instruction 'add.u8' is not supported"));
	assert_int_equal(info.param_count, 1);
	ck_ptx_kernel_info(ck_ptx_kernel_find(module, "fine"), &info);
	assert_null(info.refusal);
	ck_ptx_destroy(module);
}

static void what_is_no_instruction_is_malformed(void **state)
{
	(void)state;
	assert_string_equal(refusal(HEAD KERNEL "dance %r1;\n" END, -EOPNOTSUPP),
			    "line 10: instruction 'dance' is not supported");
	assert_string_equal(refusal(HEAD KERNEL "add.u8 %r1, %r1\n}\n", -EINVAL),
			    "line 10: '}' where ';' should be");
	refusal(HEAD KERNEL "wgmma.fence {%r1, %r2\n", -EINVAL);
}

static void what_is_not_known_is_refused_by_name(void **state)
{
	(void)state;
	assert_string_equal(kernel_refusal(HEAD KERNEL "wgmma.mma_async.sync %r1, [%out];\n" END),
			    "line 10: instruction 'wgmma.mma_async.sync' is not supported");
	assert_string_equal(
		refusal(HEAD KERNEL
			"ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r0, %r1}, [%r2];\n" END,
			-EINVAL),
		"line 10: a list of the wrong size in ldmatrix.sync.aligned.m8n8.x4.shared.b16");
	assert_string_equal(kernel_refusal(HEAD KERNEL "vadd.u32.u32.u32 %r0, %r1.h2, %r2;\n" END),
			    "line 10: instruction 'vadd.u32.u32.u32' is not supported");
	assert_string_equal(kernel_refusal(HEAD KERNEL "add.u8 %r1, %r1, %r1;\n" END),
			    "line 10: instruction 'add.u8' is not supported");
	assert_string_equal(kernel_refusal(HEAD KERNEL "add.hi.s32 %r1, %r1, %r1;\n" END),
			    "line 10: instruction 'add.hi.s32' is not supported");
	assert_string_equal(refusal(HEAD ".global .samplerref t;\n", -EOPNOTSUPP),
			    "line 4: .samplerref is not supported here");
	assert_string_equal(refusal(HEAD ".shared .texref t;\n", -EOPNOTSUPP),
			    "line 4: a reference is one .global variable");
	assert_string_equal(refusal(HEAD ".global .texref t[2];\n", -EOPNOTSUPP),
			    "line 4: a reference is one .global variable");
	assert_string_equal(refusal(HEAD ".managed .u32 t;\n", -EOPNOTSUPP),
			    "line 4: directive .managed is not supported");
}

static void mistakes_are_named_with_their_line(void **state)
{
	(void)state;
	assert_string_equal(refusal(HEAD KERNEL "add.s32 %r1, %r1, %x;\n" END, -EINVAL),
			    "line 10: '%x' is not defined");
	assert_string_equal(refusal(HEAD KERNEL "add.s32 %r1, %r1, %r99;\n" END, -EINVAL),
			    "line 10: '%r99' is not defined");
	assert_string_equal(
		kernel_refusal(HEAD ".func f(.param .align 16 .b8 a[16]) { ret; }\n" KERNEL
				    ".reg .b128 %q; mov.b128 %q, {%d1, %d2};\ncall f, (%q);\n" END),
		"line 12: a register of 128 bits as an argument");
	assert_string_equal(refusal(HEAD KERNEL "add.s32 %r1, %r1, -%r2;\n" END, -EINVAL),
			    "line 10: '-' in front of an operand of add.s32");
	assert_string_equal(refusal(HEAD KERNEL "mov.u32 -%r1, 5;\n" END, -EINVAL),
			    "line 10: the destination of mov.u32 is not a register");
	assert_string_equal(refusal(HEAD KERNEL "add.s32 %r1, %r1;\n" END, -EINVAL),
			    "line 10: 2 operands are wrong for add.s32");
	assert_string_equal(refusal(HEAD KERNEL "bra nowhere;\n" END, -EINVAL),
			    "line 12: label 'nowhere' is not defined (used on line 10)");
	assert_string_equal(refusal(HEAD ".extern .func f();\n" KERNEL "call f;\n" END, -EINVAL),
			    "line 14: unresolved external function 'f'");
	assert_string_equal(kernel_refusal(HEAD ".extern .func cudaLaunchDeviceV2();\n" KERNEL
						"call cudaLaunchDeviceV2;\n" END),
			    "'cudaLaunchDeviceV2': launches from kernels are not supported");
	assert_string_equal(refusal(HEAD KERNEL "ret;\n", -EINVAL),
			    "line 11: the text ends where '}' should be");
}

static void debug_information_is_skipped(void **state)
{
	(void)state;
	assert_int_equal(run_text(HEAD
				  ".file 1 \"a.cu\"\n" KERNEL
				  ".loc 1 3 5\n.loc 1 3 5, function_name $x+4, inlined_at 1 2 3\n"
				  ".pragma \"nounroll\";\nst.global.u32 [%out], 9; // { }\n" END
				  ".section .debug_str { .b8 1 x: .b64 y }\n",
				  1),
			 CUDA_SUCCESS);
	assert_int_equal(output()[0], 9);
}

static void registers_of_128_bits_are_moved_whole(void **state)
{
	(void)state;
	assert_int_equal(
		run_text(
			HEAD
			".shared .align 16 .b8 s[64];\n" KERNEL
			".reg .b128 %q<3>, %w; mov.b64 %d1, 0x1111111122222222;\n"
			"mov.b64 %d2, 0x3333333344444444; mov.b128 %q1, {%d1, %d2};\n"
			"mov.b128 %w, %q1; st.shared.b128 [s+16], %w; ld.shared.b128 %q2, [s+16];\n"
			"mov.b128 {%d3, %d4}, %q2; add.u64 %d3, %d3, %d4;\n"
			"mov.b128 %q0, {%d4, %d1};\n"
			"atom.shared.cas.b128 %w, [s+16], %q1, %q0; mov.b128 {%d5, %d6}, %w;\n"
			"atom.shared.cas.b128 _, [s+16], %q1, %q1;\n"
			"atom.shared.exch.b128 %w, [s+16], %q1; mov.b128 {%d7, %d8}, %w;\n"
			"st.global.u64 [%out], %d3; st.global.u64 [%out+8], %d6;\n"
			"st.global.v2.u64 [%out+16], {%d7, %d8};\n" END,
			1),
		CUDA_SUCCESS);
	assert_int_equal(((uint64_t *)(void *)output())[0], 0x4444444466666666);
	assert_int_equal(((uint64_t *)(void *)output())[1], 0x3333333344444444);
	assert_int_equal(((uint64_t *)(void *)output())[2], 0x3333333344444444);
	assert_int_equal(((uint64_t *)(void *)output())[3], 0x1111111122222222);
	/* half of the address' alignment is not enough */
	assert_int_equal(
		run_text(HEAD KERNEL ".reg .b128 %q; ld.global.b128 %q, [%out+8];\n" END, 1),
		CUDA_ERROR_MISALIGNED_ADDRESS);
}

static void other_registers_are_not_of_128_bits(void **state)
{
	static const char *const bodies[] = {"mov.b128 %q, %d1;",
					     "ld.global.b128 %d1, [%out];",
					     "st.global.b128 [%out], 1;",
					     "mov.b128 %q, {%d1, %d2, %d3, %d4};",
					     "atom.global.add.b128 %q, [%out], %q;",
					     "atom.global.cas.b128 %q, [%out], %q, %d1;",
					     "add.b128 %q, %q, %q;"};
	char text[2000], log[200];
	struct ck_ptx_module *module;

	(void)state;
	for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
		snprintf(text, sizeof(text), "%s.reg .b128 %%q; %s\n%s", HEAD KERNEL, bodies[i],
			 END);
		if (text_parse(text, log, sizeof(log), &module) == 0) {
			ck_ptx_destroy(module);
			kernel_refusal(text);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(integers_wrap_clamp_and_divide),
		cmocka_unit_test(carries_run_from_word_to_word),
		cmocka_unit_test(bits_are_counted_moved_and_permuted),
		cmocka_unit_test(floats_round_in_the_named_direction),
		cmocka_unit_test(conversions_round_and_saturate),
		cmocka_unit_test(halves_are_rounded_once),
		cmocka_unit_test(comparisons_know_unordered),
		cmocka_unit_test(vectors_pack_and_unpack),
		cmocka_unit_test(lanes_that_part_meet_again),
		cmocka_unit_test(a_branch_table_sends_each_lane_its_way),
		cmocka_unit_test(functions_call_themselves),
		cmocka_unit_test(functions_are_called_through_a_table),
		cmocka_unit_test(a_call_of_no_function_is_an_error),
		cmocka_unit_test(recursion_without_end_is_a_stack_error),
		cmocka_unit_test(variables_are_placed_and_initialised),
		cmocka_unit_test(a_kernel_tells_its_needs),
		cmocka_unit_test(printf_formats_what_the_buffer_holds),
		cmocka_unit_test(a_wild_string_of_printf_is_a_fault),
		cmocka_unit_test(a_failed_assert_says_where),
		cmocka_unit_test(device_malloc_comes_from_the_host),
		cmocka_unit_test(what_was_freed_is_no_memory_any_more),
		cmocka_unit_test(wild_addresses_are_faults),
		cmocka_unit_test(misaligned_addresses_are_faults),
		cmocka_unit_test(trap_ends_the_launch),
		cmocka_unit_test(an_endless_kernel_is_stopped),
		cmocka_unit_test(too_many_registers_are_refused_at_any_operand),
		cmocka_unit_test(what_is_not_known_is_refused_by_name),
		cmocka_unit_test(an_unsupported_instruction_refuses_only_its_kernels),
		cmocka_unit_test(what_is_no_instruction_is_malformed),
		cmocka_unit_test(mistakes_are_named_with_their_line),
		cmocka_unit_test(debug_information_is_skipped),
		cmocka_unit_test(registers_of_128_bits_are_moved_whole),
		cmocka_unit_test(other_registers_are_not_of_128_bits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
