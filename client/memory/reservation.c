/*
 * client/memory/reservation.c - addresses that the program reserves (cuMemAddressReserve).
 *
 * A reserved address must be unused in this process and the server's. Drivers place small
 * reservations among their process's libraries, where another process has its own, and ignore a
 * wish for another place. So on first use, both processes reserve one large arena where neither
 * Linux nor a driver places anything by itself. Reservations are parts of the arena, allocated here
 * without a message. The driver handles requests that do not fit or whose size it should judge.
 */
#include "client/memory/reservation.h"
#include "client/memory/state.h"
#include "client/link/session_list.h"
#include "util/log.h"
#include "util/range.h"
#include "util/util.h"

CK_LOG_DEFINE("client");

#define UNIT ((size_t)2 << 20)	     /* granularity of driver reservations */
#define OFFER_PART ((size_t)1 << 40) /* of an offered arena: twice the memory of any device */
#define TRIES 8			     /* driver reservations that may clash here */

static struct ckc_reservations *get_reservations(void)
{
	return &ckc_client_current()->memory->reservations;
}

#ifndef __SANITIZE_THREAD__
static const uint64_t places[] = {0x240000000000, 0x340000000000, 0x440000000000, 0x140000000000};
static const size_t sizes[] = {4ul << 40, 1ul << 40, 1ul << 37};
#else /* TSan's own memory is there */
static const uint64_t places[] = {0};
static const size_t sizes[] = {0};
#endif

/* Further servers of a list get the addresses above those of the first ones. */
#define PLACES_ABOVE 4

static uint64_t place_number(size_t k)
{
	uint64_t place = places[k % CK_ARRAY_SIZE(places)];
	size_t above = k / CK_ARRAY_SIZE(places);

	return place == 0 || (above && !ckc_many) ? 0 : place + above * sizes[0];
}

/* Reserve [place, place+size) in both processes; false: one of them uses it. */
static bool reserve_both(uint64_t ctx, uint64_t place, size_t size)
{
	CUdeviceptr at = 0;

	if (place == 0)
		return false;
	if (ckc_address_claim(place, size)) {
		CUresult err = ck_wire_cuMemAddressReserve(ctx, &at, size, 0, place, 0);

		if (!err && at == place)
			return true;
		if (!err)
			ck_wire_cuMemAddressFree(ctx, at, size);
	}
	ckc_address_release(place, size);
	return false;
}

/*
 * Use the addresses that the server has reserved, if they are free here. Those at the beginning are
 * for the device whose memory is leased there.
 */
static bool adopt_offer(struct ckc_reservations *all, const struct ckc_client *c)
{
	uint64_t at = c->offers.arena, size = c->offers.arena_size;

	if (places[0] == 0 || at == 0 || at % UNIT || size % UNIT || size <= OFFER_PART ||
	    size > sizes[0])
		return false;
	if (!ckc_address_claim(at, size) ||
	    ck_ranges_insert(all->parts, at, at + OFFER_PART, NULL) < 0) {
		ckc_address_release(at, size);
		return false;
	}
	all->arena_lo = all->offered = at;
	all->arena_hi = at + size;
	all->next = at + OFFER_PART;
	return true;
}

/* Call with the lock held. */
static void open_arena(struct ckc_reservations *all, uint64_t ctx)
{
	all->tried = true;
	all->parts = ck_ranges_create();
	if (all->parts && adopt_offer(all, ckc_client_current()))
		return;
	for (size_t i = 0; all->parts && i < CK_ARRAY_SIZE(sizes); i++) {
		for (size_t k = 0; k < CK_ARRAY_SIZE(places) * PLACES_ABOVE; k++) {
			uint64_t place = place_number(k);

			if (!reserve_both(ctx, place, sizes[i]))
				continue;
			all->next = all->arena_lo = place;
			all->arena_hi = all->arena_lo + sizes[i];
			ck_debug("reservations are in %zu GiB at %#llx", sizes[i] >> 30,
				 (unsigned long long)all->arena_lo);
			return;
		}
	}
	ck_info("no address range for reservations is free on both client and server");
}

/* The first aligned gap of @size bytes from @from on; 0: none. Call with the lock held. */
static uint64_t gap_from(const struct ckc_reservations *all, uint64_t from, size_t size,
			 size_t alignment)
{
	uint64_t at = CK_ALIGN_UP(from, (uint64_t)alignment);

	while (at >= from && at < all->arena_hi && size <= all->arena_hi - at) {
		const struct ck_range *r = ck_ranges_overlap(all->parts, at, at + size);

		if (!r)
			return at;
		at = CK_ALIGN_UP(r->hi, (uint64_t)alignment);
	}
	return 0;
}

