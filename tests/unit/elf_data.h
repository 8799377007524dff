/*
 * tests/unit/elf_data.h - read the binaries of tests/data/elf for the tests of elf/.
 */
#ifndef CK_TESTS_ELF_DATA_H
#define CK_TESTS_ELF_DATA_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct elf_data {
	char *bytes; /* exactly `size` of them, so that a read beyond is seen by ASan */
	size_t size;
};

/* Open a data file from the source folder, the root of the repository or a folder below it. */
static inline FILE *elf_data_open(const char *name)
{
	static const char *const roots[] = {"", "../", "../../"};
	const char *slash = strrchr(__FILE__, '/');
	char path[1024];
	FILE *file;

	snprintf(path, sizeof(path), "%.*s../data/elf/%s", slash ? (int)(slash - __FILE__ + 1) : 0,
		 __FILE__, name);
	file = fopen(path, "rb");
	for (size_t i = 0; !file && i < sizeof(roots) / sizeof(roots[0]); i++) {
		snprintf(path, sizeof(path), "%stests/data/elf/%s", roots[i], name);
		file = fopen(path, "rb");
	}
	return file;
}

/* Read it all; the test fails when it cannot be read. Free with elf_data_free. */
static inline struct elf_data elf_data_read(const char *name)
{
	FILE *file = elf_data_open(name);
	struct elf_data data = {NULL, 0};

	if (!file)
		fail_msg("no test data %s", name);
	fseek(file, 0, SEEK_END);
	data.size = (size_t)ftell(file);
	rewind(file);
	data.bytes = malloc(data.size);
	assert_non_null(data.bytes);
	assert_int_equal(fread(data.bytes, 1, data.size, file), data.size);
	fclose(file);
	return data;
}

static inline void elf_data_free(struct elf_data *data)
{
	free(data->bytes);
}

#endif
