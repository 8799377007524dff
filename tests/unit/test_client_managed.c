/*
 * tests/unit/test_client_managed.c - pages that program and device both use: what is sent and
 * fetched, and when.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* accept4 */
#endif
#include <dirent.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "client/managed/fault.h"
#include "client/managed/managed.h"
#include "client/managed/window.h"
#include "client/modules/launch.h"
#include "elf/kernels.h"
#include "tests/unit/elf_data.h"
#include "tests/unit/managed_peer.h"
#include "util/spin.h"
#include "util/until.h"

static void only_pages_that_were_touched_are_sent_before_the_first_launch(void **state)
{
	volatile unsigned char *p = allocate(SIZE);

	(void)state;
	p[3 * CK_PAGE] = 3;
	p[4 * CK_PAGE + 5] = 4;
	p[9 * CK_PAGE] = 9;
	ckc_managed_launch();
	/* where the kernel has smaller pages, those between the two have no bytes */
	assert_int_equal(peer_count(CK_PROC_upload), ck_page() == CK_PAGE ? 2 : 3);
	assert_int_equal(sent(), 3 * CK_PAGE);
	assert_int_equal(*place((uint64_t)p + 4 * CK_PAGE + 5), 4);
	release(p);
}

static void only_the_changed_page_is_sent_again(void **state)
{
	volatile unsigned char *p = allocate(SIZE);

	(void)state;
	for (size_t i = 0; i < PAGES; i++)
		p[i * CK_PAGE] = (unsigned char)i;
	ckc_managed_launch();
	assert_int_equal(sent(), SIZE);
	peer_clear();
	p[40 * CK_PAGE + 1] = 1;
	ckc_managed_launch();
	assert_int_equal(sent(), CK_PAGE);
	assert_int_equal(p[40 * CK_PAGE], 40);
	release(p);
}

static void launches_between_which_nothing_is_touched_send_nothing(void **state)
{
	volatile unsigned char *p = allocate(SIZE);
	size_t before;

	(void)state;
	p[0] = 1;
	ckc_managed_launch();
	peer_clear();
	before = peer.count;
	assert_int_equal(ckc_client_current()->managed->pages.active, 0);
	for (int i = 0; i < 100; i++)
		ckc_managed_launch();
	assert_int_equal(ckc_client_current()->managed->pages.active, 0);
	peer_await_all();
	assert_int_equal(peer.count, before);
	release(p);
}

static void a_touch_after_a_launch_finds_what_the_device_wrote(void **state)
{
	volatile unsigned char *p = allocate(SIZE);

	(void)state;
	p[5] = 5;
	ckc_managed_launch();
	peer_await_all();
	*place((uint64_t)p + 5) = 50;
	*place((uint64_t)p + 6) = 60;
	assert_int_equal(p[5], 50);
	assert_int_equal(p[6], 60);
	/* the first fetch waits for the device, and brings a few pages more */
	assert_int_equal(((ck_fetch_args *)peer_args(CK_PROC_fetch, 0))->wait, CK_FETCH_CONTEXT);
	assert_int_equal(fetched(), 16 * CK_PAGE);
	release(p);
}

static void a_scan_is_fetched_in_growing_pieces(void **state)
{
	size_t size = (size_t)12 << 20;
	volatile unsigned char *p = allocate(size);
	unsigned int sum = 0;

	(void)state;
	ckc_managed_launch();
	for (size_t i = 0; i < size; i += 512)
		sum += p[i];
	assert_int_equal(sum, 0);
	assert_int_equal(fetched(), size);
	assert_true(peer_count(CK_PROC_fetch) < 14);
	release(p);
}

static void a_page_written_by_both_keeps_what_each_wrote(void **state)
{
	volatile unsigned char *p = allocate(SIZE);

	(void)state;
	p[0] = 1;
	ckc_managed_launch();
	peer_await_all();
	*place((uint64_t)p + 100) = 100;
	p[200] = 200;
	ckc_managed_launch();
	peer_await_all();
	assert_int_equal(*place((uint64_t)p), 1);
	assert_int_equal(*place((uint64_t)p + 100), 100);
	assert_int_equal(*place((uint64_t)p + 200), 200);
	release(p);
}

