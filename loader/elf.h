/*
 * loader/elf.h - ELF files: their kind, and mapping one.
 */
#ifndef CK_LOADER_ELF_H
#define CK_LOADER_ELF_H

#include <linux/elf.h>

#include "loader/sys.h"

#define CK_PHDRS 32

struct ck_elf {
	Elf64_Ehdr head;
	Elf64_Phdr segments[CK_PHDRS];
	char interpreter[256]; /* PT_INTERP; empty: it has none */
	uint64_t lo, hi;       /* the pages that it wants, relative to its base for ET_DYN */
};

/*
 * Reads the head of the file at @path. 0, -errno of the kernel, or -ENOEXEC and the reason in *why:
 * it is no ELF file for this machine that can be run.
 */
int ck_elf_read(const char *path, struct ck_elf *elf, const char **why);

/* Maps the file's segments over the memory from @base on, which is the caller's. 0 or -errno. */
int ck_elf_map(const char *path, const struct ck_elf *elf, uint64_t base);

#endif
