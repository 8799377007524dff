/*
 * tests/unit/test_elf_fatbin.c - entries of fat binaries, decompression, the choice for a device.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "elf/fatbin.h"
#include "tests/unit/elf_data.h"
#include "util/util.h"

static struct ck_fatbin_choice choose(const struct elf_data *data, unsigned sm, bool accepts_cubin)
{
	struct ck_fatbin_device device = {sm / 10, sm % 10};
	struct ck_fatbin_choice choice = {0};
	int ret = ck_fatbin_choose(data->bytes, data->size, device, accepts_cubin, &choice);

	assert_true(ret == 0 || ret == -ENOEXEC);
	if (ret < 0)
		choice.sm = 0;
	return choice;
}

static void every_entry_is_listed_as_it_was_built(void **state)
{
	static const struct {
		unsigned kind, sm;
		bool arch, family;
	} expected[] = {
		{1, 80, 0, 0}, {2, 90, 0, 0},  {1, 90, 0, 0},  {2, 90, 1, 0},
		{1, 90, 1, 0}, {2, 100, 0, 1}, {1, 100, 0, 1}, {2, 103, 0, 0},
	};
	struct elf_data data = elf_data_read("specific.fatbin");
	struct ck_fatbin_entry entry;
	struct ck_fatbin_iter it;

	(void)state;
	assert_int_equal(ck_fatbin_open(data.bytes, data.size, &it), 0);
	for (size_t i = 0; i < CK_ARRAY_SIZE(expected); i++) {
		assert_int_equal(ck_fatbin_next(&it, &entry), 1);
		assert_int_equal(entry.kind, expected[i].kind);
		assert_int_equal(entry.sm, expected[i].sm);
		assert_int_equal(entry.arch_specific, expected[i].arch);
		assert_int_equal(entry.family, expected[i].family);
		if (entry.kind == CK_FATBIN_PTX)
			assert_int_equal(entry.version_major, 9);
	}
	assert_int_equal(ck_fatbin_next(&it, &entry), 0);
	elf_data_free(&data);
}

static void names_of_entries_are_read_where_there_are_any(void **state)
{
	struct elf_data data = elf_data_read("named.fatbin");
	struct ck_fatbin_entry entry;
	struct ck_fatbin_iter it;

	(void)state;
	assert_int_equal(ck_fatbin_open(data.bytes, data.size, &it), 0);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(ck_fatbin_next(&it, &entry), 1);
		assert_int_equal(entry.name_size, 6);
		assert_memory_equal(entry.name, "one.cu", 6);
	}
	elf_data_free(&data);
}

/* The image for a device is the same bytes, whichever way the container was compressed. */
static void all_compressions_give_the_same_images(void **state)
{
	static const char *const names[] = {"compress_default.fatbin", "compress_size.fatbin",
					    "compress_speed.fatbin"};
	struct elf_data plain = elf_data_read("compress_none.fatbin");

	(void)state;
	for (size_t i = 0; i < CK_ARRAY_SIZE(names); i++) {
		struct elf_data data = elf_data_read(names[i]);

		for (int pass = 0; pass < 4; pass++) {
			unsigned sm = pass < 2 ? 90 : 75 + 11 * (unsigned)(pass - 2);
			struct ck_fatbin_choice a = choose(&plain, sm, pass != 0);
			struct ck_fatbin_choice b = choose(&data, sm, pass != 0);

			assert_int_equal(a.sm, sm);
			assert_int_equal(b.sm, sm);
			assert_int_equal(a.size, b.size);
			assert_memory_equal(a.data, b.data, a.size);
			assert_int_equal(a.kind, pass ? CK_IMAGE_ELF : CK_IMAGE_PTX);
			ck_fatbin_choice_free(&a);
			ck_fatbin_choice_free(&b);
		}
		elf_data_free(&data);
	}
	elf_data_free(&plain);
}

