/*
 * tests/unit/test_elf_elf64.c - sections and strings of ELF files, whole and damaged.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <libelf.h>

#include "elf/elf64.h"
#include "tests/unit/elf_data.h"

/* A file of three sections: none, names, and one whose header the tests change. */
struct file {
	Elf64_Ehdr header;
	Elf64_Shdr sections[3];
	char names[16];
	char bytes[8];
};

static struct file file_make(void)
{
	struct file file = {
		.header = {.e_shoff = offsetof(struct file, sections),
			   .e_shentsize = sizeof(Elf64_Shdr),
			   .e_shnum = 3,
			   .e_shstrndx = 1},
		.sections = {[1] = {.sh_type = SHT_STRTAB,
				    .sh_offset = offsetof(struct file, names),
				    .sh_size = sizeof(file.names)},
			     [2] = {.sh_name = 1,
				    .sh_type = SHT_PROGBITS,
				    .sh_offset = offsetof(struct file, bytes),
				    .sh_size = sizeof(file.bytes)}},
		.names = "\0.data",
		.bytes = "1234567",
	};

	memcpy(file.header.e_ident, ELFMAG, SELFMAG);
	file.header.e_ident[EI_CLASS] = ELFCLASS64;
	file.header.e_ident[EI_DATA] = ELFDATA2LSB;
	return file;
}

static int second_read(const struct file *file, const void **data, size_t *size)
{
	struct ck_elf64_section section;
	struct ck_elf64 elf;
	int ret = ck_elf64_open(file, sizeof(*file), &elf);

	if (ret == 0)
		ret = ck_elf64_section(&elf, 2, &section);
	return ret == 0 ? ck_elf64_data(&elf, &section, data, size) : ret;
}

static void a_section_has_its_name_and_bytes(void **state)
{
	struct file file = file_make();
	struct ck_elf64_section section;
	struct ck_elf64 elf;
	const void *data;
	size_t size;

	(void)state;
	assert_int_equal(ck_elf64_open(&file, sizeof(file), &elf), 0);
	assert_int_equal(ck_elf64_section(&elf, 2, &section), 0);
	assert_string_equal(section.name, ".data");
	assert_int_equal(ck_elf64_data(&elf, &section, &data, &size), 0);
	assert_ptr_equal(data, file.bytes);
	assert_int_equal(size, sizeof(file.bytes));
	assert_int_equal(ck_elf64_section(&elf, 0, &section), -ENOEXEC);
	assert_int_equal(ck_elf64_section(&elf, 3, &section), -ENOEXEC);
}

static void bytes_outside_of_the_file_are_refused(void **state)
{
	static const uint64_t places[][2] = {{sizeof(struct file) + 1, 1},
					     {sizeof(struct file) - 1, 2},
					     {UINT64_MAX - 1, 4},
					     {8, UINT64_MAX - 4}};
	const void *data;
	size_t size;

	(void)state;
	for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++) {
		struct file file = file_make();

		file.sections[2].sh_offset = places[i][0];
		file.sections[2].sh_size = places[i][1];
		assert_int_equal(second_read(&file, &data, &size), -ENOEXEC);
	}
}

static void a_section_without_bytes_in_the_file_has_none(void **state)
{
	struct file file = file_make();
	const void *data = &file;
	size_t size = 1;

	(void)state;
	file.sections[2].sh_type = SHT_NOBITS;
	file.sections[2].sh_size = UINT64_MAX;
	assert_int_equal(second_read(&file, &data, &size), 0);
	assert_null(data);
	assert_int_equal(size, 0);
}

static void a_table_outside_of_the_file_is_refused(void **state)
{
	struct file file = file_make();
	struct ck_elf64 elf;

	(void)state;
	file.header.e_shnum = 4;
	assert_int_equal(ck_elf64_open(&file, sizeof(file), &elf), -ENOEXEC);
	file.header.e_shnum = 3;
	file.header.e_shoff = UINT64_MAX - 8;
	assert_int_equal(ck_elf64_open(&file, sizeof(file), &elf), -ENOEXEC);
	file.header.e_shoff = 0;
	assert_int_equal(ck_elf64_open(&file, sizeof(file), &elf), -ENOEXEC);
	assert_int_equal(ck_elf64_open(&file, sizeof(file.header) - 1, &elf), -ENOEXEC);
}

