/*
 * elf/ptxlex.h - words of PTX text; private to elf/.
 */
#ifndef CK_ELF_PTXLEX_H
#define CK_ELF_PTXLEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum ck_ptx_token {
	CK_PTX_END,	  /* of the text, or a NUL in it */
	CK_PTX_DIRECTIVE, /* .entry, .u32; the dot is part of it */
	CK_PTX_NAME,
	CK_PTX_NUMBER,
	CK_PTX_STRING, /* with its quotes */
	CK_PTX_PUNCT,  /* any other single character */
};

/* A place in the text and the token that was read last. */
struct ck_ptxhead_lex {
	const char *at, *end;
	enum ck_ptx_token kind;
	const char *token;
	size_t length;
};

void ck_ptx_lex_init(struct ck_ptxhead_lex *lex, const char *text, size_t size);

/* Read the next token over blanks and comments; returns its kind. */
enum ck_ptx_token ck_ptx_next(struct ck_ptxhead_lex *lex);

/* Is the last token this word, or this single character? */
bool ck_ptx_is(const struct ck_ptxhead_lex *lex, const char *word);
bool ck_ptx_is_punct(const struct ck_ptxhead_lex *lex, char c);

/* Value of the last token as an integer below 2^31; false for anything else. */
bool ck_ptx_number(const struct ck_ptxhead_lex *lex, uint32_t *value);

/*
 * Bytes of one element of a type directive (.u8 to .b128, opaque types), 0 for other words.
 */
uint32_t ck_ptx_type_size(const struct ck_ptxhead_lex *lex);

#endif