static void memory_of_one_stream_waits_for_it_alone_and_is_used_by_all(void **state)
{
	volatile unsigned char *p = allocate(SIZE);
	CUstream one;

	(void)state;
	ok(cuStreamCreate(&one, CU_STREAM_NON_BLOCKING));
	ok(cuStreamAttachMemAsync(one, (CUdeviceptr)p, 0, CU_MEM_ATTACH_SINGLE));
	p[0] = 1;
	peer_clear();
	ckc_managed_launch();
	assert_int_equal(sent(), CK_PAGE);
	assert_int_equal(p[0], 1);
	assert_int_equal(((ck_fetch_args *)peer_args(CK_PROC_fetch, 0))->wait, CK_FETCH_STREAM);
	ok(cuStreamDestroy_v2(one));
	p[0] = 2;
	peer_clear();
	ckc_managed_launch();
	assert_int_equal(sent(), CK_PAGE);
	release(p);
}

static void memory_of_the_host_waits_for_no_work_and_is_fetched_again_after_it(void **state)
{
	volatile unsigned char *p = allocate(SIZE);

	(void)state;
	ok(cuStreamAttachMemAsync(NULL, (CUdeviceptr)p, 0, CU_MEM_ATTACH_HOST));
	ok(cuStreamSynchronize(NULL));
	p[0] = 1;
	ckc_managed_launch();
	peer_await_all();
	peer_clear();
	assert_int_equal(p[0], 1); /* the kernel may still run */
	assert_int_equal(peer_count(CK_PROC_fetch), 1);
	*place((uint64_t)p) = 5;
	p[SIZE / 2] = 6;
	assert_int_equal(p[0], 1);
	ok(cuCtxSynchronize());
	assert_int_equal(p[0], 5);
	assert_int_equal(p[SIZE / 2], 6);
	ok(cuStreamAttachMemAsync(NULL, (CUdeviceptr)p, 0, CU_MEM_ATTACH_GLOBAL));
	release(p);
}

static void copies_on_the_device_see_and_replace_pages(void **state)
{
	volatile unsigned char *p = allocate(SIZE);
	CUdeviceptr at = (CUdeviceptr)p;
	unsigned char bytes[8] = {1, 2, 3, 4, 5, 6, 7, 8};

	(void)state;
	p[0] = 7;
	p[CK_PAGE] = 8;
	ok(cuMemcpyHtoDAsync_v2(at + 4, bytes, 8, NULL));
	assert_int_equal(p[0], 7);
	assert_int_equal(p[4], 1);
	assert_int_equal(p[CK_PAGE], 8);
	ok(cuMemsetD8Async(at, 9, 4, NULL));
	memset(place(at), 9, 4);
	assert_int_equal(p[3], 9);
	invalid(cuMemsetD8Async(at + SIZE - 2, 9, 4, NULL));
	release(p);
}

static void pages_of_freed_memory_come_back_as_zeros(void **state)
{
	(void)state;
	for (int i = 0; i < 3; i++) {
		volatile unsigned char *p = allocate(CK_PAGE * 2);
		volatile unsigned char *q = allocate(CK_PAGE);

		assert_int_equal(p[10], 0);
		p[10] = 1;
		release(p);
		p = allocate(CK_PAGE * 2);
		ckc_managed_launch();
		peer_await_all();
		assert_int_equal(p[10], 0);
		release(p);
		release(q);
	}
}

static void pinned_memory_costs_nothing_until_a_kernel_gets_it(void **state)
{
	unsigned char *p;
	CUdeviceptr d = 0;

	(void)state;
	peer_clear();
	ok(cuMemHostAlloc((void **)&p, SIZE, 0));
	p[0] = 1;
	assert_int_equal(peer_count(CK_PROC_map), 0);
	ok(ckc_hostmem_expose((uint64_t)p + 77, true));
	ok(ckc_hostmem_expose((uint64_t)p, false));
	assert_int_equal(peer_count(CK_PROC_map), 1);
	ok(cuMemHostGetDevicePointer_v2(&d, p + 5, 0));
	assert_int_equal(d, (uint64_t)p + 5);
	ckc_managed_launch();
	assert_int_equal(sent(), CK_PAGE);
	peer_clear();
	ok(cuMemFreeHost(p));
	assert_int_equal(peer_count(CK_PROC_unmap), 1);
}