static void machine_code_goes_to_its_device_or_a_later_one_of_the_same_major(void **state)
{
	/* holds machine code of 75, 80, 86, 90 and PTX of 90 */
	static const struct {
		unsigned device, sm;
		enum ck_image_kind kind;
	} cases[] = {
		{70, 0, 0},
		{75, 75, CK_IMAGE_ELF},
		{80, 80, CK_IMAGE_ELF},
		{86, 86, CK_IMAGE_ELF},
		{89, 86, CK_IMAGE_ELF},
		{90, 90, CK_IMAGE_ELF},
		{100, 90, CK_IMAGE_PTX},
		{120, 90, CK_IMAGE_PTX},
	};
	struct elf_data data = elf_data_read("compress_default.fatbin");

	(void)state;
	for (size_t i = 0; i < CK_ARRAY_SIZE(cases); i++) {
		struct ck_fatbin_choice choice = choose(&data, cases[i].device, true);

		assert_int_equal(choice.sm, cases[i].sm);
		assert_int_equal(choice.kind, cases[i].kind);
		ck_fatbin_choice_free(&choice);
	}
	elf_data_free(&data);
}

static void without_cubins_only_text_up_to_the_device_counts(void **state)
{
	static const struct {
		unsigned device, sm;
		bool arch, family;
	} cases[] = {
		{75, 0, 0, 0},	  {80, 80, 0, 0},   {89, 80, 0, 0},  {90, 90, 1, 0},
		{100, 100, 0, 1}, {103, 100, 0, 1}, {110, 90, 0, 0}, {120, 90, 0, 0},
	};
	struct elf_data data = elf_data_read("specific.fatbin");

	(void)state;
	for (size_t i = 0; i < CK_ARRAY_SIZE(cases); i++) {
		struct ck_fatbin_choice choice = choose(&data, cases[i].device, false);

		assert_int_equal(choice.sm, cases[i].sm);
		assert_int_equal(choice.arch_specific, cases[i].arch);
		assert_int_equal(choice.family, cases[i].family);
		if (choice.sm)
			assert_int_equal(choice.kind, CK_IMAGE_PTX);
		ck_fatbin_choice_free(&choice);
	}
	elf_data_free(&data);
}

static void code_of_one_architecture_or_family_goes_to_its_own_only(void **state)
{
	static const struct {
		unsigned device, sm;
		enum ck_image_kind kind;
		bool arch, family;
	} cases[] = {
		{90, 90, CK_IMAGE_ELF, 1, 0},	{100, 100, CK_IMAGE_ELF, 0, 1},
		{101, 100, CK_IMAGE_ELF, 0, 1}, {103, 103, CK_IMAGE_ELF, 0, 0},
		{120, 90, CK_IMAGE_PTX, 0, 0},
	};
	struct elf_data data = elf_data_read("specific.fatbin");

	(void)state;
	for (size_t i = 0; i < CK_ARRAY_SIZE(cases); i++) {
		struct ck_fatbin_choice choice = choose(&data, cases[i].device, true);

		assert_int_equal(choice.sm, cases[i].sm);
		assert_int_equal(choice.kind, cases[i].kind);
		assert_int_equal(choice.arch_specific, cases[i].arch);
		assert_int_equal(choice.family, cases[i].family);
		ck_fatbin_choice_free(&choice);
	}
	elf_data_free(&data);
}

/* As measured with driver 580 on a device 9.0. */
static void of_equal_entries_the_first_cubin_and_the_last_text_are_taken(void **state)
{
	struct {
		struct {
			uint32_t magic;
			uint16_t version, header_size;
			uint64_t size;
		} container;
		struct {
			uint16_t kind, unknown;
			uint32_t header_size;
			uint64_t payload_size;
			uint32_t compressed, options;
			uint16_t minor, major;
			uint32_t sm;
			uint64_t name, flags, hash, plain;
			char payload[8];
		} entries[2];
	} fatbin = {.container = {CK_IMAGE_CONTAINER_MAGIC, 1, 16, 2 * 72}};
	struct elf_data data = {(char *)&fatbin, sizeof(fatbin)};
	struct ck_fatbin_choice choice;

	(void)state;
	for (int i = 0; i < 2; i++) {
		fatbin.entries[i].header_size = 64;
		fatbin.entries[i].payload_size = 8;
		fatbin.entries[i].sm = 90;
		fatbin.entries[i].kind = CK_FATBIN_PTX;
		fatbin.entries[i].payload[0] = (char)('a' + i);
	}
	choice = choose(&data, 90, true);
	assert_true(choice.owned);
	assert_string_equal(choice.data, "b");
	assert_int_equal(choice.size, 2);
	ck_fatbin_choice_free(&choice);
	fatbin.entries[0].kind = fatbin.entries[1].kind = CK_FATBIN_ELF;
	choice = choose(&data, 90, true);
	assert_false(choice.owned);
	assert_ptr_equal(choice.data, fatbin.entries[0].payload);
	assert_int_equal(choice.size, 8);
	ck_fatbin_choice_free(&choice);
	fatbin.entries[1].flags = 0x1000; /* a compression of long ago */
	fatbin.entries[0].sm = 86;
	assert_int_equal(choose(&data, 90, true).sm, 0);
	/* the upper half of a payload's size may hold other things */
	fatbin.entries[1].payload_size |= (uint64_t)5 << 32;
	assert_int_equal(choose(&data, 86, true).sm, 86);
}

