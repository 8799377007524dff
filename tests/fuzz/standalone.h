/*
 * tests/fuzz/standalone.h - run a fuzz target on files, for compilers without libFuzzer.
 *
 * With -DCK_FUZZ_STANDALONE the program takes files as arguments and gives each to the target
 * once; otherwise libFuzzer brings main (clang -fsanitize=fuzzer).
 */
#ifndef CK_TESTS_FUZZ_STANDALONE_H
#define CK_TESTS_FUZZ_STANDALONE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A promise of the code under test; unlike assert() it is never compiled out. */
#define CK_FUZZ_CHECK(x)                                                                           \
	do {                                                                                       \
		if (!(x)) {                                                                        \
			fprintf(stderr, "%s:%d: broken: %s\n", __FILE__, __LINE__, #x);            \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

#ifdef CK_FUZZ_STANDALONE
int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		FILE *file = fopen(argv[i], "rb");
		uint8_t *data;
		long size;

		if (!file) {
			perror(argv[i]);
			return 1;
		}
		fseek(file, 0, SEEK_END);
		size = ftell(file);
		rewind(file);
		/* exactly as many bytes as the file has, so that reading beyond is seen */
		data = malloc(size > 0 ? (size_t)size : 1);
		if (!data || fread(data, 1, (size_t)size, file) != (size_t)size) {
			fprintf(stderr, "cannot read %s\n", argv[i]);
			return 1;
		}
		fclose(file);
		LLVMFuzzerTestOneInput(data, (size_t)size);
		free(data);
	}
	printf("%d files, nothing found\n", argc - 1);
	return 0;
}
#endif

#endif
