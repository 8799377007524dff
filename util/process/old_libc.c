/*
 * util/process/old_libc.c - names of newer C libraries that Debian's static archives need; see
 * util/process/old_libc.h. Empty in other builds.
 */
#include <features.h>

#if !__GLIBC_PREREQ(2, 25)
#include "util/process/old_libc.h"

void __explicit_bzero_chk(void *p, size_t size, size_t whole);

/* libb2 clears its keys with it. */
void __explicit_bzero_chk(void *p, size_t size, size_t whole)
{
	explicit_bzero(p, size < whole ? size : whole);
}
#endif
