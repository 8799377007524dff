/*
 * elf/ptxdecl.h - declarations in PTX text; private to elf/.
 *
 * A declaration is `.space [.align n] [.v4] type name[dims] [= value] [, name ...] ;`. Each call
 * reads its part, and leaves as last token read the first that it does not take. All give 0, or
 * -ENOEXEC for text that is not in the grammar.
 */
#ifndef CK_ELF_PTXDECL_H
#define CK_ELF_PTXDECL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "elf/ptxlex.h"

struct ck_ptx_declaration {
	uint32_t align;	  /* as written, else that of the type */
	uint64_t size;	  /* bytes */
	uint32_t element; /* bytes of one element of the type */
	char type;	  /* letter of the type: u s f b p; 0 for textures, surfaces, samplers */
	bool pointer;	  /* said to be one (.ptr) */
	bool open;	  /* first dimension left open: size is that of one element of it */
};

/* From behind the space to the name: sets align, type, pointer, and size to that of one element. */
int ck_ptx_qualifiers(struct ck_ptxhead_lex *lex, struct ck_ptx_declaration *decl);

/* `name[dims]`: sets open, and multiplies size by the dimensions. */
int ck_ptx_declarator(struct ck_ptxhead_lex *lex, struct ck_ptx_declaration *decl);

#endif
