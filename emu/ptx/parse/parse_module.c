/*
 * emu/ptx/parse/parse_module.c - the directives of a module.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "emu/ptx/parse/parse.h"
#include "util/util.h"

/* .section name { ... }: debugging information, always skipped. */
static int skip_section(struct ck_ptx_parser *p)
{
	while (p->tok.kind != CK_PTX_END && !ck_ptx_at(p, '{'))
		ck_ptx_advance(p);
	if (!ck_ptx_at(p, '{') || !ck_ptx_lex_skip_past(&p->lex, '}'))
		return ck_ptx_fail(p, -EINVAL, "a .section without an end");
	ck_ptx_advance(p);
	return 0;
}

static int parse_alias(struct ck_ptx_parser *p)
{
	struct ck_ptx_token alias = p->tok;
	struct ck_ptx_name *from, *to, *linked;
	int ret;

	ck_ptx_advance(p);
	ret = ck_ptx_expect(p, ',');
	if (ret < 0)
		return ret;
	from = ck_ptx_names_find(&p->names, alias.text, alias.size);
	to = ck_ptx_names_find(&p->names, p->tok.text, p->tok.size);
	if (!from || !to || from->kind != CK_PTX_NAME_FUNC || to->kind != CK_PTX_NAME_FUNC)
		return ck_ptx_fail(p, -EINVAL, ".alias of a name that is not a declared function");
	linked = ck_ptx_names_find(&p->linked, alias.text, alias.size);
	if (linked && linked->value == from->value)
		linked->value = to->value; /* for the units behind this one */
	from->value = to->value;
	ck_ptx_advance(p);
	return ck_ptx_expect(p, ';');
}

static uint32_t leading_number(const char *text, size_t size)
{
	uint32_t number = 0;

	for (size_t i = 0; i < size && i < 4 && text[i] >= '0' && text[i] <= '9'; i++)
		number = number * 10 + (uint32_t)(text[i] - '0');
	return number;
}

/* .target sm_90a, debug: of these words a program can ask for the number of the first. */
static int parse_target(struct ck_ptx_parser *p)
{
	do {
		if (p->tok.kind != CK_PTX_WORD)
			return ck_ptx_unexpected(p, "a target");
		if (p->tok.size > 3 && strncmp(p->tok.text, "sm_", 3) == 0)
			p->target = leading_number(p->tok.text + 3, p->tok.size - 3);
		ck_ptx_advance(p);
	} while (ck_ptx_accept(p, ','));
	return 0;
}

/* Ours has the options of the compiler that made the unit; others are hints. */
static int parse_pragma(struct ck_ptx_parser *p)
{
	unsigned int registers;
	char text[64];

	/* the input need not have an end that sscanf would see */
	snprintf(text, sizeof(text), "%.*s", (int)ck_min(p->tok.size, sizeof(text)), p->tok.text);
	if (p->tok.kind == CK_PTX_STRING && sscanf(text, CK_PTX_PRAGMA_REGISTERS, &registers) == 1)
		p->module->max_registers = registers;
	return ck_ptx_skip_statement(p);
}

static int parse_address_size(struct ck_ptx_parser *p)
{
	int64_t bits;
	int ret = ck_ptx_integer(p, &bits);

	if (ret == 0 && bits != 64)
		ret = ck_ptx_fail(p, -EOPNOTSUPP, ".address_size %lld is not supported",
				  (long long)bits);
	return ret;
}

int ck_ptx_parse_directive(struct ck_ptx_parser *p)
{
	static const char *const linking[] = {"", "extern", "visible", "weak", "common"};
	enum ck_ptx_linkage linkage = CK_PTX_LINK_NONE;
	struct ck_ptx_token word;

	for (unsigned int i = CK_PTX_LINK_EXTERN; i < CK_ARRAY_SIZE(linking); i++) {
		if (!ck_ptx_token_is(&p->tok, CK_PTX_DOT, linking[i]))
			continue;
		linkage = (enum ck_ptx_linkage)i;
		ck_ptx_advance(p);
	}
	word = p->tok;
	if (word.kind != CK_PTX_DOT)
		return ck_ptx_unexpected(p, "a directive");
	ck_ptx_advance(p);
	if (ck_ptx_token_is(&word, CK_PTX_DOT, "entry"))
		return ck_ptx_parse_func(p, true, linkage);
	if (ck_ptx_token_is(&word, CK_PTX_DOT, "func"))
		return ck_ptx_parse_func(p, false, linkage);
	if (ck_ptx_token_is(&word, CK_PTX_DOT, "global"))
		return ck_ptx_parse_var(p, CK_PTX_GLOBAL, linkage);
	if (ck_ptx_token_is(&word, CK_PTX_DOT, "const"))
		return ck_ptx_parse_var(p, CK_PTX_CONST, linkage);
	if (ck_ptx_token_is(&word, CK_PTX_DOT, "shared"))
		return ck_ptx_parse_var(p, CK_PTX_SHARED, linkage);
	if (ck_ptx_token_is(&word, CK_PTX_DOT, "section"))
		return skip_section(p);
	if (ck_ptx_token_is(&word, CK_PTX_DOT, "alias"))
		return parse_alias(p);
	if (ck_ptx_token_is(&word, CK_PTX_DOT, "pragma"))
		return parse_pragma(p);
	if (ck_ptx_token_is(&word, CK_PTX_DOT, "target"))
		return parse_target(p);
	if (ck_ptx_token_is(&word, CK_PTX_DOT, "address_size"))
		return parse_address_size(p);
	if (ck_ptx_token_is(&word, CK_PTX_DOT, "version")) {
		if (p->tok.kind != CK_PTX_FLOAT && p->tok.kind != CK_PTX_INT)
			return ck_ptx_unexpected(p, "a version");
		ck_ptx_advance(p);
		ck_ptx_unit_begin(p);
		return 0;
	}
	return ck_ptx_fail(p, -EOPNOTSUPP, "directive .%.*s is not supported",
			   (int)ck_min(word.size, (size_t)40), word.text);
}
