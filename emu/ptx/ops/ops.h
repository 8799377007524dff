/*
 * emu/ptx/ops/ops.h - the rows of the table of opcodes, and the executors that they name.
 */
#ifndef CK_EMU_PTX_OPS_OPS_H
#define CK_EMU_PTX_OPS_OPS_H

#include "emu/ptx/language/opcodes.h"

/*
 * Choose the executor of an instruction whose types, modifiers and number of sources are known;
 * NULL if that combination does not exist or is not supported. May change kind and mask_at.
 */
typedef ck_ptx_exec (*ck_ptx_pick)(struct ck_ptx_insn *in, unsigned int operands);

struct ck_ptx_op_row {
	const char *name;
	enum ck_ptx_kind kind;
	const char *shape;	/* see ops.def */
	uint64_t types, types2; /* sets of 1 << type; 0: the opcode takes no type */
	uint64_t mods;		/* set of 1 << category */
	ck_ptx_pick pick;
};

const struct ck_ptx_op_row *ck_ptx_op_row(unsigned int op);

/* By name: CK_PTX_OP_NONE if there is none. */
unsigned int ck_ptx_op_find(const char *name, size_t size);

/* Whether @name is an opcode or the first words of one: "cp.async" of "cp.async.bulk". */
bool ck_ptx_op_extends(const char *name, size_t size);
/* Whether an instruction of PTX begins with @word, also one that is not supported. */
bool ck_ptx_op_exists(const char *word, size_t size);

/* Whether the lists of a matrix instruction, that has been chosen, are as long as they must be. */
bool ck_ptx_lists_fit(const struct ck_ptx_insn *in, const struct ck_ptx_lists *lists);

/* The texture or surface of number @object: 0, or ILLEGAL_ADDRESS (op_tex.c). */
int ck_ptx_texture_find(struct ck_ptx_warp *w, uint64_t object, bool surface,
			const struct ck_ptx_texture **texture);

/* Values of special registers (sregs.c). */
int ck_ptx_exec_sreg(struct ck_ptx_warp *w, const struct ck_ptx_insn *in, uint32_t mask);

/* Executors' choosers, one a family of rows of ops.def. */
#define CK_PTX_PICK(name) ck_ptx_exec ck_ptx_pick_##name(struct ck_ptx_insn *, unsigned int)
CK_PTX_PICK(add);
CK_PTX_PICK(sub);
CK_PTX_PICK(mul);
CK_PTX_PICK(mad);
CK_PTX_PICK(fma);
CK_PTX_PICK(addc);
CK_PTX_PICK(subc);
CK_PTX_PICK(madc);
CK_PTX_PICK(video);
CK_PTX_PICK(copy);
CK_PTX_PICK(bulk);
CK_PTX_PICK(st_async);
CK_PTX_PICK(mbarrier);
CK_PTX_PICK(mapa);
CK_PTX_PICK(policy);
CK_PTX_PICK(stack);
CK_PTX_PICK(tile);
CK_PTX_PICK(mma);
CK_PTX_PICK(wmma);
CK_PTX_PICK(cvt_pack);
CK_PTX_PICK(mul24);
CK_PTX_PICK(mad24);
CK_PTX_PICK(sad);
CK_PTX_PICK(div);
CK_PTX_PICK(rem);
CK_PTX_PICK(abs);
CK_PTX_PICK(neg);
CK_PTX_PICK(min);
CK_PTX_PICK(max);
CK_PTX_PICK(popc);
CK_PTX_PICK(clz);
CK_PTX_PICK(bfind);
CK_PTX_PICK(fns);
CK_PTX_PICK(brev);
CK_PTX_PICK(bfe);
CK_PTX_PICK(bfi);
CK_PTX_PICK(bmsk);
CK_PTX_PICK(szext);
CK_PTX_PICK(dp4a);
CK_PTX_PICK(dp2a);
CK_PTX_PICK(and);
CK_PTX_PICK(or);
CK_PTX_PICK(xor);
CK_PTX_PICK(not );
CK_PTX_PICK(cnot);
CK_PTX_PICK(lop3);
CK_PTX_PICK(shf);
CK_PTX_PICK(shl);
CK_PTX_PICK(shr);
CK_PTX_PICK(prmt);
CK_PTX_PICK(rcp);
CK_PTX_PICK(sqrt);
CK_PTX_PICK(rsqrt);
CK_PTX_PICK(sin);
CK_PTX_PICK(cos);
CK_PTX_PICK(lg2);
CK_PTX_PICK(ex2);
CK_PTX_PICK(tanh);
CK_PTX_PICK(testp);
CK_PTX_PICK(copysign);
CK_PTX_PICK(setp);
CK_PTX_PICK(set);
CK_PTX_PICK(selp);
CK_PTX_PICK(slct);
CK_PTX_PICK(mov);
CK_PTX_PICK(cvt);
CK_PTX_PICK(cvta);
CK_PTX_PICK(isspacep);
CK_PTX_PICK(ld);
CK_PTX_PICK(st);
CK_PTX_PICK(prefetch);
CK_PTX_PICK(atom);
CK_PTX_PICK(red);
CK_PTX_PICK(shfl);
CK_PTX_PICK(vote);
CK_PTX_PICK(match);
CK_PTX_PICK(redux);
CK_PTX_PICK(activemask);
CK_PTX_PICK(elect);
CK_PTX_PICK(bar);
CK_PTX_PICK(fence);
CK_PTX_PICK(tex);
CK_PTX_PICK(tld4);
CK_PTX_PICK(txq);
CK_PTX_PICK(suld);
CK_PTX_PICK(sust);
CK_PTX_PICK(sured);
CK_PTX_PICK(suq);
CK_PTX_PICK(nop);
CK_PTX_PICK(flow);
CK_PTX_PICK(trap);
CK_PTX_PICK(hidden);
#undef CK_PTX_PICK

#endif
