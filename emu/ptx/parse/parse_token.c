/*
 * emu/ptx/parse/parse_token.c - the parser's tokens, and the words for its errors.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "emu/ptx/parse/parse.h"
#include "util/util.h"

int ck_ptx_fail(struct ck_ptx_parser *p, int err, const char *format, ...)
{
	uint32_t line = p->stmt_line ? p->stmt_line : p->line;
	va_list args;
	int n;

	if (p->log_size == 0)
		return err;
	n = snprintf(p->log, p->log_size, "line %u: ", line);
	if (n < 0 || (size_t)n >= p->log_size)
		return err;
	va_start(args, format);
	vsnprintf(p->log + n, p->log_size - (size_t)n, format, args);
	va_end(args);
	return err;
}

int ck_ptx_oom(struct ck_ptx_parser *p)
{
	return ck_ptx_fail(p, -ENOMEM, "out of memory");
}

void ck_ptx_advance(struct ck_ptx_parser *p)
{
	ck_ptx_lex_next(&p->lex, &p->tok);
	p->line = p->lex.line;
}

bool ck_ptx_at(const struct ck_ptx_parser *p, char punct)
{
	return p->tok.kind == CK_PTX_PUNCT && *p->tok.text == punct;
}

bool ck_ptx_accept(struct ck_ptx_parser *p, char punct)
{
	if (!ck_ptx_at(p, punct))
		return false;
	ck_ptx_advance(p);
	return true;
}

int ck_ptx_unexpected(struct ck_ptx_parser *p, const char *wanted)
{
	int size = (int)ck_min(p->tok.size, (size_t)60);

	if (p->tok.kind == CK_PTX_END)
		return ck_ptx_fail(p, -EINVAL, "the text ends where %s should be", wanted);
	return ck_ptx_fail(p, -EINVAL, "'%s%.*s' where %s should be",
			   p->tok.kind == CK_PTX_DOT ? "." : "", size, p->tok.text, wanted);
}

int ck_ptx_expect(struct ck_ptx_parser *p, char punct)
{
	char wanted[4] = {'\'', punct, '\'', '\0'};

	return ck_ptx_accept(p, punct) ? 0 : ck_ptx_unexpected(p, wanted);
}

int ck_ptx_integer(struct ck_ptx_parser *p, int64_t *value)
{
	bool negative = false;

	while (ck_ptx_at(p, '-') || ck_ptx_at(p, '+')) {
		negative ^= ck_ptx_at(p, '-');
		ck_ptx_advance(p);
	}
	if (p->tok.kind != CK_PTX_INT)
		return ck_ptx_unexpected(p, "an integer");
	*value = (int64_t)(negative ? 0 - p->tok.integer : p->tok.integer);
	ck_ptx_advance(p);
	return 0;
}

unsigned int ck_ptx_type_find(const char *text, size_t size)
{
	static const char *const keywords[] = {
		"",
#define CK_PTX_TYPE(id, keyword, bytes, class) keyword,
#include "emu/ptx/language/types.def"
#undef CK_PTX_TYPE
	};

	for (unsigned int i = 1; i < CK_PTX_TYPES; i++)
		if (strlen(keywords[i]) == size && !memcmp(keywords[i], text, size))
			return i;
	return CK_PTX_NOTYPE;
}

int ck_ptx_skip_statement(struct ck_ptx_parser *p)
{
	while (p->tok.kind != CK_PTX_END && !ck_ptx_at(p, ';'))
		ck_ptx_advance(p);
	return ck_ptx_expect(p, ';');
}
