/*
 * emu/ptx/ops/op_wide.h - executors of loads, stores and exchanges of 128 bits.
 */
#ifndef CK_EMU_PTX_OPS_OP_WIDE_H
#define CK_EMU_PTX_OPS_OP_WIDE_H

#include "emu/ptx/memory/exec.h"

int ck_ptx_ld_wide(struct ck_ptx_warp *w, const struct ck_ptx_insn *in, uint32_t mask);
int ck_ptx_st_wide(struct ck_ptx_warp *w, const struct ck_ptx_insn *in, uint32_t mask);

/* exch and cas. */
int ck_ptx_atomic_wide(struct ck_ptx_warp *w, const struct ck_ptx_insn *in, uint32_t mask);

#endif
