/*
 * util/page.h - pages of memory: aarch64 has kernels with pages of 4, 16 or 64 KiB.
 */
#ifndef CK_UTIL_PAGE_H
#define CK_UTIL_PAGE_H

#include <stddef.h>
#include <unistd.h>

/* The largest page of this processor's kernels: memory aligned to it can be mapped under each of
 * them. */
#if defined(__aarch64__)
#define CK_PAGE_MOST 65536ul
#else
#define CK_PAGE_MOST 4096ul
#endif

/* Bytes of a page of this kernel. */
static inline size_t ck_page(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

#endif
