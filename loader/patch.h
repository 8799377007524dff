/*
 * loader/patch.h - the system calls of a half's ld.so and libc, turned to the loader.
 */
#ifndef CK_LOADER_PATCH_H
#define CK_LOADER_PATCH_H

#include "loader/sys.h"

enum ck_file { CK_FILE_LDSO, CK_FILE_LIBC };

/*
 * How often each call that we turn occurs in [text, text + size): *what names the first that does
 * not occur as often as it must, *count says how often it does. -ENOEXEC then, else 0.
 */
int ck_patch_check(enum ck_file file, const uint8_t *text, size_t size, const char **what,
		   unsigned int *count);

/* Where half @half's pieces of code come to lie: @page is a page in reach of a jump, to be filled. */
void ck_patch_begin(unsigned int half, uint64_t page);

/* Turns the calls of mapped text. -ENOEXEC as above; -ENOSPC; -ERANGE; as the kernel's mprotect. */
int ck_patch_text(unsigned int half, enum ck_file file, uint64_t text, size_t size,
		  const char **what, unsigned int *count);

/* Has the function at @at, _exit, go to @to(half, status). 0 or -errno. */
int ck_patch_exit(unsigned int half, uint64_t at, void (*to)(unsigned int half, int status));

/* How many calls of the half have been turned. */
unsigned int ck_patch_sites(unsigned int half);

#endif
