/*
 * client/managed/window.c - the window: find a place for it, manage its pages and the device memory
 * behind them. A unit shared by small pieces is backed while any piece in it is.
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

#include "client/managed/pages.h"
#include "client/managed/window.h"
#include "client/link/client.h"
#include "rpc/pinned.h"
#include "util/cancel.h"
#include "util/log.h"
#include "util/process/private_fds.h"
#include "util/range.h"

CK_LOG_DEFINE("client");

static struct ck_window *get_window(void)
{
	return &ckc_client_current()->managed->window;
}

/* --- choosing the place */

/* Addresses that neither Linux nor drivers usually use; 0: any free address. */
#ifndef __SANITIZE_THREAD__
static const uint64_t places[] = {
	0x200000000000, 0x300000000000, 0x400000000000, 0x100000000000, 0x500000000000, 0, 0};
static const size_t sizes[] = {1ul << 40, 1ul << 37, 1ul << 35};
#else /* TSan needs those places, and leaves too little for the largest window and its alias */
static const uint64_t places[] = {0, 0, 0};
static const size_t sizes[] = {1ul << 37, 1ul << 35};
#endif

static bool server_takes(uint64_t at, size_t size)
{
	int taken = 0;

	return ck_wire_window(0, at, size, &taken) == CUDA_SUCCESS && taken;
}

/* The device's own answer; client/objects/device.c may hide it from programs. */
static bool driver_can(const struct ckc_client *c)
{
	const ck_device *facts = &c->hello.devices.devices_val[0];

	if (c->hello.devices.devices_len == 0)
		return false;
	for (u_int i = 0; i < facts->attributes.attributes_len; i++) {
		if (facts->attributes.attributes_val[i].id ==
		    CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED)
			return facts->attributes.attributes_val[i].value;
	}
	return false;
}

/* Has the server reserved a window, of a size that is right here? */
static bool window_is_offered(const struct ckc_client *c)
{
	return places[0] && c->offers.window && c->offers.window % CK_UNIT == 0 &&
	       c->offers.window_size == sizes[0];
}

/* Make the memory behind the window: its alias. The child of a fork inherits neither mapping: it
 * has no GPU. */
static int map_alias(struct ck_window *w, uint64_t at, size_t size, size_t shadows)
{
	uint64_t end = at + size;
	int fd;

	/* it tells which pages were touched; it may be beyond the limit of files (ulimit -f), or
	 * not permitted: then there is none */
	ck_private_fd_memory(&w->file, "cricket window", size + shadows, true);
	fd = ck_private_fd_recent(&w->file);
	w->alias = mmap(NULL, size + shadows, PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_NORESERVE | (fd < 0 ? MAP_ANONYMOUS : 0), fd, 0);
	if (w->alias == MAP_FAILED)
		return -errno;
	madvise(w->alias, size + shadows, MADV_DONTFORK);
	w->space = ckc_page_allocator_create(at, end);
	if (shadows > 0)
		w->shadow_space = ckc_page_allocator_create(end, end + shadows);
	return w->space && (w->shadow_space || shadows == 0) ? 0 : -ENOMEM;
}

/* The size of the part for shadowed memory behind the window that is offered. */
static size_t shadows_offered(const struct ckc_client *c)
{
	const ck_hello_shadows *o = &c->shadows_offer;
	bool fits = o->address == c->offers.window + c->offers.window_size &&
		    o->size % CK_UNIT == 0 && o->size <= c->offers.window_size;

	return fits && ckc_session_offers(c, CK_PROC_shadow_map) ? o->size : 0;
}

static void open_once(struct ckc_client *c)
{
	struct ck_window *w = &c->managed->window;
	size_t size = 0, shadows = 0;
	uint64_t at = 0;
	int ret;

	if (window_is_offered(c)) {
		size = c->offers.window_size;
		shadows = shadows_offered(c);
		at = ckc_page_allocator_reserve(c->offers.window, size + shadows);
		if (!at && shadows > 0) {
			shadows = 0;
			at = ckc_page_allocator_reserve(c->offers.window, size);
		}
	}
	for (size_t i = 0; !at && driver_can(c) && i < CK_ARRAY_SIZE(sizes); i++) {
		size = sizes[i];
		at = ckc_page_allocator_agree(places, CK_ARRAY_SIZE(places), size, server_takes);
	}
	if (!at) {
		ck_info("no address range is free on both client and server: managed and mapped "
			"memory are not available");
		return;
	}
	ret = map_alias(w, at, size, shadows);
	if (ret < 0) {
		ck_err("memory for managed pages: %s", strerror(-ret));
		return;
	}
	w->shadows = at + size;
	w->hi = at + size + shadows;
	__atomic_store_n(&w->lo, at, __ATOMIC_RELEASE);
	ck_debug("window of %zu GiB at %#llx", size >> 30, (unsigned long long)at);
}

CUresult ckc_window_open(void)
{
	struct ckc_client *c = ckc_client_current();
	struct ck_window *w = &c->managed->window;
	int cancel = ck_lock_uncancelled(&w->lock);

	if (!w->tried)
		open_once(c);
	w->tried = true;
	ck_unlock_uncancelled(&w->lock, cancel);
	if (c->state == CK_STATE_LOST)
		return CUDA_ERROR_DEVICE_UNAVAILABLE;
	return w->lo ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}

