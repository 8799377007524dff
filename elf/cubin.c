/*
 * elf/cubin.c - kernels of a cubin; see cubin.h.
 *
 * A kernel NAME is a function symbol marked as an entry point; .nv.info.NAME describes its
 * parameters, .nv.shared.NAME has the size of its shared memory, .nv.info its registers.
 */
#include <elf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "elf/cubin.h"
#include "elf/elf64.h"
#include "elf/nvinfo.h"
#include "util/map.h"
#include "util/util.h"

#define EM_CUDA_MACHINE 190
#define OSABI_CUDA_12 0x33 /* and before; the SM is in the low byte of e_flags */
#define OSABI_CUDA_13 0x41 /* the SM is in the second byte */
#define STO_ENTRY 0x10	   /* bit of st_other: a kernel, not a device function */

#define INFO ".nv.info"
#define INFO_OF ".nv.info."
#define SHARED_OF ".nv.shared."
#define VARIABLES ".nv.global" /* and .nv.global.init: those with initial values */
#define RESERVED_SHARED ".nv.shared.reserved.0"
/* From sm_90 on the sections count this much that belongs to the system (CUDA 13, H200). */
#define RESERVED_BYTES 1024

struct cubin {
	struct ck_elf64 elf;
	const char *symbols; /* need not be aligned */
	size_t symbol_count;
	size_t strings; /* section with their names */
};

/* Data collected on the way to a list of kernels. */
struct kernel_scan {
	struct ck_kernels kernels;
	struct ck_map *by_name; /* to index + 1, as a pointer */
	uint32_t *of_symbol;	/* symbol number to index + 1 */
	bool *described;	/* kernel had its .nv.info section */
	bool reserves_shared;
};

/* -ENOEXEC unless the first bytes are those of a cubin; *header is then a copy. */
static int header_read(const void *image, size_t size, Elf64_Ehdr *header)
{
	if (!image || size < sizeof(*header))
		return -ENOEXEC;
	memcpy(header, image, sizeof(*header));
	if (memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
	    header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_ident[EI_DATA] != ELFDATA2LSB ||
	    header->e_machine != EM_CUDA_MACHINE)
		return -ENOEXEC;
	return 0;
}

int ck_cubin_sm(const void *image, size_t size, unsigned *sm)
{
	Elf64_Ehdr header;
	int ret = header_read(image, size, &header);

	if (ret < 0)
		return ret;
	switch (header.e_ident[EI_OSABI]) {
	case OSABI_CUDA_12:
		*sm = header.e_flags & 0xFF;
		return 0;
	case OSABI_CUDA_13:
		*sm = header.e_flags >> 8 & 0xFF;
		return 0;
	}
	return -ENOEXEC;
}

/* The first table of symbols is the only one. */
static int cubin_open(const void *image, size_t size, struct cubin *cubin)
{
	struct ck_elf64_section section;
	Elf64_Ehdr file_header;
	const void *symbols;
	size_t length;
	int ret = header_read(image, size, &file_header);

	if (ret < 0)
		return ret;
	*cubin = (struct cubin){0};
	ret = ck_elf64_open(image, size, &cubin->elf);
	for (size_t i = 1; ret == 0 && i < cubin->elf.count; i++) {
		ret = ck_elf64_section(&cubin->elf, i, &section);
		if (ret < 0 || section.header.sh_type != SHT_SYMTAB)
			continue;
		ret = ck_elf64_data(&cubin->elf, &section, &symbols, &length);
		if (ret < 0)
			return ret;
		cubin->symbols = symbols;
		cubin->symbol_count = length / sizeof(Elf64_Sym);
		cubin->strings = section.header.sh_link;
		return 0;
	}
	return -ENOEXEC;
}

/* Copy out symbol `at` and find its name. */
static const char *symbol_read(const struct cubin *cubin, size_t at, Elf64_Sym *symbol)
{
	memcpy(symbol, cubin->symbols + at * sizeof(*symbol), sizeof(*symbol));
	return ck_elf64_string(&cubin->elf, cubin->strings, symbol->st_name);
}

/* List the entry points, without knowing more than their names. */
static int kernels_from_symbols(const struct cubin *cubin, struct kernel_scan *scan)
{
	Elf64_Sym symbol;
	const char *name;
	int ret;

	for (size_t i = 0; i < cubin->symbol_count; i++) {
		name = symbol_read(cubin, i, &symbol);
		if (name)
			scan->kernels.print |= ck_kernels_prints_by(name, strlen(name));
		if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || !(symbol.st_other & STO_ENTRY) ||
		    symbol.st_shndx == SHN_UNDEF)
			continue;
		if (!name || !*name)
			return -ENOEXEC;
		if (!ck_kernels_add(&scan->kernels, name, strlen(name)))
			return -ENOMEM;
		ret = ck_map_insert(scan->by_name, name, strlen(name),
				    (void *)(uintptr_t)scan->kernels.count);
		if (ret < 0)
			return ret == -EEXIST ? -ENOEXEC : ret;
		scan->of_symbol[i] = (uint32_t)scan->kernels.count;
	}
	return 0;
}

