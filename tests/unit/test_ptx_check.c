/*
 * tests/unit/test_ptx_check.c - looking for races and uninitialised reads in shared memory: what is
 * told, and what is not because something orders it.
 */
#include "tests/unit/ptx_world.h"

#include "util/log.h"

/* Lines told since the last launch, and the first of them. */
static unsigned int told;
static char first[400];

static void count_line(int level, char *text, size_t size)
{
	assert_int_equal(level, CK_LOG_WARNING);
	if (told++ == 0)
		snprintf(first, sizeof(first), "%.*s", (int)size, text);
}

/*
 * Lines about two blocks of @threads that run @body, whose shared memory is s, of 4 KB, and of
 * which each thread has %a = s + 4 * tid, %b the same of the thread beside it, %c of the one in
 * the next warp but one.
 */
static unsigned int lines(unsigned int check, unsigned int threads, const char *body)
{
	static const char prologue[] =
		HEAD ".shared .align 16 .b8 s[4096];\n" KERNEL
		     ".reg .b32 %a, %b, %c, %s; mov.u32 %s, s; mad.lo.u32 %a, %t, 4, %s;\n"
		     "xor.b32 %r1, %t, 1; mad.lo.u32 %b, %r1, 4, %s;\n"
		     "xor.b32 %r1, %t, 32; mad.lo.u32 %c, %r1, 4, %s;\n"
		     "setp.lt.u32 %p8, %t, 32; setp.eq.u32 %p7, %t, 0;\n";
	struct ck_ptx_host host = world_host;
	struct ck_ptx_grid grid = {.grid = {2, 1, 1}, .block = {threads, 1, 1}};
	char text[8000];
	struct ck_ptx_module *module;
	uint64_t params[1];

	host.check = check;
	snprintf(text, sizeof(text), "%s%s%s", prologue, body, END);
	module = module_of(text);
	params[0] = (uint64_t)(uintptr_t)output();
	told = 0;
	first[0] = '\0';
	ck_log_hook(count_line);
	assert_int_equal(ck_ptx_run(ck_ptx_kernel_find(module, "k"), &grid, params, &host),
			 CUDA_SUCCESS);
	ck_log_hook(NULL);
	ck_ptx_destroy(module);
	return told;
}

#define RACES(threads, body) lines(CK_PTX_CHECK_RACE, threads, body)
#define UNREAD(threads, body) lines(CK_PTX_CHECK_INIT, threads, body)

static void nothing_is_told_unasked(void **state)
{
	(void)state;
	assert_int_equal(lines(0, 64, "st.shared.u32 [%a], 1; ld.shared.u32 %r2, [%c];"), 0);
}

static void a_read_of_what_another_thread_writes_is_told_once(void **state)
{
	(void)state;
	assert_int_equal(RACES(64, "st.shared.u32 [%a], %t;\nld.shared.u32 %r2, [%c];"), 1);
	assert_non_null(strstr(first, "race: kernel k, block 0,0,0: thread 32,0,0 writes 0x80"));
	assert_non_null(strstr(first, "of shared memory (s + 128) in 'st', line"));
	assert_non_null(strstr(first, "thread 0,0,0 reads it in 'ld', line"));
	/* the lanes of a warp are threads like others */
	assert_int_equal(RACES(32, "st.shared.u32 [%a], %t;\nld.shared.u32 %r2, [%b];"), 1);
	/* part of it is enough, vectors and generic addresses are the same */
	assert_int_equal(RACES(64, "st.shared.u8 [%a+3], %t;\nld.shared.u32 %r2, [%c];"), 1);
	assert_int_equal(RACES(64, "st.shared.u32 [%a], %t; mov.u32 %r1, s;\n"
				   "cvt.u64.u32 %d1, %r1; cvta.shared.u64 %d1, %d1;\n"
				   "ld.v4.u32 {%r2, %r3, %r4, %r5}, [%d1];"),
			 1);
}

static void a_write_where_others_read_or_write_is_told(void **state)
{
	(void)state;
	assert_int_equal(RACES(64, "ld.shared.u32 %r2, [%c];\nst.shared.u32 [%a], %t;"), 1);
	assert_non_null(strstr(first, "writes"));
	assert_int_equal(RACES(64, "ld.shared.u32 %r2, [%s];\n@%p7 st.shared.u32 [%s], 5;"), 1);
	assert_int_equal(RACES(32, "st.shared.u32 [%s], %t;"), 1);
	/* who finds there what he brings harms nobody */
	assert_int_equal(RACES(64, "st.shared.u32 [%s], 1;"), 0);
}

