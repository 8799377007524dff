/*
 * tests/unit/test_client_pinned.c - pinned memory that is shared with the worker: the peer has the
 * file, and learns what of it is in use and which bytes are to be copied.
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

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "client/managed/page_allocator.h"
#include "client/memory/pinned.h"
#include "tests/unit/client_peer.h"

#define MIB ((size_t)1 << 20)
#define DEVICE 0x700000000000ull

static _Atomic CUresult map_error;
static _Atomic uint64_t base; /* of the addresses kept for the file */
static CUstream stream;

static void ok(CUresult err)
{
	assert_int_equal(err, CUDA_SUCCESS);
}

static CUresult answer(const struct peer_message *m, void *res, struct peer_payload *payload)
{
	static unsigned char zeros[MIB];

	if (m->number == CK_PROC_pinned_file) {
		base = ((const ck_pinned_file_args *)m->args)->address;
		((ck_pinned_file_res *)res)->taken = 1;
	} else if (m->number == CK_PROC_pinned_map) {
		return map_error;
	} else if (m->number == CK_PROC_download) {
		payload->data = zeros;
		payload->size = ((const ck_download_args *)m->args)->size;
	}
	return CUDA_SUCCESS;
}

static int begin(void **state)
{
	peer.call = answer;
	if (peer_begin(state) < 0 ||
	    ckc_allocation_add(DEVICE, 8 * MIB, CK_MEMORY_DEVICE, ckc_context_current(), 0, false))
		return -1;
	return (int)cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
}

static unsigned char *obtain(size_t size)
{
	void *p;

	ok(cuMemHostAlloc(&p, size, 0));
	return p;
}

static unsigned char in_file(const void *p)
{
	unsigned char byte;

	assert_int_equal(pread(peer.file, &byte, 1, (off_t)((uintptr_t)p - base)), 1);
	return byte;
}

static void an_allocation_is_of_the_file_that_the_server_has(void **state)
{
	const ck_pinned_map_args *map;
	const ck_pinned_unmap_args *unmap;
	unsigned char *p;
	uint64_t at;
	int seals;

	(void)state;
	peer_clear();
	p = obtain(3 * MIB);
	at = (uintptr_t)p;
	map = peer_args(CK_PROC_pinned_map, 0);
	assert_non_null(map);
	assert_int_equal(map->address, at);
	assert_int_equal(map->size, 4 * MIB);
	assert_int_equal(map->offset, at - base);
	p[0] = 5;
	p[3 * MIB - 1] = 6;
	assert_int_equal(in_file(p), 5);
	assert_int_equal(in_file(p + 3 * MIB - 1), 6);
	seals = fcntl(peer.file, F_GET_SEALS);
	assert_int_equal(seals & F_SEAL_SHRINK, F_SEAL_SHRINK);
	ok(cuMemFreeHost(p));
	unmap = peer_args(CK_PROC_pinned_unmap, 0);
	assert_non_null(unmap);
	assert_int_equal(unmap->address, at);
	assert_int_equal(in_file(p), 5); /* until the worker's driver has done with it */
	assert_int_equal(cuMemFreeHost(p), CUDA_ERROR_INVALID_VALUE);
}

static void small_pieces_are_registered_together(void **state)
{
	unsigned char *p[3];

	(void)state;
	peer_clear();
	for (int i = 0; i < 3; i++) {
		p[i] = obtain(100);
		p[i][0] = (unsigned char)(i + 1);
	}
	assert_int_equal(peer_count(CK_PROC_pinned_map), 1);
	ok(cuMemFreeHost(p[0]));
	ok(cuMemFreeHost(p[1]));
	assert_int_equal(peer_count(CK_PROC_pinned_unmap), 0);
	assert_int_equal(in_file(p[2]), 3);
	assert_int_equal(in_file(p[1]), 2); /* the device has this page */
	ok(cuMemFreeHost(p[2]));
	assert_int_equal(peer_count(CK_PROC_pinned_unmap), 1);
}

static void copies_name_the_bytes(void **state)
{
	const ck_pinned_copy_args *copy;
	unsigned char *p = obtain(MIB);

	(void)state;
	peer_clear();
	ok(cuMemcpyHtoDAsync_v2(DEVICE, p + 10, 1000, stream));
	ok(cuMemcpyDtoHAsync_v2(p, DEVICE + 5, 70000, stream));
	ok(cuMemcpyDtoH_v2(p, DEVICE, 70000));
	assert_int_equal(peer_count(CK_PROC_pinned_copy), 2);
	assert_int_equal(peer_count(CK_PROC_pinned_move), 1);
	assert_int_equal(peer_count(CK_PROC_download), 0);
	assert_int_equal(peer_count(CK_PROC_upload), 0);
	assert_int_equal(peer_count(CK_PROC_cuStreamSynchronize), 0);
	copy = peer_args(CK_PROC_pinned_copy, 0);
	assert_int_equal(copy->dst, DEVICE);
	assert_int_equal(copy->src, (uintptr_t)p + 10);
	assert_int_equal(copy->size, 1000);
	assert_int_equal(copy->kind, 0);
	copy = peer_args(CK_PROC_pinned_copy, 1);
	assert_int_equal(copy->dst, (uintptr_t)p);
	assert_int_equal(copy->src, DEVICE + 5);
	assert_int_equal(copy->kind, 1);
	ok(cuMemFreeHost(p));
}