/* Index + 1 of the kernel that section `name` belongs to, 0 for none. */
static size_t kernel_of_section(const struct kernel_scan *scan, const char *name,
				const char *prefix)
{
	size_t length = strlen(prefix);

	if (strncmp(name, prefix, length) != 0)
		return 0;
	return (uintptr_t)ck_map_find(scan->by_name, name + length, strlen(name + length));
}

/* The module's own .nv.info: registers of each kernel. */
static int module_info_read(const void *data, size_t size, size_t symbol_count,
			    struct kernel_scan *scan)
{
	struct ck_nvinfo_iter it = {.at = data, .left = size};
	struct ck_nvinfo_record record;
	uint32_t pair[2];
	int ret;

	while ((ret = ck_nvinfo_next(&it, &record)) > 0) {
		if (record.attribute != CK_NVINFO_REGCOUNT || record.size < sizeof(pair))
			continue;
		memcpy(pair, record.payload, sizeof(pair));
		if (pair[0] >= symbol_count)
			return -ENOEXEC;
		if (scan->of_symbol[pair[0]])
			scan->kernels.items[scan->of_symbol[pair[0]] - 1].registers = pair[1];
	}
	return ret;
}

static int kernel_info_read(const void *data, size_t size, size_t index, struct kernel_scan *scan)
{
	if (scan->described[index])
		return -ENOEXEC;
	scan->described[index] = true;
	return ck_nvinfo_kernel(data, size, &scan->kernels.items[index]);
}

static int section_read(const struct cubin *cubin, size_t index, struct kernel_scan *scan)
{
	struct ck_elf64_section section;
	const void *data;
	size_t size, kernel;
	int ret = ck_elf64_section(&cubin->elf, index, &section);

	if (ret < 0)
		return ret;
	if (strcmp(section.name, RESERVED_SHARED) == 0)
		scan->reserves_shared = true;
	if (strncmp(section.name, VARIABLES, strlen(VARIABLES)) == 0 &&
	    ck_add_overflow(scan->kernels.variables, (uint64_t)section.header.sh_size,
			    &scan->kernels.variables))
		return -ENOEXEC;
	kernel = kernel_of_section(scan, section.name, SHARED_OF);
	if (kernel) {
		scan->kernels.items[kernel - 1].shared = (uint32_t)section.header.sh_size;
		return section.header.sh_size > UINT32_MAX ? -ENOEXEC : 0;
	}
	kernel = kernel_of_section(scan, section.name, INFO_OF);
	if (!kernel && strcmp(section.name, INFO) != 0)
		return 0;
	ret = ck_elf64_data(&cubin->elf, &section, &data, &size);
	if (ret < 0)
		return ret;
	return kernel ? kernel_info_read(data, size, kernel - 1, scan)
		      : module_info_read(data, size, cubin->symbol_count, scan);
}

/* With every section read: is each kernel complete? */
static int kernels_finish(struct kernel_scan *scan)
{
	for (size_t i = 0; i < scan->kernels.count; i++) {
		struct ck_kernel *kernel = &scan->kernels.items[i];

		if (!scan->described[i])
			return -ENOEXEC;
		/* the section counts the reserved bytes, the driver's answers do not */
		if (scan->reserves_shared && kernel->shared >= RESERVED_BYTES)
			kernel->shared -= RESERVED_BYTES;
	}
	return 0;
}

static int kernels_scan(const struct cubin *cubin, struct kernel_scan *scan)
{
	int ret;

	scan->by_name = ck_map_create();
	scan->of_symbol = calloc(cubin->symbol_count + 1, sizeof(*scan->of_symbol));
	if (!scan->by_name || !scan->of_symbol)
		return -ENOMEM;
	ret = kernels_from_symbols(cubin, scan);
	if (ret < 0)
		return ret;
	scan->described = calloc(scan->kernels.count + 1, sizeof(*scan->described));
	if (!scan->described)
		return -ENOMEM;
	for (size_t i = 1; i < cubin->elf.count; i++) {
		ret = section_read(cubin, i, scan);
		if (ret < 0)
			return ret;
	}
	return kernels_finish(scan);
}

int ck_cubin_kernels(const void *image, size_t size, struct ck_kernels *out)
{
	struct kernel_scan scan = {0};
	struct cubin cubin;
	int ret = cubin_open(image, size, &cubin);

	if (ret < 0)
		return ret;
	ret = kernels_scan(&cubin, &scan);
	if (ret == 0)
		*out = scan.kernels;
	else
		ck_kernels_free(&scan.kernels);
	ck_map_destroy(scan.by_name);
	free(scan.of_symbol);
	free(scan.described);
	return ret;
}