static void each_pair_of_places_is_told(void **state)
{
	(void)state;
	assert_int_equal(RACES(64, "st.shared.u32 [%a], %t;\nld.shared.u32 %r2, [%c];\n"
				   "ld.shared.u32 %r2, [%c];"),
			 2);
}

static void a_barrier_of_the_block_orders(void **state)
{
	(void)state;
	assert_int_equal(RACES(64, "st.shared.u32 [%a], %t; bar.sync 0; ld.shared.u32 %r2, [%c];\n"
				   "bar.sync 0; st.shared.u32 [%c], %t;"),
			 0);
	assert_int_equal(RACES(40, "st.shared.u32 [%a], %t; barrier.sync 0;\n"
				   "@%p8 exit; bar.sync 0; ld.shared.u32 %r2, [%b];"),
			 0);
	assert_int_equal(RACES(64, "st.shared.u32 [%a], %t; bar.sync 0; st.shared.u32 [%c], %t;\n"
				   "ld.shared.u32 %r2, [%a];"),
			 1);
}

static void the_barrier_of_a_warp_orders_its_members(void **state)
{
	(void)state;
	assert_int_equal(RACES(64, "st.shared.u32 [%a], %t; bar.warp.sync -1;\n"
				   "ld.shared.u32 %r2, [%b]; bar.warp.sync -1;\n"
				   "st.shared.u32 [%a], %r2;"),
			 0);
	/* another warp is no member, nor are lanes outside the mask */
	assert_int_equal(RACES(64, "st.shared.u32 [%a], %t; bar.warp.sync -1;\n"
				   "ld.shared.u32 %r2, [%c];"),
			 1);
	assert_int_equal(RACES(32, "st.shared.u32 [%a], %t; xor.b32 %r3, %t, 1;\n"
				   "and.b32 %r4, %t, 1; mov.u32 %r5, 0x55555555;\n"
				   "setp.ne.u32 %p1, %r4, 0; @%p1 mov.u32 %r5, 0xaaaaaaaa;\n"
				   "bar.warp.sync %r5; ld.shared.u32 %r2, [%b];"),
			 1);
	/* lanes that come to it at different places */
	assert_int_equal(RACES(32, "st.shared.u32 [%a], %t; setp.lt.u32 %p1, %t, 16;\n"
				   "@%p1 bra low; bar.warp.sync -1; bra.uni on;\n"
				   "low: bar.warp.sync -1;\non: ld.shared.u32 %r2, [%b];"),
			 0);
	/* a shuffle passes a value on, it is not said to order memory */
	assert_int_equal(RACES(32,
			       "st.shared.u32 [%a], %t; shfl.sync.bfly.b32 %r3, %t, 1, 31, -1;\n"
			       "ld.shared.u32 %r2, [%b];"),
			 1);
}

static void named_barriers_order_who_takes_part(void **state)
{
	(void)state;
	/* the first warp produces, the second consumes */
	assert_int_equal(RACES(64,
			       "@!%p8 bra use; st.shared.u32 [%a], %t; bar.arrive 1, 64;\n"
			       "bra.uni end; use: bar.sync 1, 64; ld.shared.u32 %r2, [%c];\nend:"),
			 0);
	/* who only arrives knows nothing of the others */
	assert_int_equal(
		RACES(64, "@%p8 bra use; st.shared.u32 [%a], %t; bar.sync 1, 64;\n"
			  "bra.uni end; use: bar.arrive 1, 64; ld.shared.u32 %r2, [%c];\nend:"),
		1);
	/* two warps of three: the third one is not ordered */
	assert_int_equal(RACES(96, "st.shared.u32 [%a], %t; setp.ge.u32 %p1, %t, 64;\n"
				   "@%p1 bra third; bar.sync 2, 64; ld.shared.u32 %r2, [%c];\n"
				   "bra.uni end; third: ld.shared.u32 %r2, [%s];\nend:"),
			 1);
	assert_non_null(strstr(first, "thread 64,0,0 reads"));
}

static void atomics_are_no_race_among_themselves(void **state)
{
	(void)state;
	assert_int_equal(RACES(64, "red.shared.add.u32 [%s], 1; atom.shared.add.u32 %r2, [%s], 1;"),
			 0);
	assert_int_equal(RACES(64, "red.shared.add.u32 [%s], 1;\n@%p7 ld.shared.u32 %r2, [%s];"),
			 1);
	assert_int_equal(
		RACES(64, "st.volatile.shared.u32 [%a], 1; ld.volatile.shared.u32 %r2, [%c];"), 0);
}

