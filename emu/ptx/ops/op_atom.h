/*
 * emu/ptx/ops/op_atom.h - atomic operations, for whoever else carries them out.
 */
#ifndef CK_EMU_PTX_OPS_OP_ATOM_H
#define CK_EMU_PTX_OPS_OP_ATOM_H

#include "emu/ptx/language/module.h"

/* Change the value of in->type at @at by @in's operation with @value; the old value. */
uint64_t ck_ptx_atomic(const struct ck_ptx_insn *in, uint8_t *at, uint64_t value);

/* Whether there is @in's operation for its type. */
bool ck_ptx_atomic_known(const struct ck_ptx_insn *in);

#endif
