/*
 * tests/unit/test_server_pinned.c - memory of a client on this host: which file is taken, where
 * pieces of it may lie, and that a copy names nothing else of this process.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "gen/handlers.h"
#include "rpc/chan.h"
#include "server/modules/modcache.h"
#include "server/memory/pinned.h"
#include "server/session/session.h"
#include "server_fake.h"
#include "util/util.h"

#define UNIT (2ul << 20)
#define SIZE (64 * UNIT)
#define ROOM ((size_t)16 << 30)
#define PAGE 4096ul

static struct cks_session *session;
static struct cks_request request;
static struct ck_chan *client;
static CUdeviceptr shift; /* how far off the driver maps what it registers */
static uint64_t place;	  /* free addresses of this process */

static CUresult device_pointer(CUdeviceptr *device, void *p, unsigned int flags)
{
	(void)flags;
	*device = (uintptr_t)p + shift;
	return CUDA_SUCCESS;
}

static int begin(void **state)
{
	int ends[2];
	/* much more than is used: what else is mapped meanwhile comes to its other end */
	void *room =
		mmap(NULL, ROOM, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	(void)state;
	fake_install();
	ck_driver.cuMemHostGetDevicePointer_v2 = device_pointer;
	fake.registered = 0;
	shift = 0;
	place = CK_ALIGN_UP((uintptr_t)room, UNIT);
	munmap(room, ROOM);
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) < 0 || ck_chan_adopt(ends[0], &client) < 0 ||
	    cks_session_create(NULL, NULL, 1, &session) < 0)
		return -1;
	request = (struct cks_request){.session = session, .ctx = 1};
	return ck_chan_adopt(ends[1], &request.chan);
}

static int end(void **state)
{
	(void)state;
	fake_flush();
	cks_session_destroy(session);
	ck_chan_close(client);
	ck_chan_close(request.chan);
	return 0;
}

static int file_of(size_t size, int seals)
{
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)size), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

/* Offer @fd, which is closed here, for [address, address+size): the result. */
static CUresult offer(int fd, uint64_t address, size_t size, int *taken)
{
	ck_pinned_file_args args = {.address = address, .size = size};
	ck_pinned_file_res res = {0};
	struct iovec iov = {(char *)"x", 1};
	char byte;
	CUresult err;

	assert_int_equal(ck_chan_writev_fd(client, &iov, 1, fd), 0);
	assert_int_equal(ck_chan_read(request.chan, &byte, 1), 0);
	err = ck_serve_pinned_file(&request, &args, &res);
	close(fd);
	*taken = res.taken;
	return err;
}

static CUresult map(uint64_t address, size_t size, size_t offset)
{
	ck_pinned_map_args args = {.address = address, .size = size, .offset = offset};
	ck_pinned_map_res res;

	return ck_serve_pinned_map(&request, &args, &res);
}

static CUresult unmap(uint64_t address)
{
	ck_pinned_unmap_args args = {.address = address};

	return ck_serve_pinned_unmap(&request, &args, NULL);
}

static CUresult copy(CUdeviceptr dst, CUdeviceptr src, size_t size, unsigned int kind)
{
	ck_pinned_copy_args args = {.dst = dst, .src = src, .size = size, .kind = kind};

	return ck_serve_pinned_copy(&request, &args, NULL);
}

static CUresult move(CUdeviceptr dst, CUdeviceptr src, size_t size, unsigned int kind)
{
	ck_pinned_move_args args = {.dst = dst, .src = src, .size = size, .kind = kind};
	ck_pinned_move_res res;

	return ck_serve_pinned_move(&request, &args, &res);
}

/* A file that is taken, and this process's own view of it. */
static unsigned char *take(void)
{
	int taken, fd = file_of(SIZE, F_SEAL_SHRINK | F_SEAL_GROW), own = dup(fd);
	unsigned char *view = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, own, 0);

	close(own);
	assert_ptr_not_equal(view, MAP_FAILED);
	assert_int_equal(offer(fd, place, SIZE, &taken), CUDA_SUCCESS);
	assert_int_equal(taken, 1);
	return view;
}