/* The first warp's data, told by a flag; the second waits for it. */
#define FLAG(write, after_write, read, after_read)                                                 \
	"@!%p8 bra wait; st.shared.u32 [%a], %t; bar.warp.sync -1;\n" after_write "@%p7 " write    \
	".u32 [%s+1024], 1; bra.uni end;\n"                                                        \
	"wait: " read ".u32 %r3, [%s+1024]; setp.eq.u32 %p1, %r3, 0; @%p1 bra wait;\n" after_read  \
	"ld.shared.u32 %r2, [%c];\nend:"

static void flags_order_with_fences_or_by_themselves(void **state)
{
	(void)state;
	assert_int_equal(RACES(64, FLAG("st.volatile.shared", "membar.cta;", "ld.volatile.shared",
					"membar.cta;")),
			 0);
	assert_int_equal(RACES(64, FLAG("st.release.cta.shared", "", "ld.acquire.cta.shared", "")),
			 0);
	assert_int_equal(
		RACES(64, FLAG("st.volatile.shared", "", "ld.volatile.shared", "membar.cta;")), 1);
	assert_int_equal(
		RACES(64, FLAG("st.volatile.shared", "membar.cta;", "ld.volatile.shared", "")), 1);
	/* a flag that is read as any other value is itself a race */
	assert_true(RACES(64, FLAG("st.volatile.shared", "membar.cta;", "ld.shared",
				   "membar.cta;")) > 0);
}

static void a_lock_orders_who_holds_it(void **state)
{
	static const char with[] =
		"mov.u32 %r5, 0; again: atom.shared.cas.b32 %r3, [%s+1024], 0, 1;\n"
		"setp.ne.u32 %p1, %r3, 0; @%p1 bra again; membar.cta;\n"
		"ld.shared.u32 %r4, [%s]; add.u32 %r4, %r4, 1; st.shared.u32 [%s], %r4;\n"
		"membar.cta; atom.shared.exch.b32 %r3, [%s+1024], 0;";
	static const char without[] =
		"mov.u32 %r5, 0; again: atom.shared.cas.b32 %r3, [%s+1024], 0, 1;\n"
		"setp.ne.u32 %p1, %r3, 0; @%p1 bra again;\n"
		"ld.shared.u32 %r4, [%s]; add.u32 %r4, %r4, 1; st.shared.u32 [%s], %r4;\n"
		"atom.shared.exch.b32 %r3, [%s+1024], 0;";

	(void)state;
	assert_int_equal(RACES(64, with), 0);
	assert_true(RACES(64, without) > 0);
}

static void copies_are_there_when_they_were_waited_for(void **state)
{
	(void)state;
	assert_int_equal(RACES(64, "cp.async.ca.shared.global [%a], [%at], 4;\n"
				   "cp.async.commit_group; cp.async.wait_group 0; bar.sync 0;\n"
				   "ld.shared.u32 %r2, [%c];"),
			 0);
	assert_int_equal(RACES(64, "cp.async.ca.shared.global [%a], [%at], 4;\n"
				   "cp.async.commit_group; bar.sync 0; ld.shared.u32 %r2, [%c];"),
			 1);
	assert_non_null(strstr(first, "a copy that has not been waited for"));
	/* one's own copy too; and the groups before the last are enough for them */
	assert_int_equal(RACES(32, "cp.async.ca.shared.global [%a], [%at], 4;\n"
				   "ld.shared.u32 %r2, [%a];"),
			 1);
	assert_int_equal(RACES(32, "cp.async.ca.shared.global [%a], [%at], 4;\n"
				   "cp.async.commit_group;\n"
				   "cp.async.ca.shared.global [%a+512], [%at], 4;\n"
				   "cp.async.commit_group; cp.async.wait_group 1;\n"
				   "ld.shared.u32 %r2, [%a];"),
			 0);
	assert_int_equal(RACES(32, "cp.async.ca.shared.global [%a], [%at], 4;\n"
				   "cp.async.commit_group;\n"
				   "cp.async.ca.shared.global [%a+512], [%at], 4;\n"
				   "cp.async.commit_group; cp.async.wait_group 1;\n"
				   "ld.shared.u32 %r2, [%a+512];"),
			 1);
}

