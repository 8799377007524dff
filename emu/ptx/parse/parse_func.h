/*
 * emu/ptx/parse/parse_func.h - the parser's steps for a module and for a function's body.
 */
#ifndef CK_EMU_PTX_PARSE_PARSE_FUNC_H
#define CK_EMU_PTX_PARSE_PARSE_FUNC_H

#include "emu/ptx/parse/parse.h"

/* One directive of the module, p->tok its first token. */
int ck_ptx_parse_directive(struct ck_ptx_parser *p);
/* After .func or .entry. */
int ck_ptx_parse_func(struct ck_ptx_parser *p, bool entry, enum ck_ptx_linkage linkage);
/* From the '{' to the '}' (parse.c). */
int ck_ptx_parse_body(struct ck_ptx_parser *p);

#endif
