/*
 * tests/fuzz/fuzz_rpc_frames.c - frames of a lasting channel from any bytes, read in any pieces,
 * against a plain parse.
 */
#include <arpa/inet.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "rpc/transport/frames.h"
#include "util/util.h"

#define LIMIT (1u << 22)

static void check(bool good)
{
	if (!good)
		abort();
}

/* What the bytes mean: their data to @data. Returns the number, or -1: no peer sends them. */
static long plain(const uint8_t *bytes, size_t size, uint8_t *data)
{
	size_t n = 0;

	while (size >= CK_FRAME_HEAD) {
		uint32_t length;
		size_t here;

		memcpy(&length, bytes, 4);
		length = ntohl(length);
		if (length == CK_FRAME_BYE)
			return (long)n;
		length &= ~CK_FRAME_ASKS;
		if (length > CK_FRAME_MAX)
			return -1;
		bytes += CK_FRAME_HEAD;
		size -= CK_FRAME_HEAD;
		here = ck_min(size, (size_t)length);
		memcpy(data + n, bytes, here);
		n += here;
		bytes += here;
		size -= here;
	}
	return (long)n;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	uint8_t *want = malloc(size + 1), *got = malloc(size + 1);
	struct ck_frames f = {0};
	size_t at = 1, n = 0, step = size > 0 ? 1 + bytes[0] % 64 : 1;
	long all = size > 0 ? plain(bytes + 1, size - 1, want) : 0;
	int ret = 0;

	while (ret == 0 && at < size && !f.bye) {
		size_t room, piece = ck_min(step, size - at);
		void *to = ck_frames_room(&f, true, LIMIT, &room);

		check(to && room > 0);
		piece = ck_min(piece, room);
		memcpy(to, bytes + at, piece);
		at += piece;
		ret = ck_frames_came(&f, piece);
		if (bytes[at % size] & 1)
			n += ck_frames_take(&f, got + n, 1 + bytes[at % size]);
	}
	n += ck_frames_take(&f, got + n, size);
	check((ret < 0) == (all < 0));
	if (ret == 0) {
		check(n == (size_t)all && memcmp(want, got, n) == 0);
		check(f.received == n);
	}
	ck_frames_fini(&f);
	free(want);
	free(got);
	return 0;
}
