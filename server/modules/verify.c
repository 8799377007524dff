/*
 * server/modules/verify.c - see link.h. The client reads these files by elf/, which must not need
 * a library; here an independent reader looks at them.
 */
#include <gelf.h>
#include <libelf.h>
#include <stdbool.h>
#include <stdint.h>

#include "server/modules/link.h"

static bool is_inside(uint64_t offset, uint64_t size, size_t whole)
{
	return offset <= whole && size <= whole - offset;
}

/* Each symbol's name; a symbol of a section has none, which is the empty name at 0. */
static bool symbols_named(Elf *elf, Elf_Scn *section, const GElf_Shdr *header)
{
	Elf_Data *data = elf_getdata(section, NULL);
	GElf_Sym symbol;

	if (!data || header->sh_entsize == 0)
		return header->sh_size == 0;
	for (int i = 0; (uint64_t)i < header->sh_size / header->sh_entsize; i++)
		if (!gelf_getsym(data, i, &symbol) ||
		    !elf_strptr(elf, header->sh_link, symbol.st_name))
			return false;
	return true;
}

/*
 * Whether the section is only room in the GPU's memory. NVIDIA has a type of its own for shared
 * memory (.nv_debug.shared in NCCL's kernels); its writable types are all taken for such.
 */
static bool is_room(const GElf_Shdr *header)
{
	return header->sh_type == SHT_NOBITS ||
	       (header->sh_type >= SHT_LOPROC && header->sh_type <= SHT_HIPROC &&
		(header->sh_flags & SHF_WRITE));
}

static const char *section_fault(Elf *elf, Elf_Scn *section, size_t names, size_t size)
{
	GElf_Shdr header;

	if (!gelf_getshdr(section, &header))
		return "a section has no header";
	if (!elf_strptr(elf, names, header.sh_name))
		return "a section has no name";
	if (is_room(&header))
		return NULL;
	if (!is_inside(header.sh_offset, header.sh_size, size))
		return "a section ends beyond the file";
	if (header.sh_type == SHT_SYMTAB && !symbols_named(elf, section, &header))
		return "a symbol has no name";
	return NULL;
}

static const char *segment_fault(Elf *elf, size_t size)
{
	GElf_Phdr header;
	GElf_Ehdr file;
	size_t count;

	/* libelf counts none in a table that it cannot read */
	if (elf_getphdrnum(elf, &count) || !gelf_getehdr(elf, &file) || count != file.e_phnum)
		return "its table of segments ends beyond the file";
	for (size_t i = 0; i < count; i++) {
		if (!gelf_getphdr(elf, (int)i, &header))
			return "its table of segments ends beyond the file";
		if (!is_inside(header.p_offset, header.p_filesz, size))
			return "a segment ends beyond the file";
	}
	return NULL;
}

static const char *file_fault(Elf *elf, size_t size)
{
	const char *fault = NULL;
	Elf_Scn *section = NULL;
	size_t names, count;

	if (elf_kind(elf) != ELF_K_ELF)
		return "it is not an ELF file";
	/* a module without sections is none, and libelf counts none in a table that it cannot
	 * read */
	if (elf_getshdrnum(elf, &count) || count == 0 || elf_getshdrstrndx(elf, &names))
		return "its table of sections ends beyond the file";
	for (size_t i = 1; i < count && !fault; i++) {
		section = elf_getscn(elf, i);
		fault = section ? section_fault(elf, section, names, size)
				: "a section has no header";
	}
	return fault ? fault : segment_fault(elf, size);
}

const char *cks_elf_fault(const void *image, size_t size)
{
	const char *fault;
	Elf *elf;

	if (elf_version(EV_CURRENT) == EV_NONE)
		return "this libelf is too old";
	/* without a command that writes, libelf only reads */
	elf = elf_memory((char *)(uintptr_t)image, size);
	if (!elf)
		return "it is not an ELF file";
	fault = file_fault(elf, size);
	elf_end(elf);
	return fault;
}