static void text_comes_without_padding_and_ends_in_a_nul(void **state)
{
	static const char *const names[] = {"compress_none.fatbin", "compress_speed.fatbin"};

	(void)state;
	for (size_t i = 0; i < CK_ARRAY_SIZE(names); i++) {
		struct elf_data data = elf_data_read(names[i]);
		struct ck_fatbin_choice choice = choose(&data, 90, false);

		assert_true(choice.owned);
		assert_int_equal(choice.size, strlen(choice.data) + 1);
		assert_non_null(strstr(choice.data, ".entry add("));
		ck_fatbin_choice_free(&choice);
		elf_data_free(&data);
	}
}

static void intermediate_code_is_listed_but_never_chosen(void **state)
{
	struct elf_data data = elf_data_read("lto.fatbin");
	struct ck_fatbin_choice choice;
	struct ck_fatbin_entry entry;
	struct ck_fatbin_iter it;

	(void)state;
	assert_int_equal(ck_fatbin_open(data.bytes, data.size, &it), 0);
	assert_int_equal(ck_fatbin_next(&it, &entry), 1);
	assert_int_equal(entry.kind, CK_FATBIN_LTO);
	assert_int_equal(ck_fatbin_extract(&entry, &choice), -ENOTSUP);
	assert_int_equal(choose(&data, 80, true).sm, 0);
	elf_data_free(&data);
}

static void sizes_that_lie_are_refused(void **state)
{
	struct elf_data data = elf_data_read("compress_size.fatbin");
	struct ck_fatbin_device device = {7, 5};
	struct ck_fatbin_choice choice;
	uint64_t size;

	(void)state;
	/* the first entry's size after decompression, at container header + 0x38 */
	for (int delta = -1; delta <= 1; delta += 2) {
		memcpy(&size, data.bytes + 16 + 0x38, sizeof(size));
		size += (uint64_t)delta;
		memcpy(data.bytes + 16 + 0x38, &size, sizeof(size));
		assert_int_equal(ck_fatbin_choose(data.bytes, data.size, device, true, &choice),
				 -ENOEXEC);
		size -= (uint64_t)delta;
		memcpy(data.bytes + 16 + 0x38, &size, sizeof(size));
	}
	size = (uint64_t)1 << 40;
	memcpy(data.bytes + 16 + 0x38, &size, sizeof(size));
	assert_int_equal(ck_fatbin_choose(data.bytes, data.size, device, true, &choice), -ENOEXEC);
	assert_int_equal(ck_fatbin_choose(data.bytes, data.size - 1, device, true, &choice),
			 -ENOEXEC);
	assert_int_equal(ck_fatbin_choose("", 0, device, true, &choice), -ENOEXEC);
	elf_data_free(&data);
}

static void the_text_of_linked_containers_is_joined(void **state)
{
	struct elf_data a = elf_data_read("named.fatbin"), b = elf_data_read("specific.fatbin");
	const void *const list[] = {a.bytes, b.bytes, NULL};
	const void *const swapped[] = {b.bytes, a.bytes, NULL};
	struct ck_fatbin_device hopper = {9, 0}, ampere = {8, 0};
	struct ck_fatbin_choice one = choose(&a, 90, false), two = choose(&b, 90, false), all;

	(void)state;
	assert_int_equal(ck_fatbin_join(list, hopper, &all), 0);
	assert_int_equal(all.kind, CK_IMAGE_PTX);
	assert_int_equal(all.sm, 90);
	assert_true(all.owned);
	/* each text behind a line feed, one NUL at the very end */
	assert_int_equal(all.size, one.size + two.size + 1);
	assert_int_equal(strlen(all.data) + 1, all.size);
	assert_memory_equal((const char *)all.data + 1, one.data, one.size - 1);
	assert_int_equal(((const char *)all.data)[one.size], '\n');
	assert_memory_equal((const char *)all.data + one.size + 1, two.data, two.size);
	ck_fatbin_choice_free(&all);
	assert_int_equal(ck_fatbin_join(swapped, hopper, &all), 0);
	assert_memory_equal((const char *)all.data + 1, two.data, two.size - 1);
	ck_fatbin_choice_free(&all);
	/* one container without text for the device is one too many */
	assert_int_equal(ck_fatbin_join(swapped + 1, ampere, &all), -ENOEXEC);
	assert_int_equal(ck_fatbin_join(swapped, ampere, &all), -ENOEXEC);
	assert_int_equal(ck_fatbin_join(list + 1, ampere, &all), 0);
	assert_int_equal(all.sm, 80);
	ck_fatbin_choice_free(&all);
	ck_fatbin_choice_free(&one);
	ck_fatbin_choice_free(&two);
	elf_data_free(&a);
	elf_data_free(&b);
}