/* A small synchronous copy returns at once, and the program may change the bytes then. */
static void what_may_change_on_return_is_taken_over(void **state)
{
	unsigned char *p = obtain(MIB);

	(void)state;
	ok(cuCtxSynchronize());
	peer_clear();
	ok(cuMemcpyHtoD_v2(DEVICE, p, 1000));
	assert_int_equal(peer_count(CK_PROC_upload), 1);
	ok(cuMemcpyHtoD_v2(DEVICE, p,
			   1000)); /* an upload writes nothing here: no need to wait for it */
	assert_int_equal(peer_count(CK_PROC_upload), 2);
	/* what is under way may write the bytes: the copy is behind it, and waited for */
	ok(cuMemsetD8Async(DEVICE, 1, 10, NULL));
	ok(cuMemcpyHtoD_v2(DEVICE, p, 1000));
	assert_int_equal(peer_count(CK_PROC_upload), 2);
	assert_int_equal(peer_count(CK_PROC_pinned_move), 1);
	ok(cuMemcpyHtoD_v2(DEVICE, p, MIB));
	assert_int_equal(peer_count(CK_PROC_pinned_move), 2);
	ok(cuMemFreeHost(p));
}

static void a_copy_beyond_the_allocation_is_as_of_any_memory(void **state)
{
	unsigned char *p = obtain(4096), *q = obtain(4096);

	(void)state;
	peer_clear();
	if (q == p + 4096)
		ok(cuMemcpyHtoDAsync_v2(DEVICE, p, 5000, stream));
	assert_int_equal(peer_count(CK_PROC_pinned_copy), 0);
	ok(cuMemFreeHost(p));
	ok(cuMemFreeHost(q));
}

static void the_device_reaches_it_at_its_own_address(void **state)
{
	unsigned char *p = obtain(8192);
	CUdeviceptr d = 0;

	(void)state;
	peer_clear();
	ok(cuMemHostGetDevicePointer_v2(&d, p + 5, 0));
	assert_int_equal(d, (uintptr_t)p + 5);
	ok(cuMemsetD8Async(d, 1, 8000, stream));
	assert_int_equal(cuMemsetD8Async(d, 1, 8192, stream), CUDA_ERROR_INVALID_VALUE);
	ok(cuPointerGetAttribute(&d, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, (uintptr_t)p));
	assert_int_equal(d, (uintptr_t)p);
	assert_int_equal(peer_count(CK_PROC_map), 0); /* nothing of it travels as pages */
	ok(cuMemFreeHost(p));
}

static void work_is_waited_for_before_memory_goes(void **state)
{
	unsigned char *p = obtain(100);

	(void)state;
	ok(cuMemcpyDtoHAsync_v2(p, DEVICE, 100, stream));
	peer_clear();
	ok(cuMemFreeHost(p));
	assert_int_equal(peer_count(CK_PROC_cuCtxSynchronize), 1);
}

static void what_the_driver_refuses_is_not_kept(void **state)
{
	void *p = NULL;
	unsigned int before = ckc_client_current()->memory->pinned.count;

	(void)state;
	map_error = CUDA_ERROR_OUT_OF_MEMORY;
	assert_int_equal(cuMemHostAlloc(&p, 3 * MIB, 0), CUDA_ERROR_OUT_OF_MEMORY);
	assert_int_equal(cuMemHostAlloc(&p, 30, 0), CUDA_ERROR_OUT_OF_MEMORY);
	assert_int_equal(cuMemHostAlloc(&p, SIZE_MAX - 10, 0), CUDA_ERROR_OUT_OF_MEMORY);
	assert_null(p);
	assert_int_equal(ckc_client_current()->memory->pinned.count, before);
	map_error = CUDA_SUCCESS;
	p = obtain(30);
	ok(cuMemFreeHost(p));
}

/* --- memory that is registered */