void *ckc_window_alias(uint64_t address)
{
	const struct ck_window *w = get_window();

	return w->alias + (address - w->lo);
}

/* Find the touched extent that contains @address, or the next one; false: the kernel cannot report
 * it. */
static bool find_extent(uint64_t address, struct ckc_window_extent *found)
{
	struct ck_window *w = get_window();
	int fd = ck_private_fd_number(&w->file);
	off_t data = lseek(fd, (off_t)(address - w->lo), SEEK_DATA), hole;

	if (fd < 0)
		return false;
	hole = data < 0 ? -1 : lseek(fd, data, SEEK_HOLE);
	found->lo = hole < 0 ? w->hi : w->lo + (uint64_t)data;
	found->hi = hole < 0 ? w->hi : w->lo + (uint64_t)hole;
	return true;
}

size_t ckc_window_used(uint64_t address, size_t *pages, struct ckc_window_extent *known)
{
	uint64_t end = address + *pages * CK_PAGE;
	size_t before;

	if (address >= known->hi && !find_extent(address, known))
		return 0; /* assume that all were touched */
	before = known->lo <= address ? 0 : (size_t)(ck_min(known->lo, end) - address) / CK_PAGE;
	*pages = (size_t)(ck_min(known->hi, end) - address + CK_PAGE - 1) / CK_PAGE - before;
	return before;
}

/* --- pages */

/* Map the program's view of the pages. Without the file: they are mapped again from where they
 * are. */
static int map_pages(struct ck_window *w, uint64_t at, size_t size)
{
	void *p = (void *)(uintptr_t)at, *view;
	int fd = ck_private_fd_number(&w->file);

	if (fd >= 0)
		view = mmap(p, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED,
			    fd, (off_t)(at - w->lo));
	else
		view = mremap(w->alias + (at - w->lo), 0, size, MREMAP_MAYMOVE | MREMAP_FIXED, p);
	if (view == MAP_FAILED)
		return -errno;
	madvise(p, size, MADV_DONTFORK);
	return 0;
}

static struct ckc_page_allocator *space_of(const struct ck_window *w, uint64_t address)
{
	return ckc_window_shadows(w, address) ? w->shadow_space : w->space;
}

CUresult ckc_window_take(uint64_t ctx, size_t size, bool pinned, uint64_t *address)
{
	struct ck_window *w = get_window();
	uint64_t at = 0;

	if (size > w->shadows - w->lo)
		return CUDA_ERROR_OUT_OF_MEMORY;
	size = CK_ALIGN_UP(size, CK_PAGE);
	ck_lock(&w->lock);
	if (pinned && size <= CK_SHADOW_MOST && w->shadow_space)
		at = ckc_page_allocator_take(w->shadow_space, ctx, size);
	if (!at)
		at = ckc_page_allocator_take(w->space, ctx, size);
	if (at && map_pages(w, at, size) < 0) {
		ckc_page_allocator_give(space_of(w, at), at, size);
		at = 0;
	}
	ck_unlock(&w->lock);
	*address = at;
	return at ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* Return the pages' memory to the system; a late access of the program faults. */
void ckc_window_give(uint64_t address, size_t size)
{
	struct ck_window *w = get_window();
	int cancel = ck_lock_uncancelled(&w->lock);

	size = CK_ALIGN_UP(size, CK_PAGE);
	mmap((void *)(uintptr_t)address, size, PROT_NONE,
	     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
	if (fallocate(ck_private_fd_number(&w->file), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
		      (off_t)(address - w->lo), (off_t)size) < 0)
		madvise(ckc_window_alias(address), size, MADV_REMOVE);
	ckc_page_allocator_give(space_of(w, address), address, size);
	ck_unlock_uncancelled(&w->lock, cancel);
}

/* --- device memory. The lock is held over the call, so that no unit is used before it is
 * mapped. */

CUresult ckc_window_back(struct ckc_context *context, uint64_t address, size_t size)
{
	struct ck_window *w = get_window();
	size_t length;
	uint64_t behind = ckc_page_allocator_behind(address, size, &length);
	uint16_t *users;
	CUresult err = CUDA_SUCCESS;
	int cancel = ck_lock_uncancelled(&w->lock);

	users = ckc_page_allocator_users(w->space, address, size);
	if (!users || *users == 0) {
		err = ckc_pages_announce(context);
		if (!err)
			err = ck_wire_map(context->object.id, behind, length);
	} else { /* the device still holds the bytes of an earlier piece */
		fallocate(ck_private_fd_number(&w->file), 0, (off_t)(address - w->lo),
			  (off_t)CK_ALIGN_UP(size, CK_PAGE));
	}
	if (users && !err)
		++*users;
	ck_unlock_uncancelled(&w->lock, cancel);
	return err;
}

void ckc_window_unback(uint64_t ctx, uint64_t address, size_t size)
{
	struct ck_window *w = get_window();
	size_t length;
	uint64_t behind = ckc_page_allocator_behind(address, size, &length);
	uint16_t *users;

	if (ckc_window_shadows(w, address)) {
		ck_wire_pinned_unmap(ctx, address);
		return;
	}
	ck_lock(&w->lock);
	users = ckc_page_allocator_users(w->space, address, size);
	if (!users || --*users == 0)
		ck_wire_unmap(ctx, behind);
	ck_unlock(&w->lock);
}
