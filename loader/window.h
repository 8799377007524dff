/*
 * loader/window.h - who lies where: the windows, and the mappings that halves make later.
 */
#ifndef CK_LOADER_WINDOW_H
#define CK_LOADER_WINDOW_H

#include "loader/sys.h"

/* Windows chosen by us: 1 TiB each, where neither Linux nor a driver maps anything by itself. */
#define CK_WINDOW_FIRST 0x120000000000ull
#define CK_WINDOW_SIZE 0x10000000000ull
#define CK_VDSO_AT 0x11f000000000ull
#define CK_VDSO_SIZE (64 * PAGE)	 /* at most */
#define CK_ADDRESS_END 0x7f0000000000ull /* below the kernel's own addresses */

/* Gives half @half the window [base, end). Nothing is mapped by this. */
void ck_window_set(unsigned int half, uint64_t base, uint64_t end);

/* The half in whose window @address lies; -1: in none. */
int ck_window_of(uint64_t address);

/*
 * The calls of a half's libc that make, move and remove mappings. They behave as the kernel's
 * except for the place: a mapping that is not fixed is placed in the window of @half, or, if the
 * hint is outside of all windows, at the hint. -errno as the kernel's.
 */
long ck_window_mmap(unsigned int half, uint64_t at, size_t size, int prot, int flags, int fd,
		    uint64_t offset);
long ck_window_munmap(uint64_t at, size_t size);
long ck_window_mremap(unsigned int half, uint64_t old, size_t old_size, size_t size, int flags,
		      uint64_t at);
uint64_t ck_window_brk(unsigned int half, uint64_t end);

/* Removes all that lies in the window, and memory of the half outside of it; it may be used
 * again. */
void ck_window_clear(unsigned int half);

#endif