#define BULK(wait)                                                                                 \
	"@%p7 mbarrier.init.shared.b64 [%s+1024], 1; bar.sync 0; @!%p7 bra use;\n"                 \
	"mbarrier.arrive.expect_tx.shared.b64 _, [%s+1024], 256;\n"                                \
	"cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes\n"                      \
	"[%s], [%out], 256, [%s+1024];\nuse:" wait "ld.shared.u32 %r2, [%a];"

static void mbarriers_order_who_waits_at_them(void **state)
{
	(void)state;
	assert_int_equal(RACES(64, BULK("mbarrier.try_wait.parity.shared.b64 %p1, [%s+1024], 0;\n"
					"@!%p1 bra use;")),
			 0);
	assert_true(RACES(64, BULK("")) > 0);
	assert_non_null(strstr(first, "a bulk copy writes"));
	/* threads that arrive and wait */
	assert_int_equal(
		RACES(64, "@%p7 mbarrier.init.shared.b64 [%s+1024], 64; bar.sync 0;\n"
			  "st.shared.u32 [%a], %t; mbarrier.arrive.shared.b64 %d1, [%s+1024];\n"
			  "again: mbarrier.test_wait.shared.b64 %p1, [%s+1024], %d1;\n"
			  "@!%p1 bra again; ld.shared.u32 %r2, [%c];"),
		0);
	assert_int_equal(
		RACES(64, "@%p7 mbarrier.init.shared.b64 [%s+1024], 64; bar.sync 0;\n"
			  "st.shared.u32 [%a], %t; mbarrier.arrive.shared.b64 %d1, [%s+1024];\n"
			  "ld.shared.u32 %r2, [%c];"),
		1);
}

static void reads_of_what_nobody_has_written_are_told(void **state)
{
	(void)state;
	assert_int_equal(UNREAD(64, "ld.shared.u32 %r2, [%a];"), 1);
	assert_non_null(
		strstr(first, "uninitialised: kernel k, block 0,0,0: thread 0,0,0 reads 0"));
	assert_int_equal(UNREAD(64, "st.shared.u32 [%a], 1; ld.shared.u32 %r2, [%a];"), 0);
	/* a part of it is not enough; the other block's write is not this one's */
	assert_int_equal(UNREAD(64, "st.shared.u16 [%a], 1; ld.shared.u32 %r2, [%a];"), 1);
	assert_int_equal(UNREAD(64, "mov.u32 %r2, %ctaid.x; setp.eq.u32 %p1, %r2, 0;\n"
				    "@%p1 st.shared.u32 [%a], 1; ld.shared.u32 %r2, [%a];"),
			 1);
	assert_non_null(strstr(first, "block 1,0,0"));
	assert_int_equal(UNREAD(64, "red.shared.add.u32 [%s], 1;"), 1);
	assert_int_equal(UNREAD(64, "cp.async.ca.shared.global [%a], [%at], 4;\n"
				    "cp.async.wait_all; ld.shared.u32 %r2, [%a];"),
			 0);
	/* races are not asked for */
	assert_int_equal(UNREAD(64, "st.shared.u32 [%a], %t; ld.shared.u32 %r2, [%c];"), 1);
	assert_non_null(strstr(first, "uninitialised"));
}

static void what_is_reserved_is_not_the_kernels(void **state)
{
	(void)state;
	assert_int_equal(lines(CK_PTX_CHECK_RACE | CK_PTX_CHECK_INIT, 64,
			       "mov.u32 %r1, %reserved_smem_offset_1; ld.shared.u32 %r2, [%r1];\n"
			       "st.shared.u32 [%r1], %t;"),
			 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_told_unasked),
		cmocka_unit_test(a_read_of_what_another_thread_writes_is_told_once),
		cmocka_unit_test(a_write_where_others_read_or_write_is_told),
		cmocka_unit_test(each_pair_of_places_is_told),
		cmocka_unit_test(a_barrier_of_the_block_orders),
		cmocka_unit_test(the_barrier_of_a_warp_orders_its_members),
		cmocka_unit_test(named_barriers_order_who_takes_part),
		cmocka_unit_test(atomics_are_no_race_among_themselves),
		cmocka_unit_test(flags_order_with_fences_or_by_themselves),
		cmocka_unit_test(a_lock_orders_who_holds_it),
		cmocka_unit_test(copies_are_there_when_they_were_waited_for),
		cmocka_unit_test(mbarriers_order_who_waits_at_them),
		cmocka_unit_test(reads_of_what_nobody_has_written_are_told),
		cmocka_unit_test(what_is_reserved_is_not_the_kernels),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
