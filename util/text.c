/*
 * util/text.c - see text.h.
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <stdint.h>
#include <string.h>

#include "util/text.h"
#include "util/util.h"

/* Characters beyond ASCII that are not printed. */
static const struct {
	uint32_t first, last;
} masked[] = {
	{0x80, 0x9f},	  /* C1: commands for terminals */
	{0x61c, 0x61c},	  /* marks of direction */
	{0x200e, 0x200f}, /* the same */
	{0x2028, 0x202e}, /* separators of lines; embeddings and overrides of direction */
	{0x2066, 0x2069}, /* isolates of direction */
};

/* The character at @text in *@code; returns its length, or 0: it is not UTF-8. */
static size_t decode_character(const unsigned char *text, size_t size, uint32_t *code)
{
	static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
	size_t n = text[0] < 0x80	      ? 1
		   : (text[0] & 0xe0) == 0xc0 ? 2
		   : (text[0] & 0xf0) == 0xe0 ? 3
		   : (text[0] & 0xf8) == 0xf0 ? 4
					      : 0;

	if (n == 0 || n > size)
		return 0;
	*code = n > 1 ? text[0] & (0x7fu >> n) : text[0];
	for (size_t i = 1; i < n; i++) {
		if ((text[i] & 0xc0) != 0x80)
			return 0;
		*code = *code << 6 | (text[i] & 0x3f);
	}
	return *code < least[n] || *code > 0x10ffff || (*code >= 0xd800 && *code < 0xe000) ? 0 : n;
}

size_t ck_text_character(const char *text, size_t size)
{
	uint32_t code;

	return size ? decode_character((const unsigned char *)text, size, &code) : 0;
}

static bool is_printable(uint32_t code)
{
	if (code < ' ' || code == 0x7f)
		return false;
	for (size_t i = 0; i < CK_ARRAY_SIZE(masked); i++) {
		if (code >= masked[i].first && code <= masked[i].last)
			return false;
	}
	return true;
}

bool ck_text_prints(const char *text, size_t size)
{
	uint32_t code;

	return size && decode_character((const unsigned char *)text, size, &code) &&
	       is_printable(code);
}

size_t ck_text_mask(char *text, size_t size, const char *keep)
{
	size_t from = 0, to = 0, n;
	uint32_t code;

	while (from < size) {
		n = decode_character((const unsigned char *)text + from, size - from, &code);
		if (n && (is_printable(code) || (code && code < 0x80 && strchr(keep, (int)code)))) {
			memmove(text + to, text + from, n);
			to += n;
		} else {
			text[to++] = '?';
		}
		from += n ? n : 1;
	}
	return to;
}

void ck_text_copy(char *out, size_t room, const char *text)
{
	size_t size = strnlen(text, room), cut;

	if (room == 0)
		return;
	size = ck_min(size, room - 1);
	for (cut = size; cut > 0 && text[size] && ((unsigned char)text[cut] & 0xc0) == 0x80; cut--)
		;
	if (size - cut < 4 && text[size]) /* else it is not UTF-8 anyway */
		size = cut;
	memcpy(out, text, size);
	out[ck_text_mask(out, size, "")] = '\0';
}

void ck_text_plain(char *text, size_t room)
{
	text[ck_text_mask(text, strnlen(text, room - 1), "")] = '\0';
}

char *ck_text_trim(char *text)
{
	char *end;

	while (isspace((unsigned char)*text))
		text++;
	end = text + strlen(text);
	while (end > text && isspace((unsigned char)end[-1]))
		end--;
	*end = '\0';
	return text;
}

void ck_text_cut_comment(char *line)
{
	for (char *c = strchr(line, '#'); c; c = strchr(c + 1, '#')) {
		if (c == line || isspace((unsigned char)c[-1])) {
			*c = '\0';
			return;
		}
	}
}
