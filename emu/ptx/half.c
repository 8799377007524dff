/*
 * emu/ptx/half.c - binary16 and bfloat16 in software; see half.h.
 */
#include <math.h>
#include <string.h>

#include "emu/ptx/half.h"
#include "emu/ptx/module.h"

/* A format of 16 bits: exponent bits, mantissa bits. */
struct format {
	int exponent, mantissa;
};

static const struct format half = {5, 10}, bfloat = {8, 7};

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

static uint16_t pack(double value, const struct format *f, unsigned int round)
{
	int bias = (1 << (f->exponent - 1)) - 1, e, shift;
	uint16_t infinity = (uint16_t)(((1u << f->exponent) - 1) << f->mantissa), sign;
	uint64_t bits, m, kept, result;

	memcpy(&bits, &value, sizeof(bits));
	sign = (uint16_t)(bits >> 63 << 15);
	e = (int)(bits >> 52 & 0x7ff) - 1023;
	m = bits & ((1ull << 52) - 1);
	if (e == 1024)
		return m ? 0x7fff : sign | infinity;
	if (e == -1023)
		e = -1022;
	else
		m |= 1ull << 52;
	if (m == 0)
		return sign;
	shift = 52 - f->mantissa + (e < 1 - bias ? 1 - bias - e : 0);
	if (shift > 62) {
		/* Below half of the smallest number, whatever it is. */
		m = 1;
		shift = 62;
	}
	kept = m >> shift;
	if (round_up(kept, m & ((1ull << shift) - 1), shift, sign, round))
		kept++;
	/* A carry out of the mantissa moves into the exponent, as it should. */
	result = kept + (e < 1 - bias ? 0 : (uint64_t)(e + bias - 1) << f->mantissa);
	if (result < infinity)
		return sign | (uint16_t)result;
	if (round == CK_PTX_RZ || (round == CK_PTX_RM && !sign) || (round == CK_PTX_RP && sign))
		return sign | (infinity - 1);
	return sign | infinity;
}

static double unpack(uint16_t bits, const struct format *f)
{
	int bias = (1 << (f->exponent - 1)) - 1;
	int e = bits >> f->mantissa & ((1 << f->exponent) - 1);
	int m = bits & ((1 << f->mantissa) - 1);
	double value;

	if (e == (1 << f->exponent) - 1)
		value = m ? NAN : INFINITY;
	else if (e == 0)
		value = ldexp(m, 1 - bias - f->mantissa);
	else
		value = ldexp(m | 1 << f->mantissa, e - bias - f->mantissa);
	return bits >> 15 ? -value : value;
}

uint16_t ck_ptx_half_from(double value, unsigned int round)
{
	return pack(value, &half, round);
}

uint16_t ck_ptx_bfloat_from(double value, unsigned int round)
{
	return pack(value, &bfloat, round);
}

double ck_ptx_half_to(uint16_t bits)
{
	return unpack(bits, &half);
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
