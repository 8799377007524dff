/*
 * client/address.c - addresses of device memory are reserved in this process.
 *
 * Device addresses are the server process's own. Were the same numbers used here for memory of
 * the host, a pointer would not tell which of the two it means. Reserving costs a system call for
 * each 2 MiB-aligned stretch that is new, and no memory; it is not undone, because the server's
 * driver hands the same addresses out again. Reservations of cuMemAddressReserve are the exception:
 * a program may make them as large as it likes, again and again.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>

#include "client/client.h"
#include "util/log.h"
#include "util/range.h"

CK_LOG_DEFINE("client");

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

#define UNIT ((uint64_t)2 << 20)	/* drivers map device memory in such pages */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct ck_ranges *claimed;

/* Reserve [lo, hi), none of which is claimed. Old kernels take the address for a hint only. */
static bool reserve(uint64_t lo, uint64_t hi)
{
	void *want = (void *)(uintptr_t)lo;
	void *got = mmap(want, hi - lo, PROT_NONE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);

	if (got == MAP_FAILED)
		return errno != EEXIST;	/* not an address of ours at all: nothing can clash */
	if (got != want) {
		munmap(got, hi - lo);
		return false;
	}
	return ck_ranges_insert(claimed, lo, hi, &claimed) == 0;
}

bool ck_address_claim(uint64_t address, size_t size)
{
	uint64_t lo = address & ~(UNIT - 1);
	uint64_t hi = (address + size + UNIT - 1) & ~(UNIT - 1);
	bool clear = true;

	pthread_mutex_lock(&lock);
	if (!claimed)
		claimed = ck_ranges_create();
	while (clear && claimed && lo < hi) {
		const struct ck_range *r = ck_ranges_overlap(claimed, lo, hi);
		uint64_t gap = r ? r->lo : hi, next = r ? r->hi : hi;

		if (gap > lo)
			clear = reserve(lo, gap);
		lo = next;
	}
	pthread_mutex_unlock(&lock);
	if (!clear)
		ck_debug("device memory at 0x%llx is in the way of this process",
			 (unsigned long long)address);
	return clear;
}

/*
 * @size bytes here, if nothing of ours is there. Where neither Linux nor the driver puts anything
 * on its own: driver 580 takes no heed of a wish that is near the top of the address space.
 */
static void *quiet_place(size_t size)
{
	static uint64_t next = 0x240000000000;
	void *want, *got;

#ifdef __SANITIZE_THREAD__	/* its memory has places of its own, and mmap as it has it no hints */
	return MAP_FAILED;
#endif

	pthread_mutex_lock(&lock);
	want = (void *)(uintptr_t)next;
	next += size;
	if (next > 0x2f0000000000)
		next = 0x240000000000;
	pthread_mutex_unlock(&lock);
	got = mmap(want, size, PROT_NONE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
	if (got != MAP_FAILED && got != want) {
		munmap(got, size);
		return MAP_FAILED;
	}
	return got;
}

uint64_t ck_address_find(size_t size, size_t align)
{
	size_t padded;
	uint64_t at = 0, start;
	void *got;

	align = align < UNIT ? UNIT : align;
	size = CK_ALIGN_UP(size, UNIT);
	if (ck_add_overflow(size, align, &padded))
		return 0;
	got = quiet_place(padded);
	if (got == MAP_FAILED)
		got = mmap(NULL, padded, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
			   -1, 0);
	if (got == MAP_FAILED)
		return 0;
	start = (uint64_t)(uintptr_t)got;
	at = CK_ALIGN_UP(start, (uint64_t)align);
	if (at > start)
		munmap(got, at - start);
	if (at + size < start + padded)
		munmap((void *)(uintptr_t)(at + size), start + padded - at - size);
	pthread_mutex_lock(&lock);
	if (!claimed)
		claimed = ck_ranges_create();
	if (!claimed || ck_ranges_insert(claimed, at, at + size, &claimed) < 0) {
		munmap((void *)(uintptr_t)at, size);
		at = 0;
	}
	pthread_mutex_unlock(&lock);
	return at;
}

/* A stretch that reaches beyond the reservation has been claimed for something else as well. */
void ck_address_release(uint64_t address, size_t size)
{
	uint64_t lo = address, end = address + size;
	const struct ck_range *r;

	if ((address | size) & (UNIT - 1))
		return;
	pthread_mutex_lock(&lock);
	while (claimed && lo < end && (r = ck_ranges_overlap(claimed, lo, end)) != NULL) {
		uint64_t first = r->lo, next = r->hi;

		lo = next;
		if (first < address || next > end)
			continue;
		munmap((void *)(uintptr_t)first, next - first);
		ck_ranges_remove(claimed, first, NULL);
	}
	pthread_mutex_unlock(&lock);
}