static void registered_memory_keeps_its_bytes_and_is_of_the_file(void **state)
{
	unsigned char *p = malloc(3 * MIB);
	const ck_pinned_map_args *map;
	size_t offset;
	CUdeviceptr d;

	(void)state;
	memset(p, 3, 3 * MIB);
	p[100] = 4;
	peer_clear();
	ok(cuMemHostRegister_v2(p + 100, 2 * MIB, 0));
	map = peer_args(CK_PROC_pinned_map, 0);
	assert_non_null(map);
	assert_int_equal(map->address, (uintptr_t)p + 100);
	assert_int_equal(map->size, 2 * MIB);
	offset = map->offset;
	assert_int_equal(p[99], 3);
	assert_int_equal(p[100], 4);
	p[101] = 5;
	assert_int_equal(in_file((char *)(base + offset + ((uintptr_t)p + 101) % ck_page())), 5);
	ok(cuMemcpyHtoDAsync_v2(DEVICE, p + 101, 1000, stream));
	assert_int_equal(peer_count(CK_PROC_pinned_copy), 1);
	ok(cuMemHostGetDevicePointer_v2(&d, p + 200, 0));
	assert_int_equal(d, (uintptr_t)p + 200);
	assert_int_equal(cuMemHostRegister_v2(p + 200, 10, 0),
			 CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
	ok(cuMemHostUnregister(p + 100));
	assert_int_equal(peer_count(CK_PROC_pinned_unmap), 1);
	assert_int_equal(p[100], 4);
	assert_int_equal(p[101], 5);
	assert_int_equal(in_file((char *)(base + offset + ((uintptr_t)p + 101) % ck_page())), 0);
	free(p);
}

/* What the worker or the kind of the memory forbids is as pinned as over a network. */
static void what_cannot_be_shared_is_copied(void **state)
{
	unsigned char *p = malloc(MIB), stack[8192];
	unsigned char *shared =
		mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CUdeviceptr d;

	(void)state;
	memset(stack, 0, sizeof(stack));
	memset(p, 1, MIB);
	map_error = CUDA_ERROR_NOT_SUPPORTED;
	ok(cuMemHostRegister_v2(p, MIB, 0));
	map_error = CUDA_SUCCESS;
	ok(cuMemHostRegister_v2(stack, sizeof(stack), 0));
	ok(cuMemHostRegister_v2(shared, MIB, 0));
	peer_clear();
	ok(cuMemcpyHtoDAsync_v2(DEVICE, p, 1000, stream));
	ok(cuMemcpyHtoDAsync_v2(DEVICE, stack, 1000, stream));
	ok(cuMemcpyHtoDAsync_v2(DEVICE, shared, 1000, stream));
	assert_int_equal(peer_count(CK_PROC_upload), 3);
	assert_int_equal(cuMemHostGetDevicePointer_v2(&d, p, 0), CUDA_ERROR_NOT_SUPPORTED);
	ok(cuMemHostUnregister(p));
	ok(cuMemHostUnregister(stack));
	ok(cuMemHostUnregister(shared));
	assert_int_equal(p[MIB - 1], 1);
	munmap(shared, MIB);
	free(p);
}

static void memory_given_back_while_registered_is_left_alone(void **state)
{
	unsigned char *p = mmap(NULL, 3 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
				-1, 0),
		      *q;

	(void)state;
	ok(cuMemHostRegister_v2(p, 3 * MIB, 0));
	munmap(p, 3 * MIB);
	q = mmap(p, 3 * MIB, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	ok(cuMemHostUnregister(p));
	assert_int_equal(q[0], 0);
	munmap(q, 3 * MIB);
}

/* mremap() fails, as if the process had too many mappings. */
static _Atomic bool too_many;

void *mremap(void *at, size_t size, size_t new_size, int flags, ...)
{
	va_list more;
	void *to;

	va_start(more, flags);
	to = va_arg(more, void *);
	va_end(more);
	if (too_many) {
		errno = ENOMEM;
		return MAP_FAILED;
	}
	return (void *)syscall(SYS_mremap, at, size, new_size, flags, to);
}

static void a_child_without_mappings_leaves_the_parents_bytes_alone(void **state)
{
	const size_t sizes[] = {16 << 10, 3 * MIB};

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		unsigned char *p = mmap(NULL, sizes[i], PROT_READ | PROT_WRITE,
					MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		int status;
		pid_t pid;

		memset(p, 3, sizes[i]);
		ok(cuMemHostRegister_v2(p, sizes[i], 0));
		too_many = true;
		pid = fork();
		if (pid == 0) {
			bool right = p[0] == 3 && p[sizes[i] / 2] == 3;

			memset(p, 4, sizes[i]);
			_exit(right ? 0 : 1);
		}
		too_many = false;
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 0);
		assert_int_equal(p[0], 3);
		assert_int_equal(p[sizes[i] / 2], 3);
		assert_int_equal(p[sizes[i] - 1], 3);
		ok(cuMemHostUnregister(p));
		munmap(p, sizes[i]);
	}
}

static void wrong_registrations_are_refused(void **state)
{
	unsigned char *p = malloc(4096);
	unsigned int flags;

	(void)state;
	assert_int_equal(cuMemHostRegister_v2(p, 4096, CU_MEMHOSTREGISTER_IOMEMORY),
			 CUDA_ERROR_NOT_SUPPORTED);
	ok(cuMemHostRegister_v2(p, 4096, CU_MEMHOSTREGISTER_READ_ONLY));
	ok(cuMemHostUnregister(p));
	assert_int_equal(cuMemHostRegister_v2((void *)4096, 4096, 0), CUDA_ERROR_INVALID_VALUE);
	ok(cuMemHostRegister_v2(p, 4096, CU_MEMHOSTREGISTER_PORTABLE));
	ok(cuMemHostGetFlags(&flags, p + 1));
	assert_int_equal(flags, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
	assert_int_equal(cuMemHostUnregister(p + 1), CUDA_ERROR_INVALID_VALUE);
	ok(cuMemHostUnregister(p));
	assert_int_equal(cuMemHostUnregister(p), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
	free(p);
}

static void pieces_do_not_overlap(void **state)
{
	struct ckc_page_allocator *s = ckc_page_allocator_create(1ul << 40, 1ul << 41);
	uint64_t a = ckc_page_allocator_take(s, 1, CK_PAGE),
		 b = ckc_page_allocator_take(s, 2, CK_PAGE);
	uint64_t c = ckc_page_allocator_take(s, 1, 5000),
		 d = ckc_page_allocator_take(s, 1, 3 * MIB);
	uint64_t e = ckc_page_allocator_take(s, 1, 3 * MIB), behind;
	size_t length;

	(void)state;
	assert_int_equal(c, a + CK_PAGE);
	assert_int_not_equal(a / CK_UNIT, b / CK_UNIT); /* of another context */
	assert_int_equal(e, d + 4 * MIB);
	behind = ckc_page_allocator_behind(c, 5000, &length);
	assert_int_equal(behind, a & ~(CK_UNIT - 1));
	assert_int_equal(length, CK_UNIT);
	assert_null(ckc_page_allocator_users(s, d, 3 * MIB));
	ckc_page_allocator_give(s, d, 3 * MIB);
	assert_int_equal(ckc_page_allocator_take(s, 1, 1ul << 40), 0);
	assert_int_equal(ckc_page_allocator_take(s, 1, 8 * MIB), e + 4 * MIB);
	ckc_page_allocator_destroy(s);
}

/* A program that closes what it does not know, and opens a file there. */
static void a_file_in_place_of_ours_is_left_alone(void **state)
{
	unsigned char *p = obtain(4 * MIB), *bytes;
	const size_t size = 4 * MIB;
	int fd = ckc_pinned_fd(), kept = dup(fd), theirs = memfd_create("theirs", 0);

	(void)state;
	assert_true(fd >= 0 && kept >= 0 && theirs >= 0);
	assert_int_equal(ftruncate(theirs, (off_t)size), 0);
	bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, theirs, 0);
	assert_ptr_not_equal(bytes, MAP_FAILED);
	memset(bytes, 0x5a, size);
	memset(p, 1, size);
	assert_int_equal(dup2(theirs, fd), fd);
	assert_int_not_equal(ckc_pinned_fd(), fd); /* a spare */
	ok(cuMemFreeHost(p));
	p = obtain(MIB);
	memset(p, 2, MIB);
	ok(cuMemFreeHost(p));
	assert_int_equal(dup2(kept, fd), fd);
	for (size_t i = 0; i < size; i++)
		assert_int_equal(bytes[i], 0x5a);
	munmap(bytes, size);
	close(theirs);
	close(kept);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_allocation_is_of_the_file_that_the_server_has),
		cmocka_unit_test(small_pieces_are_registered_together),
		cmocka_unit_test(copies_name_the_bytes),
		cmocka_unit_test(what_may_change_on_return_is_taken_over),
		cmocka_unit_test(a_copy_beyond_the_allocation_is_as_of_any_memory),
		cmocka_unit_test(the_device_reaches_it_at_its_own_address),
		cmocka_unit_test(work_is_waited_for_before_memory_goes),
		cmocka_unit_test(what_the_driver_refuses_is_not_kept),
		cmocka_unit_test(registered_memory_keeps_its_bytes_and_is_of_the_file),
		cmocka_unit_test(what_cannot_be_shared_is_copied),
		cmocka_unit_test(memory_given_back_while_registered_is_left_alone),
		cmocka_unit_test(a_child_without_mappings_leaves_the_parents_bytes_alone),
		cmocka_unit_test(wrong_registrations_are_refused),
		cmocka_unit_test(pieces_do_not_overlap),
		cmocka_unit_test(a_file_in_place_of_ours_is_left_alone),
	};

	return cmocka_run_group_tests(tests, begin, peer_end);
}
