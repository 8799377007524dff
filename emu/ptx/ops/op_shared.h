/*
 * emu/ptx/ops/op_shared.h - executors that several families of opcodes share.
 */
#ifndef CK_EMU_PTX_OPS_OP_SHARED_H
#define CK_EMU_PTX_OPS_OP_SHARED_H

#include "emu/ptx/language/module.h"
#include "emu/ptx/memory/exec.h"

/* --- floats and pairs, for opcodes that integers share (op_float.c) */

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

/* The smaller, or with @most the larger, number; -0 is less than +0, a NaN loses. */
double ck_ptx_least(double a, double b, bool most);

/* min or max of @in by its .NaN and .xorsign.abs; a value of any format fits a double. */
double ck_ptx_extreme(const struct ck_ptx_insn *in, double a, double b);

/* Whether the type is a pair of integers; their executor, which knows .relu too (op_pair.c). */
bool ck_ptx_is_pair(const struct ck_ptx_insn *in);
int ck_ptx_pair(struct ck_ptx_warp *w, const struct ck_ptx_insn *in, uint32_t mask);

/* .ftz: a subnormal is a zero of its sign. */
float ck_ptx_flush(float value);

/* The host's rounding direction for CK_PTX_RN ... RP and the integer ones RNI ... RPI. */
int ck_ptx_host_round(unsigned int round);

/* --- 128 bits (op_wide.c) */

int ck_ptx_ld_wide(struct ck_ptx_warp *w, const struct ck_ptx_insn *in, uint32_t mask);
int ck_ptx_st_wide(struct ck_ptx_warp *w, const struct ck_ptx_insn *in, uint32_t mask);

/* exch and cas. */
int ck_ptx_atomic_wide(struct ck_ptx_warp *w, const struct ck_ptx_insn *in, uint32_t mask);

/* --- atomic operations (op_atom.c) */

/* Change the value of in->type at @at by @in's operation with @value; the old value. */
uint64_t ck_ptx_atomic(const struct ck_ptx_insn *in, uint8_t *at, uint64_t value);

/* Whether there is @in's operation for its type. */
bool ck_ptx_atomic_known(const struct ck_ptx_insn *in);

#endif