/* Allocate a part of the arena, at @wish if possible; 0: no room. */
static uint64_t take_part(uint64_t ctx, size_t size, size_t alignment, uint64_t wish)
{
	struct ckc_reservations *all = get_reservations();
	uint64_t at = 0;

	alignment = ck_max(alignment, UNIT);
	ck_lock(&all->lock);
	if (!all->tried)
		open_arena(all, ctx);
	if (all->arena_lo) {
		if (wish >= all->arena_lo && wish < all->arena_hi && wish % alignment == 0 &&
		    size <= all->arena_hi - wish &&
		    !ck_ranges_overlap(all->parts, wish, wish + size))
			at = wish;
		if (!at)
			at = gap_from(all, all->next, size, alignment);
		if (!at)
			at = gap_from(all, all->arena_lo, size, alignment);
		if (at && ck_ranges_insert(all->parts, at, at + size, NULL) < 0)
			at = 0;
		if (at)
			all->next = at + size;
	}
	ck_unlock(&all->lock);
	return at;
}

uint64_t ckc_reservation_heap(uint64_t ctx, CUdevice device, size_t size, bool *offered)
{
	struct ckc_client *c = ckc_client_current();
	struct ckc_reservations *all = &c->memory->reservations;
	uint64_t at;

	ck_lock(&all->lock);
	if (!all->tried)
		open_arena(all, ctx);
	at = all->offered;
	*offered = at && ckc_gpu(device)->server_ordinal == c->offers.lease_device &&
		   size <= OFFER_PART && c->offers.lease_size <= size;
	ck_unlock(&all->lock);
	return *offered ? at : take_part(ctx, size, UNIT, 0);
}

/* Request a reservation from the driver. While one clashes here, keep it and request another. */
static CUresult ask_driver(uint64_t ctx, CUdeviceptr *out, size_t size, size_t alignment,
			   CUdeviceptr wish)
{
	CUdeviceptr held[TRIES], at = 0;
	unsigned int count = 0;
	CUresult err;

	while ((err = ck_wire_cuMemAddressReserve(ctx, &at, size, alignment, wish, 0)) == 0) {
		if (ckc_address_claim(at, size))
			break;
		ckc_address_release(at, size); /* release the parts that were free */
		held[count++] = at;
		if (count == TRIES) {
			ck_warn("no address range of %zu bytes is free on both client and server",
				size);
			err = CUDA_ERROR_OUT_OF_MEMORY;
			break;
		}
	}
	while (count > 0)
		ck_wire_cuMemAddressFree(ctx, held[--count], size);
	*out = at;
	return err;
}

CK_EXPORT CUresult cuMemAddressReserve(CUdeviceptr *ptr, size_t size, size_t alignment,
				       CUdeviceptr addr, unsigned long long flags)
{
	CUdeviceptr at = 0;
	uint64_t ctx;
	CUresult err = ckc_enter_any(&ctx);

	if (err)
		return err;
	if (!ptr || size == 0 || flags || (alignment & (alignment - 1)))
		return CUDA_ERROR_INVALID_VALUE;
	if (size % UNIT == 0)
		at = take_part(ctx, size, alignment, addr);
	if (!at)
		err = ask_driver(ctx, &at, size, alignment, addr);
	if (!err)
		*ptr = at;
	return err;
}

/* Free a part of the arena; false: not a part. INVALID_VALUE: not of this size, or something is
 * mapped in it. */
static bool give_part(uint64_t at, size_t size, CUresult *err)
{
	struct ckc_reservations *all = get_reservations();
	const struct ck_range *r;
	bool ours;

	ck_lock(&all->lock);
	ours = at >= all->arena_lo && at < all->arena_hi;
	r = ours ? ck_ranges_find(all->parts, at) : NULL;
	*err = CUDA_ERROR_INVALID_VALUE;
	if (r && r->lo == at && r->hi - r->lo == size && !ckc_allocation_mapped(at, size)) {
		ck_ranges_remove(all->parts, at, NULL);
		*err = CUDA_SUCCESS;
	}
	ck_unlock(&all->lock);
	return ours;
}

CK_EXPORT CUresult cuMemAddressFree(CUdeviceptr ptr, size_t size)
{
	uint64_t ctx;
	CUresult err = ckc_enter_any(&ctx);

	if (err || give_part(ptr, size, &err))
		return err;
	/* first: after the driver frees it, another thread may get the same place */
	ckc_address_release(ptr, size);
	err = ck_wire_cuMemAddressFree(ctx, ptr, size);
	if (err)
		ckc_address_claim(ptr, size);
	return err;
}

bool ckc_reservation_holds(uint64_t address, size_t size)
{
	struct ckc_reservations *all = get_reservations();
	const struct ck_range *r;
	bool holds = true;

	ck_lock(&all->lock);
	if (address >= all->arena_lo && address < all->arena_hi) {
		r = ck_ranges_find(all->parts, address);
		holds = r && size <= r->hi - address;
	}
	ck_unlock(&all->lock);
	return holds;
}
