/*
 * elf/ptxdecl.h - declarations in PTX text; private to elf/.
 *
 * A declaration is `.space [.align n] [.v4] type name[dims] [= value] [, name ...] ;`. Each call
 * reads its part, and leaves as last token read the first that it does not take. All give 0, or
 * -ENOEXEC for what the grammar does not have.
 */
#ifndef CK_ELF_PTXDECL_H
#define CK_ELF_PTXDECL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "elf/ptxlex.h"

struct ck_ptx_declaration {
	const char *name; /* in the text */
	size_t name_size;
	uint32_t align;	  /* as written, else that of the type */
	uint64_t size;	  /* bytes */
	uint32_t element; /* bytes of one element of the type */
	char type;	  /* letter of the type: u s f b p; 0 for opaque ones */
	bool pointer;	  /* said to be one (.ptr) */
	bool opaque;	  /* texture, surface or sampler: no bytes of its own */
	bool open;	  /* first dimension left open: size is that of one element of it */
};

/* From behind the space to the name: sets align, opaque, and size to that of one element. */
int ck_ptx_qualifiers(struct ck_ptxhead_lex *lex, struct ck_ptx_declaration *decl);

/* `name[dims]`: sets name and open, and multiplies size by the dimensions. */
int ck_ptx_declarator(struct ck_ptxhead_lex *lex, struct ck_ptx_declaration *decl);

/*
 * From behind `=` up to `,` or `;`. *count: elements on the outer level of the braces, which
 * tell a first dimension that was left open.
 */
int ck_ptx_initialiser(struct ck_ptxhead_lex *lex, uint64_t *count);

#endif
