/*
 * tests/fuzz/fuzz_fatbin.c - fat binary containers, and telling images apart.
 */
#include <errno.h>
#include <string.h>

#include "elf/fatbin.h"
#include "tests/fuzz/standalone.h"

/* Larger ones are legal, and only slow. */
#define LARGE ((size_t)4 << 20)

static void check_image(const uint8_t *data, size_t size)
{
	struct ck_image image = {0};

	if (ck_image_classify_bounded(data, size, &image) < 0)
		return;
	CK_FUZZ_CHECK(image.data == data);
	CK_FUZZ_CHECK(image.size > 0 && image.size <= size);
	CK_FUZZ_CHECK(image.wrapper == 0);
	if (image.kind == CK_IMAGE_PTX)
		CK_FUZZ_CHECK(data[image.size - 1] == 0);
}

/* Bytes that the caller may read, all of them. */
static void check_choice(struct ck_fatbin_choice *choice)
{
	volatile char last = ((const char *)choice->data)[choice->size - 1];

	CK_FUZZ_CHECK(choice->kind == CK_IMAGE_ELF || choice->kind == CK_IMAGE_PTX);
	if (choice->kind == CK_IMAGE_PTX)
		CK_FUZZ_CHECK(choice->owned && last == 0 &&
			      strlen(choice->data) == choice->size - 1);
	ck_fatbin_choice_free(choice);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ck_fatbin_choice choice;
	struct ck_fatbin_entry entry;
	struct ck_fatbin_iter it;
	size_t largest = 0;

	check_image(data, size);
	if (ck_fatbin_open(data, size, &it) < 0)
		return 0;
	while (ck_fatbin_next(&it, &entry) > 0) {
		const uint8_t *payload = entry.payload;

		CK_FUZZ_CHECK(payload >= data && payload <= data + size);
		CK_FUZZ_CHECK(entry.stored_size <= (size_t)(data + size - payload));
		CK_FUZZ_CHECK(!entry.name || memchr(entry.name, 0, entry.name_size) == NULL);
		largest = entry.size > largest ? entry.size : largest;
		if (entry.size <= LARGE && ck_fatbin_extract(&entry, &choice) == 0)
			check_choice(&choice);
	}
	for (unsigned sm = 75; largest <= LARGE && sm <= 120; sm += 15) {
		struct ck_fatbin_device device = {sm / 10, sm % 10};
		int ret = ck_fatbin_choose(data, size, device, sm != 105, &choice);

		CK_FUZZ_CHECK(ret == 0 || ret == -ENOEXEC);
		if (ret == 0)
			check_choice(&choice);
	}
	return 0;
}
