/*
 * loader/patch.h - redirect the system calls of a half's ld.so and libc to the loader.
 */
#ifndef CK_LOADER_PATCH_H
#define CK_LOADER_PATCH_H

#include "loader/sites.h"

/* Bytes for a half's pieces of code: some hundred mappings of a libc; dlmopen makes further
 * ones. */
#define CK_PATCH_SIZE (16 * PAGE)

/* Where they come to lie: @at is in reach of a jump, to be filled. */
void ck_patch_begin(unsigned int half, uint64_t at);

/*
 * Intercepts the calls in [at, at + size), where the file @fd is mapped from @offset on. The file's
 * calls are listed in *found. -ENOEXEC: a call does not have the expected form, see sites.h;
 * -ENOSPC; -ERANGE; as the kernel's mmap and mprotect.
 */
int ck_patch_mapped(unsigned int half, enum ck_file kind, int fd, uint64_t at, size_t size,
		    uint64_t offset, struct ck_sites *found);

/* Has the function at @at, _exit, go to @to(half, status). 0 or -errno. */
int ck_patch_exit(unsigned int half, uint64_t at, void (*to)(unsigned int half, int status));

/* A file as bytes, to be unmapped by the caller; -errno. Where it lies is the kernel's choice. */
long ck_patch_open(int fd, size_t *size);

/* By a library's name, without folders: true, and *kind, when its calls are to be intercepted. */
bool ck_patch_kind(const char *name, enum ck_file *kind);

#endif