/* A structure with room for many addresses may hold those of an earlier use of the stack. */
static void a_buffer_of_copies_is_not_mapped_for_a_structure(void **state)
{
	static struct ck_kernel_param params[] = {{.offset = 0, .size = 8},
						  {.offset = 8, .size = 512}};
	const struct ck_kernel kernel = {.param_count = 2, .params = params, .param_bytes = 520};
	uint64_t block[65] = {0};
	void *buffer, *other;

	(void)state;
	ok(cuMemHostAlloc(&buffer, SIZE, 0));
	ok(cuMemHostAlloc(&other, SIZE, 0));
	ckc_hostmem_copied(buffer);
	block[40] = (uintptr_t)buffer;
	block[41] = (uintptr_t)other; /* of which no copy is known */
	ok(ckc_launch_expose(&kernel, (unsigned char *)block, sizeof(block)));
	assert_false(ckc_managed_is((uintptr_t)buffer));
	assert_true(ckc_managed_is((uintptr_t)other));
	block[0] = (uintptr_t)buffer; /* a parameter of its own */
	ok(ckc_launch_expose(&kernel, (unsigned char *)block, sizeof(block)));
	assert_true(ckc_managed_is((uintptr_t)buffer));
	ok(cuMemFreeHost(buffer));
	ok(cuMemFreeHost(other));
}

static void wrong_arguments_are_refused(void **state)
{
	volatile unsigned char *p = allocate(SIZE);
	CUdeviceptr at = (CUdeviceptr)p, out = 1;
	CUmemLocation host = {.type = CU_MEM_LOCATION_TYPE_HOST}, none = {.type = 77};
	int value;

	(void)state;
	invalid(cuMemAllocManaged(NULL, 1, CU_MEM_ATTACH_GLOBAL));
	invalid(cuMemAllocManaged(&out, 0, CU_MEM_ATTACH_GLOBAL));
	invalid(cuMemAllocManaged(&out, 1, CU_MEM_ATTACH_SINGLE));
	invalid(cuMemAllocManaged(&out, 1, 0));
	assert_int_equal(cuMemAllocManaged(&out, 1ul << 50, CU_MEM_ATTACH_GLOBAL),
			 CUDA_ERROR_OUT_OF_MEMORY);
	assert_int_equal(out, 1);
	invalid(cuMemFree_v2(at + CK_PAGE));
	invalid(cuStreamAttachMemAsync(NULL, at, 0, CU_MEM_ATTACH_SINGLE));
	invalid(cuStreamAttachMemAsync(NULL, at + 1, 0, CU_MEM_ATTACH_HOST));
	invalid(cuMemPrefetchAsync_v2(at, SIZE + 1, host, 0, NULL));
	invalid(cuMemPrefetchAsync_v2(at, SIZE, none, 0, NULL));
	invalid(cuMemPrefetchAsync_v2(at, SIZE, host, 1, NULL));
	assert_int_equal(cuMemPrefetchAsync(at, SIZE, 17, NULL), CUDA_ERROR_INVALID_DEVICE);
	invalid(cuMemAdvise(at, SIZE, 9, 0));
	invalid(cuMemAdvise(0x1000, SIZE, CU_MEM_ADVISE_SET_READ_MOSTLY, 0));
	invalid(cuMemRangeGetAttribute(&value, 8, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, at, 1));
	invalid(cuMemRangeGetAttribute(&value, 4, 99, at, 1));
	release(p);
}

static void advice_is_told_for_ranges_that_agree(void **state)
{
	volatile unsigned char *p = allocate(SIZE);
	CUdeviceptr at = (CUdeviceptr)p;
	int value = -7, list[2];

	(void)state;
	ok(cuMemAdvise(at, SIZE, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, 0));
	ok(cuMemAdvise(at + 2 * CK_PAGE, CK_PAGE, CU_MEM_ADVISE_SET_PREFERRED_LOCATION,
		       CU_DEVICE_CPU));
	ok(cuMemRangeGetAttribute(&value, 4, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, at, SIZE));
	assert_int_equal(value, CU_DEVICE_INVALID);
	ok(cuMemRangeGetAttribute(&value, 4, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, at,
				  2 * CK_PAGE));
	assert_int_equal(value, 0);
	ok(cuMemRangeGetAttribute(&value, 4, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION,
				  at + 2 * CK_PAGE + 7, 1));
	assert_int_equal(value, CU_DEVICE_CPU);
	ok(cuMemAdvise(at, SIZE, CU_MEM_ADVISE_SET_ACCESSED_BY, 1));
	ok(cuMemAdvise(at, SIZE, CU_MEM_ADVISE_SET_ACCESSED_BY, CU_DEVICE_CPU));
	ok(cuMemRangeGetAttribute(list, 8, CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, at, SIZE));
	assert_int_equal(list[0], 1);
	assert_int_equal(list[1], CU_DEVICE_CPU);
	release(p);
	p = allocate(SIZE);
	ok(cuMemRangeGetAttribute(&value, 4, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION,
				  (CUdeviceptr)p, SIZE));
	assert_int_equal(value, CU_DEVICE_INVALID);
	release(p);
}

