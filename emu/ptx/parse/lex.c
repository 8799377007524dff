/*
 * emu/ptx/parse/lex.c - PTX text cut into tokens; see lex.h.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "emu/ptx/parse/lex.h"

void ck_ptx_lexer_init(struct ck_ptx_lex *lex, const char *text, size_t size)
{
	/* A caller may count the terminating NUL of its string. */
	while (size > 0 && text[size - 1] == '\0')
		size--;
	lex->at = text;
	lex->end = text + size;
	lex->line = 1;
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_word(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) || c == '_' ||
	       c == '$';
}

static void skip_line(struct ck_ptx_lex *lex)
{
	while (lex->at < lex->end && *lex->at != '\n')
		lex->at++;
}

static void skip_block_comment(struct ck_ptx_lex *lex)
{
	for (lex->at += 2; lex->at < lex->end; lex->at++) {
		if (*lex->at == '\n')
			lex->line++;
		if (*lex->at == '*' && lex->at + 1 < lex->end && lex->at[1] == '/') {
			lex->at += 2;
			return;
		}
	}
}

static void skip_space(struct ck_ptx_lex *lex)
{
	while (lex->at < lex->end) {
		char c = *lex->at;
		char d = lex->at + 1 < lex->end ? lex->at[1] : 0;

		if (c == '\n')
			lex->line++;
		if (c == ' ' || (c >= '\t' && c <= '\r'))
			lex->at++;
		else if ((c == '/' && d == '/') || (c == '@' && d == '@'))
			skip_line(lex);
		else if (c == '/' && d == '*')
			skip_block_comment(lex);
		else
			return;
	}
}

char ck_ptx_lex_peek(const struct ck_ptx_lex *lex)
{
	struct ck_ptx_lex copy = *lex;

	skip_space(&copy);
	return copy.at < copy.end ? *copy.at : 0;
}

bool ck_ptx_lex_skip_past(struct ck_ptx_lex *lex, char c)
{
	while (lex->at < lex->end) {
		char got = *lex->at++;

		if (got == '\n')
			lex->line++;
		if (got == c)
			return true;
	}
	return false;
}

