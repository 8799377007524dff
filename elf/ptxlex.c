/*
 * elf/ptxlex.c - split PTX text into words; see ptxlex.h.
 */
#include <string.h>

#include "elf/ptxlex.h"
#include "util/util.h"

void ck_ptx_lex_init(struct ck_ptxhead_lex *lex, const char *text, size_t size)
{
	*lex = (struct ck_ptxhead_lex){
		.at = text, .end = text + strnlen(text, size), .kind = CK_PTX_END, .token = text};
}

static bool is_blank(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_name_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) || c == '_' ||
	       c == '$' || c == '%';
}

/* To the end of a comment that starts here; at itself when none does. */
static const char *comment_end(const char *at, const char *end)
{
	const char *close;

	if (end - at < 2 || at[0] != '/')
		return at;
	if (at[1] == '/') {
		close = memchr(at, '\n', (size_t)(end - at));
		return close ? close : end;
	}
	if (at[1] == '*') {
		for (at += 2; end - at >= 2; at++) {
			if (at[0] == '*' && at[1] == '/')
				return at + 2;
		}
		return end;
	}
	return at;
}

static const char *skip_blanks(const char *at, const char *end)
{
	const char *after;

	for (;;) {
		while (at < end && is_blank(*at))
			at++;
		after = comment_end(at, end);
		if (after == at)
			return at;
		at = after;
	}
}

static const char *string_end(const char *at, const char *end)
{
	for (at++; at < end && *at != '"'; at++) {
		if (*at == '\\' && at + 1 < end)
			at++;
	}
	return at < end ? at + 1 : end;
}

enum ck_ptx_token ck_ptx_next(struct ck_ptxhead_lex *lex)
{
	const char *at = skip_blanks(lex->at, lex->end), *end = lex->end;

	lex->token = at;
	if (at == end) {
		lex->kind = CK_PTX_END;
	} else if (*at == '"') {
		lex->kind = CK_PTX_STRING;
		at = string_end(at, end);
	} else if (*at == '.' && at + 1 < end && is_name_char(at[1])) {
		lex->kind = CK_PTX_DIRECTIVE;
		for (at++; at < end && is_name_char(*at);)
			at++;
	} else if (is_digit(*at)) {
		/* fractions too, for .version 9.0 */
		lex->kind = CK_PTX_NUMBER;
		while (at < end && (is_name_char(*at) || *at == '.'))
			at++;
	} else if (is_name_char(*at)) {
		lex->kind = CK_PTX_NAME;
		while (at < end && is_name_char(*at))
			at++;
	} else {
		lex->kind = CK_PTX_PUNCT;
		at++;
	}
	lex->length = (size_t)(at - lex->token);
	lex->at = at;
	return lex->kind;
}

bool ck_ptx_is(const struct ck_ptxhead_lex *lex, const char *word)
{
	return strlen(word) == lex->length && memcmp(lex->token, word, lex->length) == 0;
}

bool ck_ptx_is_punct(const struct ck_ptxhead_lex *lex, char c)
{
	return lex->kind == CK_PTX_PUNCT && *lex->token == c;
}

/* Value of a digit in any base up to 16, or 16. */
static uint32_t digit_value(char c)
{
	if (is_digit(c))
		return (uint32_t)(c - '0');
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? (uint32_t)(c - 'a' + 10) : 16;
}

bool ck_ptx_number(const struct ck_ptxhead_lex *lex, uint32_t *value)
{
	const char *at = lex->token, *end = at + lex->length;
	uint32_t base = 10, digit;
	uint64_t number = 0;

	if (lex->kind != CK_PTX_NUMBER)
		return false;
	if (end[-1] == 'U')
		end--;
	if (end - at > 1 && at[0] == '0') {
		base = (at[1] | 0x20) == 'x' ? 16 : (at[1] | 0x20) == 'b' ? 2 : 8;
		at += base == 8 ? 1 : 2;
	}
	if (at == end)
		return false;
	for (; at < end; at++) {
		digit = digit_value(*at);
		if (digit >= base)
			return false;
		number = number * base + digit;
		if (number > INT32_MAX)
			return false;
	}
	*value = (uint32_t)number;
	return true;
}

uint32_t ck_ptx_type_size(const struct ck_ptxhead_lex *lex)
{
	static const struct {
		const char *name;
		uint32_t size;
	} types[] = {
		{".b8", 1},	 {".u8", 1},	     {".s8", 1},    {".b16", 2},    {".u16", 2},
		{".s16", 2},	 {".f16", 2},	     {".bf16", 2},  {".b32", 4},    {".u32", 4},
		{".s32", 4},	 {".f32", 4},	     {".f16x2", 4}, {".bf16x2", 4}, {".b64", 8},
		{".u64", 8},	 {".s64", 8},	     {".f64", 8},   {".b128", 16},  {".texref", 8},
		{".surfref", 8}, {".samplerref", 8},
	};

	for (size_t i = 0; i < CK_ARRAY_SIZE(types); i++) {
		if (ck_ptx_is(lex, types[i].name))
			return types[i].size;
	}
	return 0;
}
