/*
 * emu/ptx/language/half.c - small floats in software; see half.h.
 */
#include <math.h>
#include <string.h>

#include "emu/ptx/language/half.h"
#include "emu/ptx/language/module.h"

/* Bits of the exponent, of the mantissa; whether the largest exponent is one like the others. */
struct format {
	int exponent, mantissa;
	bool no_infinity;
};

static const struct format half = {5, 10, false}, bfloat = {8, 7, false}, tf32 = {8, 10, false};
static const struct format e4m3 = {4, 3, true}, e5m2 = {5, 2, false};

/* Whether a value with the remainder @rest (of the unit 1 << @shift) goes away from zero. */
static bool round_up(uint64_t kept, uint64_t rest, int shift, bool negative, unsigned int round)
{
	uint64_t tie = 1ull << (shift - 1);

	switch (round) {
	case CK_PTX_RZ:
		return false;
	case CK_PTX_RM:
		return rest && negative;
	case CK_PTX_RP:
		return rest && !negative;
	case CK_PTX_RNA:
		return rest >= tie;
	default:
		return rest > tie || (rest == tie && (kept & 1));
	}
}

/* The first number that is too large: infinity's place, or the NaN's where there is none. */
static uint32_t get_overflow_bits(const struct format *f)
{
	return (((1u << f->exponent) - 1) << f->mantissa) |
	       (f->no_infinity ? (1u << f->mantissa) - 1 : 0);
}

static uint32_t pack_float(double value, const struct format *f, unsigned int round, bool finite)
{
	int bias = (1 << (f->exponent - 1)) - 1, e, shift;
	uint32_t infinity = get_overflow_bits(f), sign;
	uint64_t bits, m, kept, result;

	memcpy(&bits, &value, sizeof(bits));
	sign = (uint32_t)(bits >> 63) << (f->exponent + f->mantissa);
	e = (int)(bits >> 52 & 0x7ff) - 1023;
	m = bits & ((1ull << 52) - 1);
	if (e == 1024 && m)
		return (1u << (f->exponent + f->mantissa)) - 1;
	if (e == 1024)
		return sign | (infinity - finite);
	if (e == -1023)
		e = -1022;
	else
		m |= 1ull << 52;
	if (m == 0)
		return sign;
	shift = 52 - f->mantissa + (e < 1 - bias ? 1 - bias - e : 0);
	if (shift > 62) {
		/* Any value below half of the smallest number. */
		m = 1;
		shift = 62;
	}
	kept = m >> shift;
	if (round_up(kept, m & ((1ull << shift) - 1), shift, sign != 0, round))
		kept++;
	/* A carry out of the mantissa moves into the exponent, as it should. */
	result = kept + (e < 1 - bias ? 0 : (uint64_t)(e + bias - 1) << f->mantissa);
	if (result < infinity)
		return sign | (uint32_t)result;
	if (finite || round == CK_PTX_RZ || (round == CK_PTX_RM && !sign) ||
	    (round == CK_PTX_RP && sign))
		return sign | (infinity - 1);
	return sign | infinity;
}

static double unpack_float(uint32_t bits, const struct format *f)
{
	int bias = (1 << (f->exponent - 1)) - 1;
	int e = (int)(bits >> f->mantissa) & ((1 << f->exponent) - 1);
	int m = (int)bits & ((1 << f->mantissa) - 1);
	double value;

	if ((bits & ~(1u << (f->exponent + f->mantissa))) >= get_overflow_bits(f))
		value = m ? NAN : INFINITY;
	else if (e == 0)
		value = ldexp(m, 1 - bias - f->mantissa);
	else
		value = ldexp(m | 1 << f->mantissa, e - bias - f->mantissa);
	return bits >> (f->exponent + f->mantissa) ? -value : value;
}

uint16_t ck_ptx_half_from(double value)
{
	return (uint16_t)pack_float(value, &half, CK_PTX_RN, false);
}

uint16_t ck_ptx_bfloat_from(double value)
{
	return (uint16_t)pack_float(value, &bfloat, CK_PTX_RN, false);
}

uint32_t ck_ptx_small_from(double value, unsigned int type, unsigned int round, bool finite)
{
	switch (type) {
	case CK_PTX_TF32:
		return pack_float(value, &tf32, round, finite) << 13;
	case CK_PTX_F16:
		return pack_float(value, &half, round, finite);
	case CK_PTX_BF16:
		return pack_float(value, &bfloat, round, finite);
	default:
		return pack_float(value, type == CK_PTX_E4M3 ? &e4m3 : &e5m2, round, finite);
	}
}

double ck_ptx_small_to(uint32_t bits, unsigned int type)
{
	switch (type) {
	case CK_PTX_F16:
		return unpack_float((uint16_t)bits, &half);
	case CK_PTX_BF16:
		return unpack_float((uint16_t)bits, &bfloat);
	case CK_PTX_TF32:
		return unpack_float(bits >> 13, &tf32);
	default:
		return unpack_float((uint8_t)bits, type == CK_PTX_E4M3 ? &e4m3 : &e5m2);
	}
}

double ck_ptx_half_to(uint16_t bits)
{
	return unpack_float(bits, &half);
}

double ck_ptx_bfloat_to(uint16_t bits)
{
	float value;
	uint32_t wide = (uint32_t)bits << 16;

	memcpy(&value, &wide, sizeof(value));
	return (double)value;
}

/*
 * The product of two halves is exact in a double, the sum is not always. Its error, found by
 * Knuth's two-sum, is pushed into the last bit (rounding to odd), so that rounding the double
 * again cannot go wrong.
 */
double ck_ptx_half_fma(double a, double b, double c)
{
	double p = a * b, sum = p + c, part, error;
	uint64_t bits;

	if (!isfinite(sum))
		return sum;
	part = sum - p;
	error = (p - (sum - part)) + (c - part);
	memcpy(&bits, &sum, sizeof(bits));
	if (error == 0 || (bits & 1))
		return sum;
	/* Towards zero first if the sum went away from it, then odd. */
	if ((error < 0) != (sum < 0))
		bits--;
	bits |= 1;
	memcpy(&sum, &bits, sizeof(sum));
	return sum;
}
