/*
 * tests/network/inject.c - parse the description of a network, and model the link that all
 * connections share.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "tests/network/inject.h"
#include "util/util.h"

#define NS_PER_S 1000000000
#define DELAY_MAX (10LL * NS_PER_S)
#define RATE_MIN 1000
#define AHEAD_NS 1000000 /* of a link, reserved ahead */
#define PIECE_MIN 1500u
#define PIECE_MAX (64u << 10)

struct unit {
	const char *name;
	uint64_t factor;
};

static const struct unit times[] = {{"us", 1000}, {"ms", 1000000}, {"s", NS_PER_S}, {NULL, 0}};
static const struct unit rates[] = {
	{"", 1}, {"k", 1000}, {"M", 1000000}, {"G", 1000000000}, {"T", 1000000000000}, {NULL, 0},
};

static _Atomic int64_t free_at[2]; /* when each direction's link is free again */

/* Parse a decimal number and one of @units, which together must fill @length bytes at @text. */
static int parse_value(const char *text, size_t length, const struct unit *units, uint64_t *value)
{
	uint64_t n = 0;
	size_t i = 0;

	while (i < length && text[i] >= '0' && text[i] <= '9') {
		if (ck_mul_overflow(n, 10u, &n) || n > UINT64_MAX - 9)
			return -EINVAL;
		n += (unsigned int)(text[i++] - '0');
	}
	if (i == 0)
		return -EINVAL;
	for (; units->name; units++) {
		if (strlen(units->name) == length - i &&
		    memcmp(units->name, text + i, length - i) == 0)
			return ck_mul_overflow(n, units->factor, value) ? -EINVAL : 0;
	}
	return -EINVAL;
}

/* Parse one part of the text, between commas. */
static int parse_part(const char *text, size_t length, bool seen[2], struct ck_inject *inject)
{
	bool rate = strncmp(text, "bw=", 3) == 0;
	size_t name = rate ? 3 : 4;
	uint64_t value;

	if ((!rate && strncmp(text, "rtt=", 4) != 0) || seen[rate] || length < name ||
	    parse_value(text + name, length - name, rate ? rates : times, &value) < 0)
		return -EINVAL;
	seen[rate] = true;
	if (rate) {
		inject->bits_per_second = value;
		return value < RATE_MIN ? -EINVAL : 0;
	}
	if (value > DELAY_MAX)
		return -EINVAL;
	inject->delay_ns = (int64_t)value / 2;
	return 0;
}

int ck_inject_parse(const char *text, struct ck_inject *inject)
{
	struct ck_inject read = {0};
	bool seen[2] = {false, false};
	size_t length;

	for (;; text += length + 1) {
		length = strcspn(text, ",");
		if (parse_part(text, length, seen, &read) < 0)
			return -EINVAL;
		if (text[length] == '\0')
			break;
	}
	*inject = read;
	return 0;
}

int64_t ck_inject_arrival(const struct ck_inject *like, int direction, size_t size, int64_t now)
{
	int64_t busy = atomic_load(&free_at[direction]), left;

	if (like->bits_per_second == 0)
		return now + like->delay_ns;
	do {
		left = (busy > now ? busy : now) +
		       (int64_t)((double)size * 8 * NS_PER_S / (double)like->bits_per_second);
	} while (!atomic_compare_exchange_weak(&free_at[direction], &busy, left));
	return left + like->delay_ns;
}

int64_t ck_inject_hold_until(int direction)
{
	return atomic_load(&free_at[direction]) - AHEAD_NS;
}

size_t ck_inject_piece(const struct ck_inject *like)
{
	uint64_t size = like->bits_per_second / 8 / (NS_PER_S / AHEAD_NS);

	if (like->bits_per_second == 0 || size > PIECE_MAX)
		return PIECE_MAX;
	return size < PIECE_MIN ? PIECE_MIN : (size_t)size;
}
