/*
 * elf/elf64.h - sections and strings of an ELF file of 64 bits, little-endian, in memory.
 *
 * Only what elf/cubin.c needs of libelf: a client without that library loads in any system. The
 * unit test compares the two. The input is not trusted and need not be aligned. Nothing is copied:
 * the image must outlive the rest.
 */
#ifndef CK_ELF_ELF64_H
#define CK_ELF_ELF64_H

#include <elf.h>
#include <stddef.h>
#include <stdint.h>

struct ck_elf64 {
	const unsigned char *bytes;
	size_t size;
	uint64_t table; /* where the section headers begin */
	size_t count;	/* of sections, with number 0, which is none */
	size_t names;	/* number of the section with the names of sections */
};

struct ck_elf64_section {
	Elf64_Shdr header;
	const char *name;
};

/* -ENOEXEC: not such a file, or its table of sections lies outside of it. */
int ck_elf64_open(const void *image, size_t size, struct ck_elf64 *elf);

/* Section `index` of 1 to count - 1; -ENOEXEC for others, and for one without a name. */
int ck_elf64_section(const struct ck_elf64 *elf, size_t index, struct ck_elf64_section *section);

/* Its bytes; NULL and 0 for one that has none in the file. -ENOEXEC: they lie outside of it. */
int ck_elf64_data(const struct ck_elf64 *elf, const struct ck_elf64_section *section,
		  const void **data, size_t *size);

/* The string at `offset` of the string table in section `index`; NULL unless it ends in there. */
const char *ck_elf64_string(const struct ck_elf64 *elf, size_t index, uint64_t offset);

#endif