static void a_file_that_can_shrink_is_refused(void **state)
{
	int taken;

	(void)state;
	assert_int_equal(offer(file_of(SIZE, F_SEAL_GROW), place, SIZE, &taken),
			 CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(offer(file_of(SIZE - PAGE, F_SEAL_SHRINK), place, SIZE, &taken),
			 CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(offer(open("/dev/null", O_RDWR), place, SIZE, &taken),
			 CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(taken, 0);
}

/* The system has such files even where it has no such pages. */
static void a_file_of_huge_pages_is_refused(void **state)
{
	int taken, fd = memfd_create("huge", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB);

	(void)state;
	if (fd < 0)
		skip();
	assert_int_equal(ftruncate(fd, SIZE), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	assert_int_equal(offer(fd, place, SIZE, &taken), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(taken, 0);
}

static void addresses_that_make_no_sense_are_refused(void **state)
{
	const uint64_t bad[][2] = {{0, SIZE},
				   {place + 1, SIZE},
				   {place, 0},
				   {place, PAGE + 1},
				   {~0ull - SIZE / 2 + 1, SIZE}};
	int taken;

	(void)state;
	for (size_t i = 0; i < CK_ARRAY_SIZE(bad); i++)
		assert_int_equal(offer(file_of(SIZE, F_SEAL_SHRINK), bad[i][0], bad[i][1], &taken),
				 CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(map(place, UNIT, 0), CUDA_ERROR_INVALID_VALUE);
}

static void addresses_in_use_are_not_taken_and_others_may_be(void **state)
{
	unsigned char *view;
	int taken;

	(void)state;
	assert_int_equal(
		offer(file_of(SIZE, F_SEAL_SHRINK), (uintptr_t)&place & ~(PAGE - 1), SIZE, &taken),
		CUDA_SUCCESS);
	assert_int_equal(taken, 0);
	view = take();
	assert_int_equal(offer(file_of(SIZE, F_SEAL_SHRINK), place + SIZE, SIZE, &taken),
			 CUDA_ERROR_INVALID_VALUE); /* one a session */
	munmap(view, SIZE);
}

static void a_call_without_a_file_is_refused(void **state)
{
	ck_pinned_file_args args = {.address = place, .size = SIZE};
	ck_pinned_file_res res = {0};

	(void)state;
	assert_int_equal(ck_serve_pinned_file(&request, &args, &res), CUDA_ERROR_INVALID_VALUE);
}

static void a_piece_is_the_clients_own_pages(void **state)
{
	unsigned char *view = take(), *here = (unsigned char *)place;

	(void)state;
	assert_int_equal(map(place + UNIT, UNIT, UNIT), CUDA_SUCCESS);
	assert_int_equal(fake.registered, 1);
	view[UNIT] = 7;
	assert_int_equal(here[UNIT], 7);
	assert_int_equal(unmap(place + UNIT), CUDA_SUCCESS);
	assert_int_equal(fake.registered, 0);
	assert_int_equal(view[UNIT], 0); /* given back to the system */
	view[UNIT] = 8;
	assert_int_equal(map(place + UNIT, 2 * UNIT, UNIT), CUDA_SUCCESS);
	assert_int_equal(here[UNIT], 8);
	cks_pinned_drop_context(session->pinned, 1);
	assert_int_equal(map(place + UNIT, UNIT, UNIT), CUDA_SUCCESS);
	munmap(view, SIZE);
}

static void pieces_lie_inside_the_file_and_apart(void **state)
{
	unsigned char *view = take();
	ck_pinned_map_args io = {
		.address = place, .size = UNIT, .flags = CU_MEMHOSTREGISTER_IOMEMORY};

	(void)state;
	assert_int_equal(map(place + UNIT, UNIT, 0), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(map(place, SIZE + PAGE, 0), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(map(place, 0, 0), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(map(place, UNIT, 1), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(map(place, ~0ull, 0), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(map(place + SIZE, SIZE, PAGE), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(map(place - UNIT, 2 * UNIT, 0), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(ck_serve_pinned_map(&request, &io, NULL), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(map(place, UNIT, 0), CUDA_SUCCESS);
	assert_int_equal(map(place, UNIT, 0), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(fake.registered, 1);
	munmap(view, SIZE);
}

/* Memory that the client had before it was shared: at its address, if that is free here. */
static void memory_from_elsewhere_never_covers_our_own(void **state)
{
	unsigned char *view = take();
	static unsigned char ours[2 * PAGE];

	(void)state;
	ours[PAGE] = 9;
	assert_int_equal(map((uintptr_t)ours, PAGE, 0), CUDA_ERROR_NOT_SUPPORTED);
	assert_int_equal(ours[PAGE], 9);
	view[PAGE + 100] = 3;
	assert_int_equal(map(place + SIZE + 100, 50, PAGE), CUDA_SUCCESS);
	assert_int_equal(*(unsigned char *)(place + SIZE + 100), 3);
	assert_int_equal(unmap(place + SIZE + 100), CUDA_SUCCESS);
	assert_int_equal(view[PAGE + 100], 3); /* the client's yet */
	assert_int_equal(map(place + SIZE, 50, 0), CUDA_SUCCESS);
	munmap(view, SIZE);
}

/* The program's address must be the device's: that is what it counts on. */
static void another_address_on_the_device_is_no_use(void **state)
{
	unsigned char *view = take();

	(void)state;
	shift = PAGE;
	assert_int_equal(map(place, UNIT, 0), CUDA_ERROR_NOT_SUPPORTED);
	assert_int_equal(fake.registered, 0);
	shift = 0;
	assert_int_equal(map(place, UNIT, 0), CUDA_SUCCESS);
	munmap(view, SIZE);
}

static void a_copy_names_registered_bytes_only(void **state)
{
	unsigned char *view = take();
	static unsigned char device[PAGE], secret[16] = "secret";
	CUdeviceptr d = (uintptr_t)device;

	(void)state;
	assert_int_equal(map(place, UNIT, 0), CUDA_SUCCESS);
	view[10] = 4;
	assert_int_equal(copy(d, place + 10, 1, 0), CUDA_SUCCESS);
	fake_flush();
	assert_int_equal(device[0], 4);
	device[0] = 5;
	assert_int_equal(copy(place + 20, d, 1, 1), CUDA_SUCCESS);
	fake_flush();
	assert_int_equal(view[20], 5);
	view[10] = 6;
	assert_int_equal(move(d, place + 10, 1, 0), CUDA_SUCCESS);
	assert_int_equal(device[0], 6);
	assert_int_equal(move(place + 20, d, 1, 1), CUDA_SUCCESS);
	assert_int_equal(view[20], 6);
	for (int i = 0; i < 2; i++) {
		CUresult (*one)(CUdeviceptr, CUdeviceptr, size_t, unsigned int) = i ? copy : move;

		assert_int_equal(one(d, (uintptr_t)secret, 16, 0), CUDA_ERROR_INVALID_VALUE);
		assert_int_equal(one((uintptr_t)secret, d, 16, 1), CUDA_ERROR_INVALID_VALUE);
		assert_int_equal(one(d, place + UNIT - 1, 2, 0), CUDA_ERROR_INVALID_VALUE);
		assert_int_equal(one(d, place, 1, 2), CUDA_ERROR_INVALID_VALUE);
		assert_int_equal(one(d, place + 1, ~0ull, 0), CUDA_ERROR_INVALID_VALUE);
	}
	assert_int_equal(unmap(place), CUDA_SUCCESS);
	assert_int_equal(copy(d, place, 1, 0), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(move(d, place, 1, 0), CUDA_ERROR_INVALID_VALUE);
	munmap(view, SIZE);
}

static _Atomic int unmapped;

static void *unmap_meanwhile(void *unused)
{
	unmap(place);
	unmapped = 1;
	return unused;
}

/* A copy during which the client, of another thread's doing, gives the memory up. */
static CUresult slow_copy(CUdeviceptr dst, const void *src, size_t size)
{
	static pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, unmap_meanwhile, NULL), 0);
	pthread_detach(thread);
	usleep(50000);
	memcpy((void *)dst, src, size);
	return unmapped;
}

static void memory_stays_while_it_is_copied(void **state)
{
	unsigned char *view = take();
	static unsigned char device[PAGE];

	(void)state;
	ck_driver.cuMemcpyHtoD_v2 = slow_copy;
	assert_int_equal(map(place, UNIT, 0), CUDA_SUCCESS);
	view[10] = 4;
	assert_int_equal(move((uintptr_t)device, place + 10, 1, 0), CUDA_SUCCESS);
	assert_int_equal(device[0], 4);
	while (!unmapped)
		usleep(1000);
	munmap(view, SIZE);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_file_that_can_shrink_is_refused),
		TEST(a_file_of_huge_pages_is_refused),
		TEST(addresses_that_make_no_sense_are_refused),
		TEST(addresses_in_use_are_not_taken_and_others_may_be),
		TEST(a_call_without_a_file_is_refused),
		TEST(a_piece_is_the_clients_own_pages),
		TEST(pieces_lie_inside_the_file_and_apart),
		TEST(memory_from_elsewhere_never_covers_our_own),
		TEST(another_address_on_the_device_is_no_use),
		TEST(a_copy_names_registered_bytes_only),
		TEST(memory_stays_while_it_is_copied),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
