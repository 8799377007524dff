/*
 * emu/ptx/language/sregs.h - numbers of the special registers (sregs.def).
 */
#ifndef CK_EMU_PTX_LANGUAGE_SREGS_H
#define CK_EMU_PTX_LANGUAGE_SREGS_H

#include <stdbool.h>
#include <stddef.h>

enum ck_ptx_sreg {
#define CK_PTX_SREG(id, name, vector) CK_PTX_SREG_##id,
#include "emu/ptx/language/sregs.def"
#undef CK_PTX_SREG
	CK_PTX_SREG_DYNAMIC_BASE, /* address of extern .shared arrays; has no name */
	CK_PTX_SREGS
};

/* A register's .x .y .z, or the number of an %envreg, is added as a multiple of this. */
#define CK_PTX_SREG_STRIDE 64

/* Number of the register called @name (%envreg5 included), or -1. */
int ck_ptx_sreg_find(const char *name, size_t size);
bool ck_ptx_sreg_is_vector(unsigned int id);

/* It says where the system's part of shared memory is. */
static inline bool ck_ptx_sreg_is_reserved(unsigned int id)
{
	return id >= CK_PTX_SREG_RESERVED_BEGIN && id <= CK_PTX_SREG_RESERVED_1;
}

#endif
