/*
 * client/link/address_reservation.c - reserve the addresses of device memory in this process.
 *
 * Device addresses come from the server process. If the client used the same numbers for host
 * memory, a pointer would be ambiguous. A reservation costs one system call per new 2 MiB-aligned
 * range, and no memory. Ranges stay reserved, because the server's driver hands the same addresses
 * out again. The exception is cuMemAddressReserve: a program may make such reservations repeatedly
 * and as large as it likes, so they are released.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>

#include "client/link/client.h"
#include "util/log.h"
#include "util/range.h"

CK_LOG_DEFINE("client");

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

#define UNIT ((uint64_t)2 << 20) /* drivers map device memory in such pages */

/* Per process, not per session: the process has one address space. */
static struct ck_mutex claimed_lock = CK_MUTEX(CK_RANK_CLAIMED);
static struct ck_ranges *claimed;

/* Reserve [lo, hi), none of which is claimed. Old kernels treat the address as a hint only. */
static bool reserve_range(uint64_t lo, uint64_t hi)
{
	void *want = (void *)(uintptr_t)lo;
	void *got = mmap(want, hi - lo, PROT_NONE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);

	if (got == MAP_FAILED)
		return errno != EEXIST; /* an impossible address cannot clash */
	if (got != want) {
		munmap(got, hi - lo);
		return false;
	}
	return ck_ranges_insert(claimed, lo, hi, ckc_client_current()) == 0;
}

bool ckc_address_claim(uint64_t address, size_t size)
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

		if (r && r->value != ckc_client_current()) /* another server's */
			clear = false;
		else if (gap > lo)
			clear = reserve_range(lo, gap);
		lo = next;
	}
	ck_unlock(&claimed_lock);
	if (!clear)
		ck_debug("device memory at 0x%llx is in the way of this process",
			 (unsigned long long)address);
	return clear;
}

/* A 2 MiB unit that extends beyond the reservation may be claimed for something else; keep it. */
void ckc_address_release(uint64_t address, size_t size)
{
	uint64_t lo = address, end = address + size;
	const struct ck_range *r;

	if ((address | size) & (UNIT - 1))
		return;
	ck_lock(&claimed_lock);
	while (claimed && lo < end && (r = ck_ranges_overlap(claimed, lo, end)) != NULL) {
		uint64_t first = r->lo, next = r->hi;

		lo = next;
		if (first < address || next > end || r->value != ckc_client_current())
			continue;
		munmap((void *)(uintptr_t)first, next - first);
		ck_ranges_remove(claimed, first, NULL);
	}
	ck_unlock(&claimed_lock);
}