/* The kernel walks over all pages that hold data when it looks for a hole: how often it was asked
 * to. */
static _Atomic unsigned int holes_sought;

off_t lseek(int fd, off_t offset, int whence)
{
	holes_sought += whence == SEEK_HOLE;
	return (off_t)syscall(SYS_lseek, fd, offset, whence);
}

static void every_second_page_written_stays_right(void **state)
{
	volatile unsigned char *p;

	(void)state;
	p = allocate((size_t)20 << 20);
	memset((void *)p, 1, (size_t)20 << 20); /* one stretch with data */
	ckc_managed_launch();
	peer_await_all();
	for (size_t i = 0; i < (20u << 20) / CK_PAGE; i += 2)
		p[i * CK_PAGE] = (unsigned char)i;
	holes_sought = 0;
	ckc_managed_launch();
	peer_await_all();
	assert_in_range(holes_sought, 1, 10); /* not once a page */
	for (size_t i = 0; i < (20u << 20) / CK_PAGE; i += 2)
		assert_int_equal(*place((uint64_t)p + i * CK_PAGE), (unsigned char)i);
	release(p);
}

/* Pages that are here already stay usable. */
static void a_touch_of_what_cannot_be_fetched_raises_sigbus(void **state)
{
	struct sigaction action = {.sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO}, was;
	volatile unsigned char *p = allocate(256 * CK_PAGE);
	volatile unsigned char *gone = p + 256 * CK_PAGE - 5;

	(void)state;
	*place((uint64_t)p) = 9;
	p[1] = 1;
	ckc_managed_launch();
	peer_await_all();
	*place((uint64_t)p) = 9;
	assert_int_equal(p[0], 9);
	fetch_error = CUDA_ERROR_ILLEGAL_ADDRESS;
	sigaction(SIGBUS, &action, &was);
	if (sigsetjmp(back, 1) == 0)
		fail_msg("read %d", *gone);
	assert_ptr_equal(raised_at, gone);
	if (sigsetjmp(back, 1) == 0) {
		gone[-1] = 1;
		fail();
	}
	assert_ptr_equal(raised_at, gone - 1);
	sigaction(SIGBUS, &was, NULL);
	assert_int_equal(p[0], 9);
	p[0] = 8;
	assert_int_equal(p[0], 8);
	assert_non_null(ckc_managed_host((const void *)p, 1, false));
	assert_null(ckc_managed_host((const void *)gone, 1, false));
	fetch_error = CUDA_SUCCESS;
	release(p);
}

static void what_cannot_be_fetched_reads_as_zeros_if_the_user_wants_that(void **state)
{
	volatile unsigned char *p = allocate(SIZE);

	(void)state;
	setenv("CRICKET_LOST", "zeros", 1);
	p[1] = 1;
	ckc_managed_launch();
	peer_await_all();
	fetch_error = CUDA_ERROR_ILLEGAL_ADDRESS;
	assert_int_equal(p[1], 0);
	p[2] = 2;
	assert_int_equal(p[2], 2);
	assert_int_equal(p[SIZE - 1], 0);
	unsetenv("CRICKET_LOST");
	fetch_error = CUDA_SUCCESS;
	release(p);
}

/* The descriptor of the window's file. */
/* It is above the numbers that programs get; raise the limit, so that the test can hit it. */
static int window_fd(void)
{
	DIR *all = opendir("/proc/self/fd");
	struct rlimit limit;
	struct dirent *e;
	int found = -1;

	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
	while (all && found < 0 && (e = readdir(all)) != NULL) {
		char name[64];
		ssize_t n = readlinkat(dirfd(all), e->d_name, name, sizeof(name) - 1);

		name[n > 0 ? n : 0] = '\0';
		if (strncmp(name, "/memfd:cricket window", 21) == 0)
			found = atoi(e->d_name);
	}
	if (all)
		closedir(all);
	return found;
}

