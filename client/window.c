/*
 * client/window.c - the window: finding a place for it, handing out its pages, device memory
 * behind them.
 *
 * Device memory comes in units of 2 MiB. What is larger than half a unit has whole units for
 * itself, from the window's upper part; small pieces of one context share units of its lower
 * part, which are backed while any piece in them is.
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

#include "client/client.h"
#include "client/window.h"
#include "util/log.h"
#include "util/range.h"

CK_LOG_DEFINE("client");

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

#define UNIT ((size_t)2 << 20)
#define UNIT_PAGES (UNIT / CK_PAGE)
#define SMALL_MAX (UNIT / 2)
#define SMALL_UNITS 8192ul	/* the lower part: 16 GiB */
#define RESERVE (MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE)

/* A unit that small pieces share. */
struct unit {
	uint64_t ctx;			/* whose it is while pages are in use */
	uint16_t pages, backed;		/* in use; pieces that want device memory */
	uint64_t taken[UNIT_PAGES / 64]; /* a bit for each page */
};

uint64_t ck_window_lo, ck_window_hi;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool tried;
static char *alias;
static int file = -1;
static struct unit *units;
static struct ck_ranges *large;
static uint64_t next_large;

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

	return ck_wire_ck_window(0, at, size, &taken) == CUDA_SUCCESS && taken;
}

/* Reserve @size bytes at @place in this process, whole units; 0: not there. */
static uint64_t reserve(uint64_t place, size_t size)
{
	char *want = (char *)(uintptr_t)place;
	size_t extra = place ? 0 : UNIT;
	char *got = mmap(want, size + extra, PROT_NONE,
			 RESERVE | (place ? MAP_FIXED_NOREPLACE : 0), -1, 0);
	uint64_t at = (uintptr_t)got;

	if (got == MAP_FAILED)
		return 0;
	if (place && got != want) {
		munmap(got, size);
		return 0;
	}
	return CK_ALIGN_UP(at, UNIT);	/* what is before and behind stays reserved */
}

/* The device's own answer, before client/device.c says what of it programs may use. */
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

static uint64_t find_place(size_t size)
{
	for (size_t i = 0; i < CK_ARRAY_SIZE(places); i++) {
		uint64_t at = reserve(places[i], size);

		if (!at)
			continue;
		if (server_takes(at, size))
			return at;
		munmap((void *)(uintptr_t)at, size);
		if (ck_client.state != CK_STATE_READY)
			break;
	}
	return 0;
}

/* The file behind the window and its alias. A child of fork gets neither view: it has no GPU. */
static int map_file(size_t size)
{
	file = memfd_create("cricket window", MFD_CLOEXEC);
	if (file < 0 || ftruncate(file, (off_t)size) < 0)
		return -errno;
	alias = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
	if (alias == MAP_FAILED)
		return -errno;
	madvise(alias, size, MADV_DONTFORK);
	units = calloc(SMALL_UNITS, sizeof(*units));
	large = ck_ranges_create();
	return units && large ? 0 : -ENOMEM;
}

static void open_once(void)
{
	uint64_t at = 0;
	size_t size = 0;
	int ret;

	for (size_t i = 0; !at && driver_can() && i < CK_ARRAY_SIZE(sizes); i++) {
		size = sizes[i];
		at = find_place(size);
	}
	if (!at) {
		ck_info("no addresses that are free both here and on the server: no managed and no "
			"mapped memory");
		return;
	}
	ret = map_file(size);
	if (ret < 0) {
		ck_err("memory for managed pages: %s", strerror(-ret));
		return;
	}
	next_large = at + SMALL_UNITS * UNIT;
	ck_window_hi = at + size;
	__atomic_store_n(&ck_window_lo, at, __ATOMIC_RELEASE);
	ck_debug("window of %zu GiB at %#llx", size >> 30, (unsigned long long)at);
}

CUresult ck_window_open(void)
{
	pthread_mutex_lock(&lock);
	if (!tried)
		open_once();
	tried = true;
	pthread_mutex_unlock(&lock);
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
	off_t data = lseek(file, at, SEEK_DATA), hole;
	size_t before;

	if (data < 0 || data >= end) {	/* nothing but a hole */
		before = *pages;
		*pages = 0;
		return before;
	}
	hole = lseek(file, data, SEEK_HOLE);
	before = (size_t)(data - at) / CK_PAGE;
	*pages = ((size_t)(ck_min(hole, end) - at) + CK_PAGE - 1) / CK_PAGE - before;
	return before;
}

/* --- pages. The lock is held. */

static bool is_small(size_t size)
{
	return size <= SMALL_MAX;
}

static bool is_taken(const struct unit *u, size_t page)
{
	return u->taken[page / 64] >> page % 64 & 1;
}

