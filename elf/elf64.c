/*
 * elf/elf64.c - read sections and strings of an ELF file; see elf64.h.
 */
#include <errno.h>
#include <string.h>

#include "elf/elf64.h"

/* Does the file have `length` bytes at `offset`? */
static int range_check(const struct ck_elf64 *elf, uint64_t offset, uint64_t length)
{
	return offset > elf->size || length > elf->size - offset ? -ENOEXEC : 0;
}

/* Copy out the header of section `index`; the table of sections lies in the file. */
static void header_read(const struct ck_elf64 *elf, size_t index, Elf64_Shdr *header)
{
	memcpy(header, elf->bytes + elf->table + index * sizeof(*header), sizeof(*header));
}

/* The numbers of a file with too many sections for its header are in section 0. */
static int table_read(const Elf64_Ehdr *file, struct ck_elf64 *elf)
{
	Elf64_Shdr first;

	elf->table = file->e_shoff;
	elf->count = file->e_shnum;
	elf->names = file->e_shstrndx;
	if (file->e_shoff == 0 || file->e_shentsize != sizeof(first) ||
	    range_check(elf, file->e_shoff, sizeof(first)) < 0)
		return -ENOEXEC;
	header_read(elf, 0, &first);
	if (file->e_shnum == 0)
		elf->count = first.sh_size;
	if (file->e_shstrndx == SHN_XINDEX)
		elf->names = first.sh_link;
	if (elf->count > elf->size / sizeof(first))
		return -ENOEXEC;
	return range_check(elf, elf->table, elf->count * sizeof(first));
}

int ck_elf64_open(const void *image, size_t size, struct ck_elf64 *elf)
{
	Elf64_Ehdr file;

	if (!image || size < sizeof(file))
		return -ENOEXEC;
	memcpy(&file, image, sizeof(file));
	if (memcmp(file.e_ident, ELFMAG, SELFMAG) != 0 || file.e_ident[EI_CLASS] != ELFCLASS64 ||
	    file.e_ident[EI_DATA] != ELFDATA2LSB)
		return -ENOEXEC;
	*elf = (struct ck_elf64){.bytes = image, .size = size};
	return table_read(&file, elf);
}

int ck_elf64_section(const struct ck_elf64 *elf, size_t index, struct ck_elf64_section *section)
{
	if (index == 0 || index >= elf->count)
		return -ENOEXEC;
	header_read(elf, index, &section->header);
	section->name = ck_elf64_string(elf, elf->names, section->header.sh_name);
	return section->name ? 0 : -ENOEXEC;
}

int ck_elf64_data(const struct ck_elf64 *elf, const struct ck_elf64_section *section,
		  const void **data, size_t *size)
{
	const Elf64_Shdr *header = &section->header;

	*data = NULL;
	*size = 0;
	if (header->sh_type == SHT_NOBITS || header->sh_size == 0)
		return 0;
	if (range_check(elf, header->sh_offset, header->sh_size) < 0)
		return -ENOEXEC;
	*data = elf->bytes + header->sh_offset;
	*size = header->sh_size;
	return 0;
}

const char *ck_elf64_string(const struct ck_elf64 *elf, size_t index, uint64_t offset)
{
	Elf64_Shdr header;
	const char *at;

	if (index == 0 || index >= elf->count)
		return NULL;
	header_read(elf, index, &header);
	if (header.sh_type != SHT_STRTAB || offset >= header.sh_size ||
	    range_check(elf, header.sh_offset, header.sh_size) < 0)
		return NULL;
	at = (const char *)elf->bytes + header.sh_offset + offset;
	return memchr(at, '\0', header.sh_size - offset) ? at : NULL;
}
