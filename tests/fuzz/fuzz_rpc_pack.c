/*
 * tests/fuzz/fuzz_rpc_pack.c - expanding any bytes as a block: it becomes the size that the message
 * says, or is refused, and nothing is written beyond it.
 *
 * The first three bytes are the size. The rest is expanded; then it is packed, and must come back.
 */
#include <stdlib.h>
#include <string.h>

#include "rpc/compress.h"
#include "tests/fuzz/standalone.h"

static void comes_back(const uint8_t *data, size_t size, struct ck_unpacker *unpacker)
{
	static struct ck_packer *packer;
	const void *packed;
	uint8_t *back;
	size_t n;

	CK_FUZZ_CHECK(packer || ck_packer_create(&packer) == 0);
	n = ck_pack(packer, data, size, &packed);
	if (n == 0)
		return;
	CK_FUZZ_CHECK(n <= size);
	memcpy(ck_unpack_room(unpacker), packed, n);
	back = malloc(size);
	CK_FUZZ_CHECK(ck_unpack(unpacker, n, back, size) == 0 && memcmp(back, data, size) == 0);
	free(back);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct ck_unpacker *unpacker;
	size_t expanded;
	uint8_t *to;

	CK_FUZZ_CHECK(unpacker || ck_unpacker_create(&unpacker) == 0);
	if (size < 3)
		return 0;
	expanded = (data[0] | (size_t)data[1] << 8 | (size_t)data[2] << 16) % (CK_PACK_BLOCK + 1);
	data += 3;
	size -= 3;
	if (size > CK_PACK_BLOCK)
		return 0;
	memcpy(ck_unpack_room(unpacker), data, size);
	to = malloc(expanded ? expanded : 1);
	ck_unpack(unpacker, size, to, expanded);
	free(to);
	comes_back(data, size, unpacker);
	return 0;
}
