/*
 * launcher/text/base64.c - base64; see base64.h.
 */
#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "launcher/text/base64.h"
#include "util/util.h"

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static void table_make(uint8_t table[256])
{
	memset(table, 0xFF, 256);
	for (uint8_t i = 0; i < 64; i++)
		table[(unsigned char)digits[i]] = i;
}

/* Four characters to 24 bits; above those when one is no digit. */
static uint32_t decode_group(const uint8_t table[256], const unsigned char *c)
{
	if ((table[c[0]] | table[c[1]] | table[c[2]] | table[c[3]]) & 0xC0)
		return UINT32_MAX;
	return (uint32_t)table[c[0]] << 18 | (uint32_t)table[c[1]] << 12 |
	       (uint32_t)table[c[2]] << 6 | table[c[3]];
}

int ckl_base64_read(const char *text, size_t length, void *out, size_t size)
{
	unsigned char last[4], *to = out;
	uint8_t table[256];
	size_t padding = length / 4 * 3 - size;
	uint32_t bits;

	if (padding > 2)
		return -EINVAL;
	table_make(table);
	for (size_t i = 0; i < length; i += 4) {
		memcpy(last, text + i, 4);
		for (size_t k = 0; i + 4 == length && k < padding; k++)
			last[3 - k] = last[3 - k] == '=' ? 'A' : 0;
		bits = decode_group(table, last);
		if (bits == UINT32_MAX)
			return -EINVAL;
		for (size_t k = 0; k < 3 && size > 0; k++, size--)
			*to++ = (unsigned char)(bits >> (16 - 8 * k));
	}
	return 0;
}

size_t ckl_base64_length(size_t size)
{
	return (size + 2) / 3 * 4;
}

void ckl_base64_print(const void *data, size_t size, char *out)
{
	const unsigned char *from = data;

	for (size_t i = 0; i < size; i += 3) {
		size_t left = ck_min(size - i, (size_t)3);
		uint32_t bits = (uint32_t)from[i] << 16;

		bits |= left > 1 ? (uint32_t)from[i + 1] << 8 : 0;
		bits |= left > 2 ? from[i + 2] : 0;
		for (size_t k = 0; k < 4; k++)
			*out++ = k > left ? '=' : digits[bits >> (18 - 6 * k) & 63];
	}
}
