/*
 * emu/ptx/op_float.h - choosers of float executors, for opcodes that integers share.
 */
#ifndef CK_EMU_PTX_OP_FLOAT_H
#define CK_EMU_PTX_OP_FLOAT_H

#include "emu/ptx/module.h"

ck_ptx_exec ck_ptx_pick_float_add(struct ck_ptx_insn *in, unsigned int operands);
ck_ptx_exec ck_ptx_pick_float_sub(struct ck_ptx_insn *in, unsigned int operands);
ck_ptx_exec ck_ptx_pick_float_mul(struct ck_ptx_insn *in, unsigned int operands);
ck_ptx_exec ck_ptx_pick_float_div(struct ck_ptx_insn *in, unsigned int operands);
ck_ptx_exec ck_ptx_pick_float_abs(struct ck_ptx_insn *in, unsigned int operands);
ck_ptx_exec ck_ptx_pick_float_neg(struct ck_ptx_insn *in, unsigned int operands);
ck_ptx_exec ck_ptx_pick_float_min(struct ck_ptx_insn *in, unsigned int operands);
ck_ptx_exec ck_ptx_pick_float_max(struct ck_ptx_insn *in, unsigned int operands);

/* The executor of f16, bf16 and their pairs, for any of the above opcodes and fma (op_half.c). */
ck_ptx_exec ck_ptx_pick_half(struct ck_ptx_insn *in);

/* .ftz: a subnormal is a zero of its sign. .sat: to [0, 1], NaN to 0. */
float ck_ptx_flush(float value);
float ck_ptx_saturate(float value);

/* The host's rounding direction for CK_PTX_RN ... RP and the integer ones RNI ... RPI. */
int ck_ptx_host_round(unsigned int round);

#endif
