/*
 * elf/ptxdecl.c - read declarations of variables and parameters; see ptxdecl.h.
 */
#include <errno.h>
#include <string.h>

#include "elf/ptxdecl.h"
#include "util/util.h"

#define ALIGN_MAX 4096

/* The dimensions behind a name: `[4][2]`; leaves the token after them. */
static int parse_dimensions(struct ck_ptxhead_lex *lex, struct ck_ptx_declaration *decl)
{
	uint32_t number;
	bool first = true;

	while (ck_ptx_is_punct(lex, '[')) {
		ck_ptx_next(lex);
		if (ck_ptx_is_punct(lex, ']')) {
			if (!first)
				return -ENOEXEC;
			decl->open = true;
		} else {
			if (!ck_ptx_number(lex, &number) ||
			    ck_mul_overflow(decl->size, number, &decl->size))
				return -ENOEXEC;
			ck_ptx_next(lex);
			if (!ck_ptx_is_punct(lex, ']'))
				return -ENOEXEC;
		}
		first = false;
		ck_ptx_next(lex);
	}
	return 0;
}

/* Behind .ptr stands the alignment of the pointer's target, not of the pointer. */
int ck_ptx_qualifiers(struct ck_ptxhead_lex *lex, struct ck_ptx_declaration *decl)
{
	uint32_t align = 0, vector = 1, element = 0, number;
	bool pointee = false, opaque;

	while (ck_ptx_next(lex) == CK_PTX_DIRECTIVE) {
		if (ck_ptx_is(lex, ".align")) {
			ck_ptx_next(lex);
			if (!ck_ptx_number(lex, &number) || number == 0 || number > ALIGN_MAX ||
			    (number & (number - 1)))
				return -ENOEXEC;
			align = pointee ? align : number;
		} else if (ck_ptx_is(lex, ".ptr")) {
			pointee = decl->pointer = true;
		} else if (ck_ptx_is(lex, ".v2")) {
			vector = 2;
		} else if (ck_ptx_is(lex, ".v4")) {
			vector = 4;
		} else if (ck_ptx_is(lex, ".attribute")) {
			while (!ck_ptx_is_punct(lex, ')')) {
				if (ck_ptx_next(lex) == CK_PTX_END)
					return -ENOEXEC;
			}
		} else if (ck_ptx_type_size(lex)) {
			element = ck_ptx_type_size(lex);
			opaque = memcmp(lex->token + lex->length - 2, "ef", 2) == 0;
			decl->type = opaque || element == 16 ? 0 : lex->token[1];
		}
	}
	if (element == 0)
		return -ENOEXEC;
	decl->element = element;
	decl->size = (uint64_t)element * vector;
	decl->align = align ? align : element * vector;
	return 0;
}

int ck_ptx_declarator(struct ck_ptxhead_lex *lex, struct ck_ptx_declaration *decl)
{
	if (lex->kind != CK_PTX_NAME)
		return -ENOEXEC;
	ck_ptx_next(lex);
	return parse_dimensions(lex, decl);
}
