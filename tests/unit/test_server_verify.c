/*
 * tests/unit/test_server_verify.c - machine code by libelf: a whole image passes, a damaged one
 * is refused, and no damage is followed out of the file.
 */
#include <elf.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "server/modules/link.h"
#include "tests/unit/elf_data.h"
#include "util/util.h"

static void the_compilers_cubins_pass(void **state)
{
	static const char *const names[] = {
		"sm_75.cubin",	      "sm_80.cubin",	   "sm_90.cubin",     "sm_100.cubin",
		"sm_120.cubin",	      "big_sm_90.cubin",   "rdc_sm_80.cubin", "linked_sm_80.cubin",
		"printf_sm_90.cubin", "assert_sm_90.cubin"};

	(void)state;
	for (size_t i = 0; i < CK_ARRAY_SIZE(names); i++) {
		struct elf_data data = elf_data_read(names[i]);

		assert_null(cks_elf_fault(data.bytes, data.size));
		elf_data_free(&data);
	}
}

/* In memory of just that size, so that a sanitizer sees a read beyond it. */
static const char *fault_of(const void *bytes, size_t size)
{
	void *copy = malloc(size);
	const char *fault;

	assert_non_null(copy);
	memcpy(copy, bytes, size);
	fault = cks_elf_fault(copy, size);
	free(copy);
	return fault;
}

static void a_file_that_is_cut_is_refused(void **state)
{
	struct elf_data data = elf_data_read("sm_90.cubin");

	(void)state;
	for (size_t size = 1; size < data.size; size += 61)
		assert_non_null(fault_of(data.bytes, size));
	assert_non_null(fault_of(data.bytes, data.size - 1));
	elf_data_free(&data);
}

static void text_is_refused(void **state)
{
	(void)state;
	assert_non_null(fault_of(".version 8.0", 13));
}

/* One field of the header of each section, or of each segment, too large by far. */
static void an_offset_beyond_the_file_is_refused(void **state)
{
	struct elf_data data = elf_data_read("sm_90.cubin");
	Elf64_Ehdr *file = (void *)data.bytes;
	Elf64_Shdr *sections = (void *)((char *)data.bytes + file->e_shoff);
	Elf64_Phdr *segments = (void *)((char *)data.bytes + file->e_phoff);

	(void)state;
	for (int i = 1; i < file->e_shnum; i++) {
		Elf64_Shdr whole = sections[i];
		bool is_room = whole.sh_type == SHT_NOBITS;

		sections[i].sh_name = 1u << 30;
		assert_non_null(fault_of(data.bytes, data.size));
		sections[i] = whole;
		sections[i].sh_offset = UINT64_MAX - 8;
		if (!is_room)
			assert_non_null(fault_of(data.bytes, data.size));
		sections[i] = whole;
		sections[i].sh_size = UINT64_MAX / 2;
		if (!is_room)
			assert_non_null(fault_of(data.bytes, data.size));
		sections[i] = whole;
	}
	for (int i = 0; i < file->e_phnum; i++) {
		Elf64_Phdr whole = segments[i];

		segments[i].p_filesz = UINT64_MAX / 2;
		assert_non_null(fault_of(data.bytes, data.size));
		segments[i] = whole;
	}
	file->e_shnum = 0xfff0;
	assert_non_null(fault_of(data.bytes, data.size));
	elf_data_free(&data);
}

/* NVIDIA's type for shared memory: a size, and no bytes in the file. */
static void room_in_shared_memory_has_no_bytes(void **state)
{
	struct elf_data data = elf_data_read("sm_90.cubin");
	Elf64_Ehdr *file = (void *)data.bytes;
	Elf64_Shdr *last = (Elf64_Shdr *)(data.bytes + file->e_shoff) + file->e_shnum - 1;

	(void)state;
	last->sh_type = SHT_LOPROC + 10;
	last->sh_flags = SHF_WRITE | SHF_ALLOC;
	last->sh_size = 1 << 20;
	assert_null(fault_of(data.bytes, data.size));
	elf_data_free(&data);
}

/* It may pass or not; it is not followed out of the file. */
static void any_damaged_byte_is_survived(void **state)
{
	struct elf_data data = elf_data_read("sm_75.cubin");
	unsigned char *bytes = (void *)data.bytes;

	(void)state;
	for (size_t at = 0; at < data.size; at += at < sizeof(Elf64_Ehdr) ? 1 : 37) {
		unsigned char whole = bytes[at];

		for (unsigned int bit = 0; bit < 8; bit += 3) {
			bytes[at] = (unsigned char)(whole ^ 1u << bit);
			fault_of(bytes, data.size);
		}
		bytes[at] = whole;
	}
	elf_data_free(&data);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_compilers_cubins_pass),
		cmocka_unit_test(a_file_that_is_cut_is_refused),
		cmocka_unit_test(text_is_refused),
		cmocka_unit_test(an_offset_beyond_the_file_is_refused),
		cmocka_unit_test(room_in_shared_memory_has_no_bytes),
		cmocka_unit_test(any_damaged_byte_is_survived),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