static int hex_digit(char c)
{
	if (is_digit(c))
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

/* The digits of @base from lex->at; false without any. Excess high bits are dropped. */
static bool lex_digits(struct ck_ptx_lex *lex, int base, uint64_t *value, unsigned int *count)
{
	*value = 0;
	for (*count = 0; lex->at < lex->end; lex->at++, ++*count) {
		int digit = hex_digit(*lex->at);

		if (digit < 0 || digit >= base)
			break;
		*value = *value * (unsigned int)base + (unsigned int)digit;
	}
	return *count > 0;
}

/* 0fXXXXXXXX and 0dXXXXXXXXXXXXXXXX: the bits of a float or a double. */
static void lex_float_bits(struct ck_ptx_lex *lex, struct ck_ptx_token *t, bool single)
{
	unsigned int count;
	uint64_t bits;
	float f;

	lex->at += 2;
	t->kind = CK_PTX_FLOAT;
	t->single = single;
	if (!lex_digits(lex, 16, &bits, &count) || count != (single ? 8u : 16u)) {
		t->kind = CK_PTX_BAD;
		return;
	}
	if (single) {
		t->bits32 = (uint32_t)bits;
		memcpy(&f, &t->bits32, sizeof(f));
		t->real = (double)f;
	} else {
		memcpy(&t->real, &bits, sizeof(t->real));
	}
	memcpy(&t->bits64, &t->real, sizeof(t->bits64));
	if (!single)
		t->bits64 = bits;
}

static void lex_decimal_float(struct ck_ptx_lex *lex, struct ck_ptx_token *t)
{
	char copy[64], *end;
	size_t n = 0;

	while (n < sizeof(copy) - 1 && t->text + n < lex->end &&
	       (is_digit(t->text[n]) || t->text[n] == '.' || t->text[n] == 'e' ||
		t->text[n] == 'E' ||
		(n > 0 && (t->text[n] == '-' || t->text[n] == '+') &&
		 (t->text[n - 1] == 'e' || t->text[n - 1] == 'E')))) {
		copy[n] = t->text[n];
		n++;
	}
	copy[n] = '\0';
	t->real = strtod(copy, &end);
	memcpy(&t->bits64, &t->real, sizeof(t->bits64));
	t->kind = end == copy + n ? CK_PTX_FLOAT : CK_PTX_BAD;
	lex->at = t->text + n;
}

static void lex_number(struct ck_ptx_lex *lex, struct ck_ptx_token *t)
{
	char next = lex->at + 1 < lex->end ? lex->at[1] : 0;
	unsigned int count;
	bool ok;

	if (*lex->at == '0' && (next == 'f' || next == 'F' || next == 'd' || next == 'D')) {
		lex_float_bits(lex, t, next == 'f' || next == 'F');
		return;
	}
	t->kind = CK_PTX_INT;
	if (*lex->at == '0' && (next == 'x' || next == 'X')) {
		lex->at += 2;
		ok = lex_digits(lex, 16, &t->integer, &count);
	} else if (*lex->at == '0' && (next == 'b' || next == 'B')) {
		lex->at += 2;
		ok = lex_digits(lex, 2, &t->integer, &count);
	} else if (*lex->at == '0' && is_digit(next)) {
		ok = lex_digits(lex, 8, &t->integer, &count);
	} else {
		ok = lex_digits(lex, 10, &t->integer, &count);
		if (lex->at < lex->end &&
		    ((*lex->at == '.' && lex->at + 1 < lex->end && is_digit(lex->at[1])) ||
		     *lex->at == 'e' || *lex->at == 'E')) {
			lex_decimal_float(lex, t);
			return;
		}
	}
	if (lex->at < lex->end && *lex->at == 'U')
		lex->at++;
	if (!ok || (lex->at < lex->end && is_word(*lex->at)))
		t->kind = CK_PTX_BAD;
}

static void lex_word(struct ck_ptx_lex *lex, struct ck_ptx_token *t)
{
	lex->at++;
	while (lex->at < lex->end && is_word(*lex->at))
		lex->at++;
	t->kind = CK_PTX_WORD;
}

static void lex_dot(struct ck_ptx_lex *lex, struct ck_ptx_token *t)
{
	t->text = ++lex->at;
	while (lex->at < lex->end) {
		if (is_word(*lex->at))
			lex->at++;
		else if (*lex->at == ':' && lex->end - lex->at > 2 && lex->at[1] == ':' &&
			 is_word(lex->at[2]))
			lex->at += 2;
		else
			break;
	}
	t->kind = lex->at > t->text ? CK_PTX_DOT : CK_PTX_BAD;
}

static void lex_string(struct ck_ptx_lex *lex, struct ck_ptx_token *t)
{
	t->text = ++lex->at;
	while (lex->at < lex->end && *lex->at != '"' && *lex->at != '\n')
		lex->at++;
	t->kind = lex->at < lex->end && *lex->at == '"' ? CK_PTX_STRING : CK_PTX_BAD;
	t->size = (size_t)(lex->at - t->text);
	if (t->kind == CK_PTX_STRING)
		lex->at++;
}

static void skip_blanks(struct ck_ptx_lex *lex)
{
	while (lex->at < lex->end && (*lex->at == ' ' || *lex->at == '\t'))
		lex->at++;
}

/* A number of .loc or .file; 0: there is none. */
static uint32_t lex_small_number(struct ck_ptx_lex *lex)
{
	uint64_t value = 0;

	skip_blanks(lex);
	for (; lex->at < lex->end && is_digit(*lex->at); lex->at++)
		value = value > UINT32_MAX ? value : value * 10 + (uint64_t)(*lex->at - '0');
	return value > UINT32_MAX ? 0 : (uint32_t)value;
}

/* "1 12 3", maybe with ", function_name $L__info_string0, inlined_at 2 30 5". */
static void lex_loc(struct ck_ptx_lex *lex)
{
	static const char word[] = "inlined_at";
	const char *end = memchr(lex->at, '\n', (size_t)(lex->end - lex->at)), *found;

	lex->source.file = lex_small_number(lex);
	lex->source.line = lex_small_number(lex);
	lex->caller = (struct ck_ptx_line){0};
	end = end ? end : lex->end;
	found = memmem(lex->at, (size_t)(end - lex->at), word, sizeof(word) - 1);
	if (!found)
		return;
	lex->at = found + sizeof(word) - 1;
	lex->caller.file = lex_small_number(lex);
	lex->caller.line = lex_small_number(lex);
}

static void lex_file(struct ck_ptx_lex *lex)
{
	uint32_t number = lex_small_number(lex);
	const char *name, *end;

	skip_blanks(lex);
	if (lex->at >= lex->end || *lex->at != '"' || !lex->file)
		return;
	name = ++lex->at;
	for (end = name; end < lex->end && *end != '"' && *end != '\n';)
		end++;
	lex->file(lex->opaque, number, name, (size_t)(end - name));
	lex->at = end;
}

/* Whether @t begins line information, which ends with its line, not with a semicolon. */
static bool lex_line_information(struct ck_ptx_lex *lex, const struct ck_ptx_token *t)
{
	if (ck_ptx_token_is(t, CK_PTX_DOT, "loc")) {
		lex_loc(lex);
	} else if (ck_ptx_token_is(t, CK_PTX_DOT, "file")) {
		lex_file(lex);
	} else {
		/* a function without lines has none of those before it */
		if (ck_ptx_token_is(t, CK_PTX_DOT, "entry") ||
		    ck_ptx_token_is(t, CK_PTX_DOT, "func"))
			lex->source = lex->caller = (struct ck_ptx_line){0};
		return false;
	}
	skip_line(lex);
	return true;
}

void ck_ptx_lex_next(struct ck_ptx_lex *lex, struct ck_ptx_token *t)
{
again:
	memset(t, 0, sizeof(*t));
	skip_space(lex);
	t->text = lex->at;
	if (lex->at >= lex->end)
		return;
	if (is_digit(*lex->at)) {
		lex_number(lex, t);
	} else if (is_word(*lex->at) ||
		   (*lex->at == '%' && lex->at + 1 < lex->end && is_word(lex->at[1]))) {
		lex_word(lex, t);
	} else if (*lex->at == '.') {
		lex_dot(lex, t);
	} else if (*lex->at == '"') {
		lex_string(lex, t);
		return;
	} else {
		t->kind = strchr("()[]{}<>,;:+-!~@=|&*/", *lex->at) && *lex->at ? CK_PTX_PUNCT
										: CK_PTX_BAD;
		lex->at++;
	}
	t->size = (size_t)(lex->at - t->text);
	if (t->kind == CK_PTX_DOT && lex_line_information(lex, t))
		goto again;
}

bool ck_ptx_token_is(const struct ck_ptx_token *token, enum ck_ptx_token_kind kind,
		     const char *text)
{
	return token->kind == kind && token->size == strlen(text) &&
	       memcmp(token->text, text, token->size) == 0;
}
