/*
 * loader/window.c - choosing addresses in a half's window.
 *
 * A window is allocated from below. Pieces that are returned go into a short list and are used
 * first. The kernel decides: the chosen place is requested with MAP_FIXED_NOREPLACE, and if it is
 * occupied, the next place is tried.
 *
 * All this runs in place of a system call: in signal handlers too, and in a child of fork, where
 * other threads and the locks that they held are lost. Therefore nothing here waits. A thread that
 * gets the lock of the lists of pieces (loader/pieces.h) at once uses them; any other takes new
 * addresses, or leaves returned ones unused.
 */
#include "loader/window.h"
#include "loader/lhinfo.h"
#include "loader/pieces.h"

#define HUGE (2ul << 20)
#define BRK_ROOM (64ul << 30)
#define TRIES 256
#define HUGE_SHIFT(flags) ((unsigned int)(flags) >> MAP_HUGE_SHIFT & MAP_HUGE_MASK)

struct window {
	uint64_t base, end, next;	     /* next: above it all is new */
	uint64_t brk_base, brk_end, brk_now; /* its heap has a place of its own */
	struct ck_pieces free;
	struct ck_pieces outside;
	bool astray; /* addresses outside are not recorded any more: they stay when the rest
			 * is removed */
};

static struct window windows[LHINFO_HALVES];

void ck_window_set(unsigned int half, uint64_t base, uint64_t end)
{
	struct window *w = &windows[half];

	w->brk_end = end;
	w->brk_base = w->brk_now = end - (end - base > 4 * BRK_ROOM ? BRK_ROOM : (end - base) / 4);
	w->base = w->next = base;
	w->end = w->brk_base;
	w->free.count = w->outside.count = 0;
}

int ck_window_of(uint64_t address)
{
	for (int i = 0; i < LHINFO_HALVES; i++)
		if (address >= windows[i].base && address < windows[i].brk_end)
			return i;
	return -1;
}

/* --- pieces that came back */

/* Where the list is full, or somebody has it, the addresses are lost, not the memory. */
static void add_free_range(struct window *w, uint64_t at, uint64_t end)
{
	if (at >= end || !ck_pieces_lock(&w->free))
		return;
	ck_pieces_add(&w->free, at, end);
	ck_pieces_unlock(&w->free);
}

static uint64_t take_piece(struct window *w, size_t size, uint64_t align)
{
	uint64_t at;

	if (!w->free.count || !ck_pieces_lock(&w->free))
		return 0;
	at = ck_pieces_take(&w->free, size, align);
	ck_pieces_unlock(&w->free);
	return at;
}

/* An address for @size bytes where nothing of ours lies; 0: the window is full. */
static uint64_t take_range(struct window *w, size_t size, uint64_t align)
{
	uint64_t at = take_piece(w, size, align), from;

	if (at)
		return at;
	from = __atomic_load_n(&w->next, __ATOMIC_RELAXED);
	do {
		at = (from + align - 1) & -align;
		if (at > w->end || w->end - at < size)
			return 0;
	} while (!__atomic_compare_exchange_n(&w->next, &from, at + size, false, __ATOMIC_RELAXED,
					      __ATOMIC_RELAXED));
	add_free_range(w, from, at);
	return at;
}

/* --- memory outside */

static bool is_outside(uint64_t at, size_t size)
{
	if (!at || at >= CK_ADDRESS_END || size > CK_ADDRESS_END - at)
		return false;
	for (int i = 0; i < LHINFO_HALVES; i++)
		if (ranges_overlap(at, at + size, windows[i].base, windows[i].brk_end))
			return false;
	return true;
}

/* Noted for the half's end; false: that cannot be. */
static bool note_outside(struct window *w, uint64_t at, uint64_t end)
{
	bool noted;

	if (!ck_pieces_lock(&w->outside))
		return false;
	noted = ck_pieces_add(&w->outside, at, end);
	ck_pieces_unlock(&w->outside);
	return noted;
}

/*
 * Memory that is wanted at a place of its own, which the kernel would give as well: NVIDIA's driver
 * does not go on without (0x200000000, 0x10000000000). 0: it is not to be had there.
 */
static long map_outside(struct window *w, uint64_t at, size_t size, int prot, int flags)
{
	long ret = sys_mmap(at, size, prot, flags | MAP_FIXED_NOREPLACE, -1, 0);

	if (is_error(ret))
		return 0;
	if (!note_outside(w, at, at + size)) {
		sys2(__NR_munmap, at, size);
		return 0;
	}
	return ret;
}

/*
 * Addresses that the caller chose, or that no window has room for. A mapping that replaces another
 * keeps its owner.
 */
static long map_as_told(struct window *w, uint64_t at, size_t size, int prot, int flags, int fd,
			uint64_t offset)
{
	long ret = sys_mmap(at, size, prot, flags, fd, offset);

	if (!is_error(ret) && !(flags & MAP_FIXED) && is_outside((uint64_t)ret, page_up(size)))
		note_outside(w, (uint64_t)ret, (uint64_t)ret + page_up(size));
	return ret;
}

typedef bool (*change_fn)(struct ck_pieces *list, uint64_t at, uint64_t end);

/* Any half may remove or extend mappings of another. */
static void change_outside(change_fn change, uint64_t at, uint64_t end)
{
	for (int i = 0; i < LHINFO_HALVES; i++) {
		struct window *w = &windows[i];

		if (!__atomic_load_n(&w->outside.count, __ATOMIC_RELAXED))
			continue;
		if (!ck_pieces_lock(&w->outside)) {
			w->astray = true;
			continue;
		}
		if (!change(&w->outside, at, end))
			w->astray = true;
		ck_pieces_unlock(&w->outside);
	}
}

