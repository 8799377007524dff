/*
 * emu/ptx/parse/lex.h - PTX text cut into tokens; comments and @@ lines are skipped. Of .loc, the
 * lexer keeps the last one; of .file, it reports the names.
 */
#ifndef CK_EMU_PTX_PARSE_LEX_H
#define CK_EMU_PTX_PARSE_LEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "emu/ptx/language/module.h"

enum ck_ptx_token_kind {
	CK_PTX_END,
	CK_PTX_WORD, /* a name: letters, digits, _ $, maybe % in front */
	CK_PTX_DOT,  /* .word; the text is without the dot, and may contain "::" */
	CK_PTX_INT,
	CK_PTX_FLOAT, /* 0f, 0d or decimal with a point or an exponent */
	CK_PTX_STRING,
	CK_PTX_PUNCT, /* one character, in text[0] */
	CK_PTX_BAD,   /* a character or a number that PTX does not have */
};

struct ck_ptx_token {
	enum ck_ptx_token_kind kind;
	const char *text; /* points into the input */
	size_t size;
	uint64_t integer;
	double real;
	bool single;	 /* a FLOAT written as 0f: real is exactly that float */
	uint32_t bits32; /* of a 0f number, NaN payloads kept */
	uint64_t bits64; /* of the others */
};

struct ck_ptx_lex {
	const char *at, *end;
	uint32_t line;
	struct ck_ptx_line source, caller; /* of the last .loc of this function */
	/* .file @number "@name"; NULL: ignored. */
	void (*file)(void *opaque, uint32_t number, const char *name, size_t size);
	void *opaque;
};

void ck_ptx_lexer_init(struct ck_ptx_lex *lex, const char *text, size_t size);
void ck_ptx_lex_next(struct ck_ptx_lex *lex, struct ck_ptx_token *token);

/* The next character that is neither space nor comment, 0 at the end; nothing is consumed. */
char ck_ptx_lex_peek(const struct ck_ptx_lex *lex);

/* Skip characters up to and including the next @c; false if there is none. */
bool ck_ptx_lex_skip_past(struct ck_ptx_lex *lex, char c);

bool ck_ptx_token_is(const struct ck_ptx_token *token, enum ck_ptx_token_kind kind,
		     const char *text);

#endif
