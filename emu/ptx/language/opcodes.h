/*
 * emu/ptx/language/opcodes.h - numbers and names of the opcodes (ops.def), names of modifiers.
 */
#ifndef CK_EMU_PTX_LANGUAGE_OPCODES_H
#define CK_EMU_PTX_LANGUAGE_OPCODES_H

#include "emu/ptx/language/module.h"

enum ck_ptx_op {
	CK_PTX_OP_NONE,
#define CK_PTX_OP(id, name, kind, shape, types, types2, mods, pick) CK_PTX_OP_##id,
#include "emu/ptx/language/ops.def"
#undef CK_PTX_OP
};

const char *ck_ptx_op_name(unsigned int op);

/* The first meaning of @text among the categories @mods: false if it has none. */
bool ck_ptx_mod_find(const char *text, size_t size, uint64_t mods, unsigned int *category,
		     unsigned int *value);

#endif