/* qemu-user has no such record in the contexts of its own. */
static void a_fault_tells_reads_from_writes(void **state)
{
#if defined(__aarch64__)
	static const struct _aarch64_ctx other = {FPSIMD_MAGIC, sizeof(struct fpsimd_context)};
	struct esr_context record = {{ESR_MAGIC, sizeof(record)}, 0x92000007};
	ucontext_t context = {0};
	char *records = (char *)context.uc_mcontext.__reserved;

	(void)state;
	assert_true(ckc_fault_is_write(&context)); /* there is none */
	memcpy(records, &other, sizeof(other));
	memcpy(records + other.size, &record, sizeof(record));
	assert_false(ckc_fault_is_write(&context));
	record.esr |= 1 << 6;
	memcpy(records + other.size, &record, sizeof(record));
	assert_true(ckc_fault_is_write(&context));
	memset(records, 0xff,
	       sizeof(context.uc_mcontext.__reserved)); /* a size that leads outside */
	assert_true(ckc_fault_is_write(&context));
#else
	ucontext_t context = {0};

	(void)state;
	context.uc_mcontext.gregs[REG_ERR] = 4;
	assert_false(ckc_fault_is_write(&context));
	context.uc_mcontext.gregs[REG_ERR] = 6;
	assert_true(ckc_fault_is_write(&context));
#endif
}

/* A program that closes what it does not know, and opens a file there. */
static void a_file_in_place_of_ours_is_left_alone(void **state)
{
	volatile unsigned char *p = allocate(SIZE), *again;
	const size_t size = 1 << 20;
	int fd = window_fd(), theirs = memfd_create("theirs", 0);
	unsigned char *bytes;

	(void)state;
	assert_true(fd >= 0 && theirs >= 0);
	assert_int_equal(ftruncate(theirs, (off_t)size), 0);
	bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, theirs, 0);
	assert_ptr_not_equal(bytes, MAP_FAILED);
	memset(bytes, 0x5a, size);
	p[0] = 1;
	p[CK_PAGE] = 2;
	assert_int_equal(dup2(theirs, fd), fd);
	ckc_managed_launch();
	assert_true(sent() >= 2 * CK_PAGE);
	release(p);
	again = allocate(SIZE); /* there is a spare descriptor */
	assert_int_equal(again[0] | again[CK_PAGE], 0);
	again[0] = 1;
	release(again);
	for (size_t i = 0; i < size; i++)
		assert_int_equal(bytes[i], 0x5a);
	munmap(bytes, size);
	close(theirs);
	close(fd);
}

