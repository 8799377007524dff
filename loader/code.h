/*
 * loader/code.h - machine instructions that may be carried to another place, and the number that
 * they leave in a register.
 */
#ifndef CK_LOADER_CODE_H
#define CK_LOADER_CODE_H

#include "loader/sys.h"

/*
 * The length of the instruction at @code, if it only moves or computes values and would do the same
 * anywhere; else 0. *holding has a bit for each register (rax 0 ... r15 15) that holds a certain
 * value before, and is changed to the registers that hold it afterwards. Nothing is read behind
 * code + left.
 */
size_t ck_code_step(const uint8_t *code, size_t left, uint32_t *holding);

/*
 * The same for "mov $value, register of 32 bits": *value and *holding are set. A form of at least
 * 5 bytes, which a jump fits.
 */
size_t ck_code_constant(const uint8_t *code, size_t left, uint32_t *value, uint32_t *holding);

#endif
