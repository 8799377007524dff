/*
 * emu/ptx/language/half.h - small floats in software: binary16, bfloat16, tf32, e4m3, e5m2.
 */
#ifndef CK_EMU_PTX_LANGUAGE_HALF_H
#define CK_EMU_PTX_LANGUAGE_HALF_H

#include <stdbool.h>
#include <stdint.h>

/* @value to binary16 or bfloat16, as with CK_PTX_RN. */
uint16_t ck_ptx_half_from(double value);
uint16_t ck_ptx_bfloat_from(double value);

/*
 * @value to F16, BF16, E4M3, E5M2, or TF32 (whose bits stand as in a single). @round is CK_PTX_RN,
 * RZ, RM, RP or RNA; overflow rounds too. With @finite, larger values and infinity become the
 * largest number. A NaN has all bits of its magnitude set.
 */
uint32_t ck_ptx_small_from(double value, unsigned int type, unsigned int round, bool finite);
double ck_ptx_small_to(uint32_t bits, unsigned int type);

/* Exact. */
double ck_ptx_half_to(uint16_t bits);
double ck_ptx_bfloat_to(uint16_t bits);

/* a * b + c so that rounding the double to a half or a bfloat again is rounding once. */
double ck_ptx_half_fma(double a, double b, double c);

#endif
