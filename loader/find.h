/*
 * loader/find.h - finding struct lhinfo from inside a half.
 */
#ifndef CK_LOADER_FIND_H
#define CK_LOADER_FIND_H

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "loader/lhinfo.h"

/*
 * The loader's struct; NULL: this process has not been loaded by it. The variable may have been
 * inherited from a process that was, so nothing is read before the kernel has said that it is
 * there.
 */
static inline struct lhinfo *lhinfo_find(void)
{
	const char *text = getenv(LHINFO_ENV);
	uint64_t at = text ? strtoull(text, NULL, 16) : 0;
	unsigned char there[1 + (sizeof(struct lhinfo) >> 12) + 1];
	uint64_t page = at & -4096ull;
	struct lhinfo *info;

	if (!at || at == LHINFO_UNSET || at % 8)
		return NULL;
	if (mincore((void *)(uintptr_t)page, at + sizeof(*info) - page, there) < 0)
		return NULL;
	info = (struct lhinfo *)(uintptr_t)at;
	if (info->magic != LHINFO_MAGIC || info->version != LHINFO_VERSION ||
	    info->size != sizeof(*info) || (info->pid != getpid() && info->child != getpid()))
		return NULL;
	return info;
}

#endif
