/*
 * emu/memory/address_space.c - the addresses of one device: reserved; room in them; bytes in use.
 *
 * They are more than the device's memory, so that gaps do not make it run out early; a file in
 * memory lies behind them, which other processes may map a part of (ipc.c). Pages come from the
 * kernel when they are first touched and go back when a range is freed; they stay mapped, so that
 * a kernel's late access to freed memory reads something, and crashes nothing.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "emu/core/usage.h"
#include "emu/memory/address_space.h"
#include "util/process/fd.h"
#include "util/log.h"
#include "util/page.h"
#include "util/range.h"

CK_LOG_DEFINE("emu");

/* As on a GPU, large pieces have pages of their own; programs count on the alignment. */
#define LARGE (1ul << 20)
#define LARGE_PAGE (2ul << 20)
#define PAGE ck_page()
#define SLACK 4 /* reserved addresses by bytes of memory */
/*
 * Where devices' stretches begin, if there is room: far from where the kernel puts mappings. A
 * client has its managed variables at the same addresses as the server's driver, so a program's
 * own mappings must not be there. AddressSanitizer has its heap from 0x600000000000 on.
 */
#define PLACE 0x480000000000ul
#define PLACE_STEP (1ul << 40)

/* Addresses for device @i, with a file behind them where one can be had. */
static void *stretch_map(struct ck_emu_address_space *stretch, int i, size_t size)
{
	void *place = (void *)(PLACE + (uint64_t)i * PLACE_STEP); /* a hint */
	void *base = MAP_FAILED;

	stretch->file = memfd_create("cricket device", MFD_CLOEXEC);
	if (stretch->file >= 0 && ck_fd_resize(stretch->file, (off_t)size) == 0)
		base = mmap(place, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
			    stretch->file, 0);
	if (base != MAP_FAILED)
		return base;
	ck_info("device memory cannot be shared with other processes: %m");
	if (stretch->file >= 0)
		close(stretch->file);
	stretch->file = -1;
	return mmap(place, size, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

int ck_emu_address_space_init(struct ck_emu_address_space *stretch,
			      const struct ck_emu_device *device, int i)
{
	size_t size = CK_ALIGN_UP(device->memory_total, PAGE) * SLACK;
	void *base = stretch_map(stretch, i, size);

	if (base == MAP_FAILED) {
		ck_err("reserve %zu bytes of addresses for device %d: %m", size, i);
		return -ENOMEM;
	}
	stretch->lo = stretch->next = (uint64_t)base;
	stretch->hi = stretch->lo + size;
	stretch->device = device;
	stretch->total = device->memory_total;
	stretch->gap = ck_emu_check_asked("bounds") ? PAGE : 0;
	stretch->ranges = ck_ranges_create();
	return stretch->ranges ? 0 : -ENOMEM;
}

uint64_t ck_emu_address_space_room(const struct ck_emu_address_space *stretch, size_t size,
				   size_t granule)
{
	const uint64_t align = size >= LARGE ? LARGE_PAGE : granule;
	uint64_t lo = CK_ALIGN_UP(stretch->next + stretch->gap, align);

	if (lo + size <= stretch->hi && !ck_ranges_overlap(stretch->ranges, lo, lo + size))
		return lo;
	lo = CK_ALIGN_UP(stretch->lo + stretch->gap, align);
	for (size_t i = 0; i < ck_ranges_count(stretch->ranges); i++) {
		const struct ck_range *range = ck_ranges_at(stretch->ranges, i);

		if (lo + size + stretch->gap <= range->lo)
			return lo;
		lo = CK_ALIGN_UP(range->hi + stretch->gap, align);
	}
	return lo + size <= stretch->hi ? lo : 0;
}

bool ck_emu_address_space_take(struct ck_emu_address_space *stretch, size_t size)
{
	if (size > stretch->total - stretch->used ||
	    !ck_emu_usage_claim(stretch->device->number, stretch->used + size, stretch->total))
		return false;
	stretch->used += size;
	return true;
}

void ck_emu_address_space_give(struct ck_emu_address_space *stretch, size_t size)
{
	stretch->used -= size;
	ck_emu_usage_set(stretch->device->number, stretch->used);
}

void ck_emu_address_space_release(struct ck_emu_address_space *stretch, uint64_t lo, uint64_t hi)
{
	uint64_t first = lo & ~(PAGE - 1), last = CK_ALIGN_UP(hi, PAGE);

	if (first < lo && ck_ranges_overlap(stretch->ranges, first, lo))
		first += PAGE;
	if (hi < last && ck_ranges_overlap(stretch->ranges, hi, last))
		last -= PAGE;
	if (first < last)
		madvise((void *)first, last - first,
			stretch->file >= 0 ? MADV_REMOVE : MADV_DONTNEED);
}
