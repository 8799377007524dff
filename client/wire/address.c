/*
 * client/wire/address.c - addresses of device memory are reserved in this process.
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

#include "client/wire/client.h"
#include "util/log.h"
#include "util/range.h"

CK_LOG_DEFINE("client");

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

#define UNIT ((uint64_t)2 << 20)	/* drivers map device memory in such pages */

/* Of the process, whatever its sessions: its address space is one. */
static struct ck_mutex claimed_lock = CK_MUTEX(CK_RANK_CLAIMED);
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

	ck_lock(&claimed_lock);
	if (!claimed)
		claimed = ck_ranges_create();
	while (clear && claimed && lo < hi) {
		const struct ck_range *r = ck_ranges_overlap(claimed, lo, hi);
		uint64_t gap = r ? r->lo : hi, next = r ? r->hi : hi;

		if (gap > lo)
			clear = reserve(lo, gap);
		lo = next;
	}
	ck_unlock(&claimed_lock);
	if (!clear)
		ck_debug("device memory at 0x%llx is in the way of this process",
			 (unsigned long long)address);
	return clear;
}

/* A stretch that reaches beyond the reservation has been claimed for something else as well. */
void ck_address_release(uint64_t address, size_t size)
{
	uint64_t lo = address, end = address + size;
	const struct ck_range *r;

	if ((address | size) & (UNIT - 1))
		return;
	ck_lock(&claimed_lock);
	while (claimed && lo < end && (r = ck_ranges_overlap(claimed, lo, end)) != NULL) {
		uint64_t first = r->lo, next = r->hi;

		lo = next;
		if (first < address || next > end)
			continue;
		munmap((void *)(uintptr_t)first, next - first);
		ck_ranges_remove(claimed, first, NULL);
	}
	ck_unlock(&claimed_lock);
}