/* Milliseconds that the launch took. */
static uint64_t launch(CUmodule module, const char *name)
{
	static const char nothing[64];
	void *params[8];
	uint64_t began;
	CUfunction f;

	for (int i = 0; i < 8; i++)
		params[i] = (void *)(uintptr_t)nothing;
	launched = false;
	ok(cuModuleGetFunction(&f, module, name));
	began = ck_now_ns();
	ok(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
	began = (ck_now_ns() - began) / CK_NS_PER_MS;
	peer_await_all();
	assert_true(launched);
	return began;
}

/* A function for the stream, and its number; nobody calls it yet. */
static uint64_t enqueue(void)
{
	returned = false;
	peer_clear();
	ok(cuLaunchHostFunc(NULL, function, NULL));
	peer_await_all();
	return ((const ck_host_function_args *)peer_args(CK_PROC_host_function, 0))->callback;
}

/* Newer commands may wait for the function, and the function for the pages. */
static void calls_for_pages_wait_for_no_command_behind_a_function(void **state)
{
	const ck_upload_part_args *upload;
	const ck_fetch_args *fetch;
	volatile unsigned char *p;
	CUdeviceptr at = 0;
	uint64_t last, id;

	(void)state;
	ok(cuMemAllocManaged(&at, SIZE, CU_MEM_ATTACH_HOST)); /* an access waits for no work */
	p = (volatile unsigned char *)at;
	p[0] = 1;
	ckc_managed_launch();
	last = ckc_command_last();
	id = enqueue();
	assert_true(ckc_command_last() > last);
	assert_int_equal(p[0], 1);
	fetch = peer_args(CK_PROC_fetch, 0);
	assert_non_null(fetch);
	assert_in_range(fetch->head.seq, 1, last); /* the one that has sent the page */
	p[0] = 2;
	ckc_managed_launch();
	assert_int_equal(sent(), 0); /* by commands */
	upload = peer_args(CK_PROC_upload_part, 0);
	assert_non_null(upload);
	assert_in_range(upload->head.seq, 1, last);
	assert_int_equal(*place(at), 2);
	/* a wait may be a command, too */
	ok(cuCtxSynchronize());
	ok(cuMemcpyHtoD_v2(at, "3", 1));
	ok(cuCtxSynchronize());
	assert_true(peer_count(CK_PROC_settle) > 0);
	assert_int_equal(p[0], '3');
	for (size_t i = 0; peer_args(CK_PROC_fetch, i); i++)
		fetch = peer_args(CK_PROC_fetch, i);
	assert_int_equal(fetch->head.seq, atomic_load(&ckc_client_current()->command.seq));
	to_call = id;
	while (!returned)
		usleep(1000);
	release(p);
}

/* Its pages could not be fetched any more while the driver loads the kernel. */
static void a_kernel_is_loaded_behind_functions_that_may_touch_pages(void **state)
{
	enum { WAITS = 1900, STALLS = 2000 }; /* ms: a machine may stand still for a while */
	struct elf_data data = elf_data_read("sm_90.cubin");
	volatile unsigned char *p = allocate(SIZE);
	CUmodule module, again;
	uint64_t took;

	(void)state;
	ok(cuModuleLoadData(&module, data.bytes));
	ok(cuModuleLoadData(&again, data.bytes));
	elf_data_free(&data);
	to_call = enqueue();
	took = launch(module, "no_args");
	assert_true(launched_behind || took >= STALLS);
	/* one that has been launched is there already */
	enqueue();
	assert_true(launch(module, "no_args") < WAITS || launch(module, "no_args") < WAITS);
	assert_true(launch(module, "bounded") >= WAITS);
	/* a function that has been waited for in vain is not waited for again */
	assert_true(launch(module, "mixed_args") < WAITS || launch(again, "mixed_args") < WAITS);
	/* but others are */
	to_call = enqueue();
	took = launch(again, "bounded");
	assert_true(launched_behind || took >= STALLS);
	assert_true(launch(again, "no_args") < WAITS || launch(module, "mixed_args") < WAITS);
	ok(cuModuleUnload(again));
	ok(cuModuleUnload(module));
	release(p);
}

static void a_real_fault_still_ends_the_process_with_its_signal(void **state)
{
	pid_t pid = fork();
	int status;

	(void)state;
	if (pid == 0) {
		signal(SIGSEGV, SIG_DFL);
		*(volatile int *)0x10 = 1;
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
#else
	assert_false(WIFEXITED(status) && WEXITSTATUS(status) == 0);
#endif
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_pages_that_were_touched_are_sent_before_the_first_launch),
		cmocka_unit_test(only_the_changed_page_is_sent_again),
		cmocka_unit_test(launches_between_which_nothing_is_touched_send_nothing),
		cmocka_unit_test(a_touch_after_a_launch_finds_what_the_device_wrote),
		cmocka_unit_test(a_scan_is_fetched_in_growing_pieces),
		cmocka_unit_test(a_page_written_by_both_keeps_what_each_wrote),
		cmocka_unit_test(memory_of_one_stream_waits_for_it_alone_and_is_used_by_all),
		cmocka_unit_test(
			memory_of_the_host_waits_for_no_work_and_is_fetched_again_after_it),
		cmocka_unit_test(copies_on_the_device_see_and_replace_pages),
		cmocka_unit_test(pages_of_freed_memory_come_back_as_zeros),
		cmocka_unit_test(pinned_memory_costs_nothing_until_a_kernel_gets_it),
		cmocka_unit_test(a_buffer_of_copies_is_not_mapped_for_a_structure),
		cmocka_unit_test(wrong_arguments_are_refused),
		cmocka_unit_test(advice_is_told_for_ranges_that_agree),
		cmocka_unit_test(every_second_page_written_stays_right),
		cmocka_unit_test(a_touch_of_what_cannot_be_fetched_raises_sigbus),
		cmocka_unit_test(what_cannot_be_fetched_reads_as_zeros_if_the_user_wants_that),
		cmocka_unit_test(a_fault_tells_reads_from_writes),
		cmocka_unit_test(a_file_in_place_of_ours_is_left_alone),
		cmocka_unit_test(calls_for_pages_wait_for_no_command_behind_a_function),
		cmocka_unit_test(a_kernel_is_loaded_behind_functions_that_may_touch_pages),
		cmocka_unit_test(a_real_fault_still_ends_the_process_with_its_signal),
	};

	return cmocka_run_group_tests(tests, begin, peer_end);
}
