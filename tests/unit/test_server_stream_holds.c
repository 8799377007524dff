/*
 * tests/unit/test_server_stream_holds.c - streams that wait for another server, and calls that may
 * wait for all work.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "rpc/proc.h"
#include "server/session/stream_holds.h"

static struct cks_stream_holds holds;
static atomic_int inside; /* streams that are held; calls count -1 */
static atomic_bool met, stop;

static void ordinary_messages_do_not_wait(void **state)
{
	(void)state;
	cks_stream_holds_init(&holds);
	cks_stream_holds_begin(&holds);
	assert_false(cks_stream_holds_enter(&holds, &ck_procs[CK_PROC_launch]));
	assert_false(cks_stream_holds_enter(&holds, &ck_procs[CK_PROC_direct_receive]));
	assert_false(cks_stream_holds_enter(&holds, &ck_procs[CK_PROC_upload_part]));
	assert_false(cks_stream_holds_enter(&holds, &ck_procs[CK_PROC_host_function]));
	cks_stream_holds_begin(&holds); /* any number of streams */
	cks_stream_holds_over(&holds);
	cks_stream_holds_over(&holds);
	assert_true(cks_stream_holds_enter(&holds, &ck_procs[CK_PROC_module_load]));
	assert_true(
		/* and of such calls */
		cks_stream_holds_enter(&holds, &ck_procs[CK_PROC_cuMemFree_v2]));
	cks_stream_holds_leave(&holds);
	cks_stream_holds_leave(&holds);
	cks_stream_holds_fini(&holds);
}

static void *load(void *data)
{
	atomic_bool *done = data;

	cks_stream_holds_enter(&holds, &ck_procs[CK_PROC_module_load]);
	atomic_store(done, true);
	cks_stream_holds_leave(&holds);
	return NULL;
}

static void a_load_waits_for_the_end_of_all_holds(void **state)
{
	atomic_bool done = false;
	pthread_t thread;

	(void)state;
	cks_stream_holds_init(&holds);
	cks_stream_holds_begin(&holds);
	cks_stream_holds_begin(&holds);
	assert_int_equal(pthread_create(&thread, NULL, load, &done), 0);
	usleep(2000);
	cks_stream_holds_over(&holds);
	usleep(2000);
	assert_false(atomic_load(&done));
	cks_stream_holds_over(&holds);
	pthread_join(thread, NULL);
	assert_true(atomic_load(&done));
	cks_stream_holds_fini(&holds);
}

static void *hold_often(void *data)
{
	(void)data;
	while (!atomic_load(&stop)) {
		cks_stream_holds_begin(&holds);
		if (atomic_fetch_add(&inside, 1) < 0)
			atomic_store(&met, true);
		atomic_fetch_sub(&inside, 1);
		cks_stream_holds_over(&holds);
		usleep(10);
	}
	return NULL;
}

static void the_two_kinds_never_meet(void **state)
{
	pthread_t thread;

	(void)state;
	cks_stream_holds_init(&holds);
	assert_int_equal(pthread_create(&thread, NULL, hold_often, NULL), 0);
	for (int i = 0; i < 2000; i++) {
		assert_true(cks_stream_holds_enter(&holds, &ck_procs[CK_PROC_module_build]));
		if (atomic_fetch_sub(&inside, 1) > 0)
			atomic_store(&met, true);
		atomic_fetch_add(&inside, 1);
		cks_stream_holds_leave(&holds);
	}
	atomic_store(&stop, true);
	pthread_join(thread, NULL);
	assert_false(atomic_load(&met));
	cks_stream_holds_fini(&holds);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ordinary_messages_do_not_wait),
		cmocka_unit_test(a_load_waits_for_the_end_of_all_holds),
		cmocka_unit_test(the_two_kinds_never_meet),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