/* Nothing lies at [at, at + size) any more. */
static void mark_unmapped(uint64_t at, size_t size)
{
	int half = ck_window_of(at);
	uint64_t end = page_up(at + size);

	if (half < 0)
		change_outside(ck_pieces_remove, at, end);
	else if (end <= windows[half].end)
		add_free_range(&windows[half], at, end);
}

/* --- the calls */

long ck_window_mmap(unsigned int half, uint64_t at, size_t size, int prot, int flags, int fd,
		    uint64_t offset)
{
	struct window *w = &windows[half];
	uint64_t align = size >= HUGE ? HUGE : PAGE, room = page_up(size);
	long ret;

	if (flags & (MAP_FIXED | MAP_FIXED_NOREPLACE) || !size || size > w->end - w->base)
		return map_as_told(w, at, size, prot, flags, fd, offset);
	if (flags & MAP_HUGETLB) {
		align = 1ul << (HUGE_SHIFT(flags) ? HUGE_SHIFT(flags) : 21);
		room = (size + align - 1) & -align;
	}
	/* below 4 GiB nothing is ours, and libc asks for it only to save instruction bytes */
	flags &= ~MAP_32BIT;
	if (flags & MAP_ANONYMOUS && is_outside(page_down(at), room)) {
		ret = map_outside(w, page_down(at), room, prot, flags);
		if (ret)
			return ret;
	}
	if (at && ck_window_of(at) == (int)half) {
		ret = sys_mmap(at, size, prot, flags | MAP_FIXED_NOREPLACE, fd, offset);
		if (!is_error(ret))
			return ret;
	}
	for (int i = 0; i < TRIES; i++) {
		at = take_range(w, room, align);
		if (!at)
			return -ENOMEM;
		ret = sys_mmap(at, size, prot, flags | MAP_FIXED_NOREPLACE, fd, offset);
		if (!is_error(ret))
			return ret;
		if (ret != -EEXIST) {
			add_free_range(w, at, at + room);
			return ret;
		}
	}
	return -ENOMEM;
}

long ck_window_munmap(uint64_t at, size_t size)
{
	long ret = sys2(__NR_munmap, at, size);

	if (!ret)
		mark_unmapped(at, size);
	return ret;
}

/* Where it is, or where the caller wants it. */
static long remap_as_told(unsigned int half, uint64_t old, size_t old_size, size_t size, int flags,
			  uint64_t at)
{
	long ret = sys6(__NR_mremap, (long)old, (long)old_size, (long)size, flags, (long)at, 0);
	uint64_t end = page_up(old + old_size), new_end = page_up(old + size);

	if (is_error(ret))
		return ret;
	if ((uint64_t)ret != old) {
		if (!(flags & MREMAP_DONTUNMAP) && old_size)
			mark_unmapped(old, old_size);
		change_outside(ck_pieces_remove, at, page_up(at + size)); /* the former mapping */
		if (is_outside(at, page_up(size)))
			note_outside(&windows[half], at, page_up(at + size));
	} else if (new_end < end) {
		mark_unmapped(new_end, end - new_end);
	} else if (new_end > end && ck_window_of(old) < 0) {
		change_outside(ck_pieces_grow, end, new_end);
	}
	return ret;
}

/* A new place is held by a mapping of nothing until the kernel has moved the old one there. */
long ck_window_mremap(unsigned int half, uint64_t old, size_t old_size, size_t size, int flags,
		      uint64_t at)
{
	long ret;

	if (!(flags & MREMAP_MAYMOVE) || flags & MREMAP_FIXED)
		return remap_as_told(half, old, old_size, size, flags, at);
	if (!(flags & MREMAP_DONTUNMAP) && old_size) {
		ret = remap_as_told(half, old, old_size, size, 0, 0);
		if (ret != -ENOMEM)
			return ret;
	}
	ret = ck_window_mmap(half, 0, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
			     -1, 0);
	if (is_error(ret))
		return ret;
	at = (uint64_t)ret;
	ret = sys6(__NR_mremap, (long)old, (long)old_size, (long)size, flags | MREMAP_FIXED,
		   (long)at, 0);
	if (is_error(ret))
		ck_window_munmap(at, size);
	else if (!(flags & MREMAP_DONTUNMAP) && old_size)
		mark_unmapped(old, old_size);
	return ret;
}

/* Like the kernel's: the end as it is afterwards, the old one where it cannot be as asked. */
uint64_t ck_window_brk(unsigned int half, uint64_t end)
{
	struct window *w = &windows[half];
	uint64_t now = page_up(w->brk_now), then = page_up(end);
	int fixed = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;

	if (end < w->brk_base || end > w->brk_end)
		return w->brk_now;
	if (then > now && is_error(sys_mmap(now, then - now, PROT_READ | PROT_WRITE, fixed, -1, 0)))
		return w->brk_now;
	if (then < now)
		sys2(__NR_munmap, then, now - then);
	w->brk_now = end;
	return end;
}

/* The half's own threads are gone, those of others may be removing things. */
static void clear_outside(struct window *w)
{
	while (!w->astray && ck_pieces_lock(&w->outside)) {
		struct ck_loader_piece p = {0, 0};

		if (w->outside.count)
			p = w->outside.piece[--w->outside.count];
		ck_pieces_unlock(&w->outside);
		if (!p.end)
			return;
		sys2(__NR_munmap, p.at, p.end - p.at);
	}
	/* who held the list is gone: a child of fork */
	w->outside.count = w->outside.lock = 0;
	w->astray = false;
}

void ck_window_clear(unsigned int half)
{
	struct window *w = &windows[half];

	sys2(__NR_munmap, w->base, w->brk_end - w->base);
	clear_outside(w);
	w->next = w->base;
	w->brk_now = w->brk_base;
	w->free.count = w->free.lock = 0;
}