static void mark(struct unit *u, size_t page, size_t count, bool taken)
{
	for (size_t i = page; i < page + count; i++) {
		uint64_t bit = (uint64_t)1 << i % 64;

		u->taken[i / 64] = taken ? u->taken[i / 64] | bit : u->taken[i / 64] & ~bit;
	}
	u->pages = (uint16_t)(taken ? u->pages + count : u->pages - count);
}

/* First of @count free pages side by side; UNIT_PAGES: there are none. */
static size_t gap_in(const struct unit *u, size_t count)
{
	size_t run = 0;

	for (size_t page = 0; page < UNIT_PAGES; page++) {
		run = is_taken(u, page) ? 0 : run + 1;
		if (run == count)
			return page + 1 - count;
	}
	return UNIT_PAGES;
}

static uint64_t take_small(uint64_t ctx, size_t count)
{
	for (size_t i = 0; i < SMALL_UNITS; i++) {
		struct unit *u = &units[i];
		size_t page;

		if ((u->pages && u->ctx != ctx) || UNIT_PAGES - u->pages < count)
			continue;
		page = gap_in(u, count);
		if (page == UNIT_PAGES)
			continue;
		u->ctx = ctx;
		mark(u, page, count, true);
		return ck_window_lo + i * UNIT + page * CK_PAGE;
	}
	return 0;
}

static uint64_t take_large(size_t size)
{
	uint64_t lo = ck_window_lo + SMALL_UNITS * UNIT;

	if (size > ck_window_hi - lo)
		return 0;
	if (size <= ck_window_hi - next_large &&
	    !ck_ranges_overlap(large, next_large, next_large + size)) {
		lo = next_large;
	} else {
		for (size_t i = 0; i < ck_ranges_count(large); i++) {
			const struct ck_range *r = ck_ranges_at(large, i);

			if (r->lo - lo >= size)
				break;
			lo = r->hi;
		}
	}
	if (size > ck_window_hi - lo || ck_ranges_insert(large, lo, lo + size, NULL) < 0)
		return 0;
	next_large = lo + size;
	return lo;
}

static void release(uint64_t at, size_t size)
{
	if (is_small(size)) {
		uint64_t offset = at - ck_window_lo;

		mark(&units[offset / UNIT], offset % UNIT / CK_PAGE, size / CK_PAGE, false);
		return;
	}
	ck_ranges_remove(large, at, NULL);
	if (next_large == at + CK_ALIGN_UP(size, UNIT))
		next_large = at;
}

/* The program's view of the pages. */
static int map_pages(uint64_t at, size_t size)
{
	void *p = (void *)(uintptr_t)at;

	if (mmap(p, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED, file,
		 (off_t)(at - ck_window_lo)) == MAP_FAILED)
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
	at = is_small(size) ? take_small(ctx, size / CK_PAGE) : take_large(CK_ALIGN_UP(size, UNIT));
	if (at && map_pages(at, size) < 0) {
		release(at, size);
		at = 0;
	}
	pthread_mutex_unlock(&lock);
	*address = at;
	return at ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* The pages' memory goes back to the system; a late access of the program faults. */
void ck_window_give(uint64_t address, size_t size)
{
	size = CK_ALIGN_UP(size, CK_PAGE);
	pthread_mutex_lock(&lock);
	mmap((void *)(uintptr_t)address, size, PROT_NONE, RESERVE | MAP_FIXED, -1, 0);
	fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)(address - ck_window_lo),
		  (off_t)size);
	release(address, size);
	pthread_mutex_unlock(&lock);
}

/* --- device memory. The lock is held over the call: a unit is not used before it is there. */

CUresult ck_window_back(uint64_t ctx, uint64_t address, size_t size)
{
	struct unit *u;
	CUresult err = CUDA_SUCCESS;

	if (!is_small(CK_ALIGN_UP(size, CK_PAGE)))
		return ck_wire_ck_map(ctx, address, CK_ALIGN_UP(size, UNIT));
	pthread_mutex_lock(&lock);
	u = &units[(address - ck_window_lo) / UNIT];
	if (u->backed == 0)
		err = ck_wire_ck_map(ctx, address & ~(UNIT - 1), UNIT);
	else	/* the device's bytes are those of a piece that was here before */
		fallocate(file, 0, (off_t)(address - ck_window_lo),
			  (off_t)CK_ALIGN_UP(size, CK_PAGE));
	if (!err)
		u->backed++;
	pthread_mutex_unlock(&lock);
	return err;
}

void ck_window_unback(uint64_t ctx, uint64_t address, size_t size)
{
	struct unit *u;

	if (!is_small(CK_ALIGN_UP(size, CK_PAGE))) {
		ck_wire_ck_unmap(ctx, address);
		return;
	}
	pthread_mutex_lock(&lock);
	u = &units[(address - ck_window_lo) / UNIT];
	if (--u->backed == 0)
		ck_wire_ck_unmap(ctx, address & ~(UNIT - 1));
	pthread_mutex_unlock(&lock);
}