static void the_first_section_has_the_numbers_that_are_too_large(void **state)
{
	struct file file = file_make();
	struct ck_elf64 elf;

	(void)state;
	file.header.e_shnum = 0;
	file.header.e_shstrndx = SHN_XINDEX;
	file.sections[0].sh_size = 3;
	file.sections[0].sh_link = 1;
	assert_int_equal(ck_elf64_open(&file, sizeof(file), &elf), 0);
	assert_int_equal(elf.count, 3);
	assert_int_equal(elf.names, 1);
	file.sections[0].sh_size = UINT64_MAX / sizeof(Elf64_Shdr) + 2;
	assert_int_equal(ck_elf64_open(&file, sizeof(file), &elf), -ENOEXEC);
}

static void a_string_ends_in_its_table(void **state)
{
	struct file file = file_make();
	struct ck_elf64 elf;

	(void)state;
	assert_int_equal(ck_elf64_open(&file, sizeof(file), &elf), 0);
	assert_string_equal(ck_elf64_string(&elf, 1, 1), ".data");
	assert_null(ck_elf64_string(&elf, 1, sizeof(file.names)));
	assert_null(ck_elf64_string(&elf, 2, 0)); /* no table of strings */
	assert_null(ck_elf64_string(&elf, 3, 0));
	memset(file.names, 'x', sizeof(file.names));
	assert_null(ck_elf64_string(&elf, 1, 1));
}

/* libelf, an independent reader, finds the same sections with the same names and bytes. */
static void compare(const struct elf_data *file, size_t *sections)
{
	Elf *other = elf_memory(file->bytes, file->size);
	struct ck_elf64 elf;
	size_t names;

	assert_non_null(other);
	assert_int_equal(ck_elf64_open(file->bytes, file->size, &elf), 0);
	assert_int_equal(elf_getshdrstrndx(other, &names), 0);
	assert_int_equal(elf.names, names);
	*sections = 0;
	for (Elf_Scn *at = NULL; (at = elf_nextscn(other, at)) != NULL; ++*sections) {
		const Elf64_Shdr *header = elf64_getshdr(at);
		const Elf_Data *bytes = elf_rawdata(at, NULL);
		struct ck_elf64_section section;
		const void *data;
		size_t size;

		assert_int_equal(ck_elf64_section(&elf, elf_ndxscn(at), &section), 0);
		assert_string_equal(section.name, elf_strptr(other, names, header->sh_name));
		assert_memory_equal(&section.header, header, sizeof(*header));
		assert_int_equal(ck_elf64_data(&elf, &section, &data, &size), 0);
		assert_int_equal(size, header->sh_type == SHT_NOBITS ? 0 : bytes->d_size);
		if (size > 0)
			assert_memory_equal(data, bytes->d_buf, size);
	}
	assert_int_equal(elf.count, *sections + 1);
	elf_end(other);
}

static void it_reads_what_libelf_reads(void **state)
{
	static const char *const names[] = {"sm_75.cubin", "sm_90.cubin", "big_sm_90.cubin",
					    "linked_sm_80.cubin", "rdc_sm_80.cubin"};

	(void)state;
	assert_int_not_equal(elf_version(EV_CURRENT), EV_NONE);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct elf_data data = elf_data_read(names[i]);
		size_t sections;

		compare(&data, &sections);
		assert_true(sections > 5);
		elf_data_free(&data);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_section_has_its_name_and_bytes),
		cmocka_unit_test(bytes_outside_of_the_file_are_refused),
		cmocka_unit_test(a_section_without_bytes_in_the_file_has_none),
		cmocka_unit_test(a_table_outside_of_the_file_is_refused),
		cmocka_unit_test(the_first_section_has_the_numbers_that_are_too_large),
		cmocka_unit_test(a_string_ends_in_its_table),
		cmocka_unit_test(it_reads_what_libelf_reads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
