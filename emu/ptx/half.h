/*
 * emu/ptx/half.h - binary16 and bfloat16 in software, and rounding of any float to any other.
 */
#ifndef CK_EMU_PTX_HALF_H
#define CK_EMU_PTX_HALF_H

#include <stdbool.h>
#include <stdint.h>

/* @value to binary16 or bfloat16; @round is CK_PTX_RN, RZ, RM, RP or RNA. Overflow rounds too. */
uint16_t ck_ptx_half_from(double value, unsigned int round);
uint16_t ck_ptx_bfloat_from(double value, unsigned int round);

/* Exact. */
double ck_ptx_half_to(uint16_t bits);
double ck_ptx_bfloat_to(uint16_t bits);

/* a * b + c so that rounding the double to a half or a bfloat again is rounding once. */
double ck_ptx_half_fma(double a, double b, double c);

#endif
