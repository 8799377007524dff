/*
 * tests/unit/test_client_page_release.c - pages that program and device both use, when they cannot
 * be protected.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* accept4 */
#endif
#include <limits.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "tests/unit/managed_peer.h"

/* So many calls of mprotect() fail, as if the process had too many mappings. */
static _Atomic int refused;

int mprotect(void *at, size_t size, int prot)
{
	if (refused > 0) {
		refused--;
		errno = ENOMEM;
		return -1;
	}
	return (int)syscall(SYS_mprotect, at, size, prot);
}

static void pages_that_cannot_be_protected_from_writes_are_sent_again(void **state)
{
	volatile unsigned char *p = allocate(SIZE);

	(void)state;
	p[1] = 1;
	refused = 1;
	ckc_managed_device((uint64_t)p, SIZE, false);
	assert_int_equal(refused, 0);
	assert_int_equal(sent(), CK_PAGE);
	assert_int_equal(*place((uint64_t)p + 1), 1);
	p[1] = 2;
	ckc_managed_device((uint64_t)p, SIZE, false);
	peer_await_all();
	assert_int_equal(*place((uint64_t)p + 1), 2);
	p[1] = 3;
	ckc_managed_launch();
	peer_await_all();
	assert_int_equal(*place((uint64_t)p + 1), 3);
	release(p);
}

static void pages_that_cannot_be_protected_are_released_with_their_neighbours(void **state)
{
	volatile unsigned char *all[] = {allocate(SIZE), allocate(SIZE), allocate(SIZE)};

	(void)state;
	for (size_t i = 0; i < 3; i++)
		all[i][5] = 5;
	refused = 1;
	ckc_managed_device((uint64_t)all[1], CK_PAGE, true);
	assert_int_equal(refused, 0);
	assert_int_equal(sent(), 3 * CK_PAGE);
	assert_int_equal(ckc_client_current()->managed->pages.active, 0);
	for (size_t i = 0; i < 3; i++)
		*place((uint64_t)all[i] + 5) += (unsigned char)i;
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(all[i][5], 5 + i);
	for (size_t i = 0; i < 3; i++)
		release(all[i]);
}

static void clean_pages_that_cannot_be_protected_are_released(void **state)
{
	volatile unsigned char *p = allocate(SIZE);

	(void)state;
	ok(cuStreamAttachMemAsync(NULL, (CUdeviceptr)p, 0, CU_MEM_ATTACH_HOST));
	ok(cuStreamSynchronize(NULL));
	p[0] = 1;
	ckc_managed_launch();
	peer_await_all();
	assert_int_equal(p[0], 1);
	p[SIZE / 2] = 6;
	*place((uint64_t)p) = 5;
	refused = 1;
	ok(cuCtxSynchronize());
	assert_int_equal(refused, 0);
	assert_int_equal(p[0], 5);
	assert_int_equal(p[SIZE / 2], 6);
	ok(cuStreamAttachMemAsync(NULL, (CUdeviceptr)p, 0, CU_MEM_ATTACH_GLOBAL));
	release(p);
}

static void a_buffer_that_cannot_be_written_is_refused(void **state)
{
	volatile unsigned char *p = allocate(SIZE);

	(void)state;
	ckc_managed_launch();
	refused = INT_MAX;
	assert_null(ckc_managed_host((const void *)p, SIZE, true));
	refused = 0;
	assert_non_null(ckc_managed_host((const void *)p, SIZE, true));
	release(p);
}

static void an_access_to_pages_that_cannot_be_opened_raises_a_signal(void **state)
{
	struct sigaction action = {.sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO}, was;
	volatile unsigned char *p = allocate(SIZE);

	(void)state;
	setenv("CRICKET_LOST", "zeros", 1);
	ckc_managed_launch();
	fetch_error = CUDA_ERROR_ILLEGAL_ADDRESS;
	refused = 1;
	sigaction(SIGBUS, &action, &was);
	if (sigsetjmp(back, 1) == 0)
		fail_msg("read %d", p[3]);
	assert_ptr_equal(raised_at, p + 3);
	sigaction(SIGBUS, &was, NULL);
	assert_int_equal(refused, 0);
	unsetenv("CRICKET_LOST");
	fetch_error = CUDA_SUCCESS;
	release(p);
}

/* The last one: it ends the session. */
static void the_program_reads_no_old_bytes(void **state)
{
	volatile unsigned char *p = allocate(SIZE);

	(void)state;
	p[0] = 1;
	refused = 2;
	ckc_managed_launch();
	assert_int_equal(refused, 0);
	assert_int_equal(cuCtxSynchronize(), CUDA_ERROR_DEVICE_UNAVAILABLE);
	assert_int_equal(p[0], 1);
	p[0] = 2;
	assert_int_equal(p[0], 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pages_that_cannot_be_protected_from_writes_are_sent_again),
		cmocka_unit_test(pages_that_cannot_be_protected_are_released_with_their_neighbours),
		cmocka_unit_test(clean_pages_that_cannot_be_protected_are_released),
		cmocka_unit_test(a_buffer_that_cannot_be_written_is_refused),
		cmocka_unit_test(an_access_to_pages_that_cannot_be_opened_raises_a_signal),
		cmocka_unit_test(the_program_reads_no_old_bytes),
	};

	return cmocka_run_group_tests(tests, begin, peer_end);
}
