/*
 * client/managed/window.c - the window: finding a place for it, its pages, device memory behind them: a
 * unit that small pieces share is backed while any piece in it is.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client/wire/client.h"
#include "client/managed/window.h"
#include "util/cancel.h"
#include "util/fd.h"
#include "util/log.h"
#include "util/range.h"

CK_LOG_DEFINE("client");

uint64_t ck_window_lo, ck_window_hi;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool tried;
static char *alias;
static struct ck_fd_kept file = { .fd = -1 };
static struct ck_space *space;

/* --- a place for the window */

/* Where nothing is usually mapped, neither by Linux nor by a driver; 0: where there is room. */
#ifndef __SANITIZE_THREAD__
static const uint64_t places[] = { 0x200000000000, 0x300000000000, 0x400000000000,
				   0x100000000000, 0x500000000000, 0, 0 };
static const size_t sizes[] = { 1ul << 40, 1ul << 37, 1ul << 35 };
#else	/* TSan needs those places, and leaves too little for the largest window and its alias */
static const uint64_t places[] = { 0, 0, 0 };
static const size_t sizes[] = { 1ul << 37, 1ul << 35 };
#endif

static bool server_takes(uint64_t at, size_t size)
{
	int taken = 0;

	return ck_wire_window(0, at, size, &taken) == CUDA_SUCCESS && taken;
}

/* The device's own answer, before client/objects/device.c says what of it programs may use. */
static bool driver_can(void)
{
	const ck_device *facts = ck_client.gpus[0].facts;

	for (u_int i = 0; i < facts->attributes.attributes_len; i++) {
		if (facts->attributes.attributes_val[i].id ==
		    CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED)
			return facts->attributes.attributes_val[i].value;
	}
	return false;
}

/* The file behind the window and its alias. A child of fork gets neither view: it has no GPU. */
static int map_file(uint64_t at, size_t size)
{
	int fd = memfd_create("cricket window", MFD_CLOEXEC);

	if (fd < 0 || ftruncate(fd, (off_t)size) < 0)
		return -errno;
	file = ck_fd_keep(fd);
	alias = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
	if (alias == MAP_FAILED)
		return -errno;
	madvise(alias, size, MADV_DONTFORK);
	space = ck_space_create(at, at + size);
	return space ? 0 : -ENOMEM;
}

static void open_once(void)
{
	uint64_t at = 0;
	size_t size = 0;
	int ret;

	for (size_t i = 0; !at && driver_can() && i < CK_ARRAY_SIZE(sizes); i++) {
		size = sizes[i];
		at = ck_space_agree(places, CK_ARRAY_SIZE(places), size, server_takes);
	}
	if (!at) {
		ck_info("no addresses that are free both here and on the server: no managed and no "
			"mapped memory");
		return;
	}
	ret = map_file(at, size);
	if (ret < 0) {
		ck_err("memory for managed pages: %s", strerror(-ret));
		return;
	}
	ck_window_hi = at + size;
	__atomic_store_n(&ck_window_lo, at, __ATOMIC_RELEASE);
	ck_debug("window of %zu GiB at %#llx", size >> 30, (unsigned long long)at);
}

CUresult ck_window_open(void)
{
	int cancel = ck_cancel_lock(&lock);

	if (!tried)
		open_once();
	tried = true;
	ck_cancel_unlock(&lock, cancel);
	if (ck_client.state == CK_STATE_LOST)
		return CUDA_ERROR_DEVICE_UNAVAILABLE;
	return ck_window_lo ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}

void *ck_window_alias(uint64_t address)
{
	return alias + (address - ck_window_lo);
}

size_t ck_window_used(uint64_t address, size_t *pages)
{
	off_t at = (off_t)(address - ck_window_lo), end = at + (off_t)(*pages * CK_PAGE);
	int fd = ck_fd_ours(&file);
	off_t data = lseek(fd, at, SEEK_DATA), hole;
	size_t before;

	if (fd < 0)	/* nobody can say: all of them may be */
		return 0;
	if (data < 0 || data >= end) {	/* nothing but a hole */
		before = *pages;
		*pages = 0;
		return before;
	}
	hole = lseek(fd, data, SEEK_HOLE);
	before = (size_t)(data - at) / CK_PAGE;
	*pages = ((size_t)(ck_min(hole, end) - at) + CK_PAGE - 1) / CK_PAGE - before;
	return before;
}

/* --- pages */

/* The program's view of the pages. */
static int map_pages(uint64_t at, size_t size)
{
	void *p = (void *)(uintptr_t)at;

	if (mmap(p, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED,
		 ck_fd_ours(&file), (off_t)(at - ck_window_lo)) == MAP_FAILED)
		return -errno;
	madvise(p, size, MADV_DONTFORK);
	return 0;
}

CUresult ck_window_take(uint64_t ctx, size_t size, uint64_t *address)
{
	uint64_t at;

	if (size > ck_window_hi - ck_window_lo)
		return CUDA_ERROR_OUT_OF_MEMORY;
	size = CK_ALIGN_UP(size, CK_PAGE);
	pthread_mutex_lock(&lock);
	at = ck_space_take(space, ctx, size);
	if (at && map_pages(at, size) < 0) {
		ck_space_give(space, at, size);
		at = 0;
	}
	pthread_mutex_unlock(&lock);
	*address = at;
	return at ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* The pages' memory goes back to the system; a late access of the program faults. */
void ck_window_give(uint64_t address, size_t size)
{
	int cancel = ck_cancel_lock(&lock);

	size = CK_ALIGN_UP(size, CK_PAGE);
	mmap((void *)(uintptr_t)address, size, PROT_NONE,
	     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
	if (fallocate(ck_fd_ours(&file), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
		      (off_t)(address - ck_window_lo), (off_t)size) < 0)
		madvise(ck_window_alias(address), size, MADV_REMOVE);
	ck_space_give(space, address, size);
	ck_cancel_unlock(&lock, cancel);
}

/* --- device memory. The lock is held over the call: a unit is not used before it is there. */

CUresult ck_window_back(uint64_t ctx, uint64_t address, size_t size)
{
	size_t length;
	uint64_t behind = ck_space_behind(address, size, &length);
	uint16_t *users;
	CUresult err = CUDA_SUCCESS;
	int cancel = ck_cancel_lock(&lock);

	users = ck_space_users(space, address, size);
	if (users && *users > 0)	/* the device's bytes are those of an earlier piece */
		fallocate(ck_fd_ours(&file), 0, (off_t)(address - ck_window_lo),
			  (off_t)CK_ALIGN_UP(size, CK_PAGE));
	else
		err = ck_wire_map(ctx, behind, length);
	if (users && !err)
		++*users;
	ck_cancel_unlock(&lock, cancel);
	return err;
}

void ck_window_unback(uint64_t ctx, uint64_t address, size_t size)
{
	size_t length;
	uint64_t behind = ck_space_behind(address, size, &length);
	uint16_t *users;

	pthread_mutex_lock(&lock);
	users = ck_space_users(space, address, size);
	if (!users || --*users == 0)
		ck_wire_unmap(ctx, behind);
	pthread_mutex_unlock(&lock);
}
