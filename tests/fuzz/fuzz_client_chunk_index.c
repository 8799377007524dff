/*
 * tests/fuzz/fuzz_client_chunk_index.c - any bytes as the index of chunks: an entry is found only
 * with the hash that was put, whatever the file contains.
 *
 * The input is written over the file in pieces: two bytes for the place, one for the length.
 */
#define _GNU_SOURCE
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client/copy/chunk_index.h"
#include "tests/fuzz/standalone.h"

#define KEYS 4u

static struct ckc_chunk_key key_of(uint64_t n)
{
	return (struct ckc_chunk_key){.device = 1, .inode = n, .length = 1};
}

static struct ckc_chunk_entry entry_of(uint64_t n)
{
	struct ckc_chunk_entry e = {.sure = n % 2};

	ck_hash(&n, sizeof(n), &e.hash);
	return e;
}

static unsigned int check_all(int index)
{
	unsigned int found = 0;

	for (uint64_t n = 0; n < KEYS; n++) {
		const struct ckc_chunk_key key = key_of(n);
		const struct ckc_chunk_entry wanted = entry_of(n);
		struct ckc_chunk_entry e;

		if (!ckc_chunk_index_find(index, &key, 1, &e))
			continue;
		CK_FUZZ_CHECK(ck_hash_equal(&e.hash, &wanted.hash) && e.sure == wanted.sure);
		found++;
	}
	return found;
}

static void put_all(int index)
{
	for (uint64_t n = 0; n < KEYS; n++) {
		const struct ckc_chunk_key key = key_of(n);
		const struct ckc_chunk_entry e = entry_of(n);

		ckc_chunk_index_put(index, &key, 1, &e);
	}
}

/* Where the first key's bucket is, so that damage meets records. */
static off_t first_bucket(int index)
{
	off_t at = lseek(index, 0, SEEK_DATA);

	return at < 0 ? 0 : at;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int index = memfd_create("index", MFD_CLOEXEC);
	off_t base;

	CK_FUZZ_CHECK(index >= 0);
	put_all(index);
	CK_FUZZ_CHECK(check_all(index) == KEYS);
	base = first_bucket(index);
	while (size > 3) {
		size_t n = data[2] < size - 3 ? data[2] : size - 3;

		CK_FUZZ_CHECK(pwrite(index, data + 3, n, base + (data[0] << 8 | data[1])) >= 0);
		data += 3 + n;
		size -= 3 + n;
	}
	if (size == 3)
		CK_FUZZ_CHECK(ftruncate(index, base + data[1]) == 0);
	check_all(index);
	put_all(index);
	CK_FUZZ_CHECK(check_all(index) == KEYS);
	close(index);
	return 0;
}