/* A container of one cubin for sm_90 that holds @text. */
static void make_container(uint8_t bytes[256], const char *text)
{
	const uint32_t magic = 0xba55ed50, header = 64, sm = 90;
	const uint16_t version = 1, own = 16, kind = CK_FATBIN_ELF;
	const uint64_t rest = 240, payload = 240 - 64;

	memset(bytes, 0, 256);
	memcpy(bytes, &magic, 4);
	memcpy(bytes + 4, &version, 2);
	memcpy(bytes + 6, &own, 2);
	memcpy(bytes + 8, &rest, 8);
	memcpy(bytes + 16, &kind, 2);
	memcpy(bytes + 20, &header, 4);
	memcpy(bytes + 24, &payload, 8);
	memcpy(bytes + 44, &sm, 4);
	memcpy(bytes + 80, "\177ELF", 4);
	memcpy(bytes + 96, text, strlen(text));
}

static void the_device_runtime_is_left_out(void **state)
{
	struct elf_data a = elf_data_read("named.fatbin");
	struct ck_fatbin_choice one = choose(&a, 90, false), all;
	uint8_t runtime[256] __attribute__((aligned(8))), other[256] __attribute__((aligned(8)));
	const void *list[] = {runtime, a.bytes, runtime, NULL};

	(void)state;
	make_container(runtime, "__static_22_cuda_device_runtime_cu_3ecce0c0");
	make_container(other, "somebody's machine code");
	assert_int_equal(ck_fatbin_join(list, (struct ck_fatbin_device){9, 0}, &all), 0);
	assert_int_equal(all.size, one.size + 1);
	ck_fatbin_choice_free(&all);
	/* by itself it is nothing; and other machine code is missed */
	list[1] = NULL;
	assert_int_equal(ck_fatbin_join(list, (struct ck_fatbin_device){9, 0}, &all), -ENOEXEC);
	list[1] = a.bytes;
	list[2] = other;
	assert_int_equal(ck_fatbin_join(list, (struct ck_fatbin_device){9, 0}, &all), -ENOEXEC);
	ck_fatbin_choice_free(&one);
	elf_data_free(&a);
}

static void a_list_of_no_containers_is_refused(void **state)
{
	const void *const none[] = {NULL}, *const text[] = {".version 9.0", NULL};
	struct ck_fatbin_choice all = {.size = 77};

	(void)state;
	assert_int_equal(ck_fatbin_join(none, (struct ck_fatbin_device){9, 0}, &all), -ENOEXEC);
	assert_int_equal(ck_fatbin_join(text, (struct ck_fatbin_device){9, 0}, &all), -ENOEXEC);
	assert_int_equal(all.size, 77);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_entry_is_listed_as_it_was_built),
		cmocka_unit_test(names_of_entries_are_read_where_there_are_any),
		cmocka_unit_test(all_compressions_give_the_same_images),
		cmocka_unit_test(machine_code_goes_to_its_device_or_a_later_one_of_the_same_major),
		cmocka_unit_test(without_cubins_only_text_up_to_the_device_counts),
		cmocka_unit_test(code_of_one_architecture_or_family_goes_to_its_own_only),
		cmocka_unit_test(of_equal_entries_the_first_cubin_and_the_last_text_are_taken),
		cmocka_unit_test(text_comes_without_padding_and_ends_in_a_nul),
		cmocka_unit_test(intermediate_code_is_listed_but_never_chosen),
		cmocka_unit_test(sizes_that_lie_are_refused),
		cmocka_unit_test(the_text_of_linked_containers_is_joined),
		cmocka_unit_test(the_device_runtime_is_left_out),
		cmocka_unit_test(a_list_of_no_containers_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
