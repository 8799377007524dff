/*
 * emu/ptx/ops/op_float.c - executors of single and double precision.
 *
 * The host computes in IEEE single and double as well: rounding to nearest is its own mode, the
 * other directions are set round the lanes' loop. A NaN result of single precision is the one
 * that a device makes, 0x7fffffff. .approx instructions are computed in double and rounded.
 */
#include <fenv.h>
#include <math.h>

#include "emu/ptx/memory/exec.h"
#include "emu/ptx/ops/op_shared.h"
#include "emu/ptx/ops/ops.h"

float ck_ptx_flush(float value)
{
	return fpclassify(value) == FP_SUBNORMAL ? copysignf(0, value) : value;
}

/* .sat: to [0, 1], NaN to 0. */
static float saturate_float(float value)
{
	return value > 0 ? (value < 1 ? value : 1) : 0;
}

int ck_ptx_host_round(unsigned int round)
{
	switch (round) {
	case CK_PTX_RZ:
	case CK_PTX_RZI:
		return FE_TOWARDZERO;
	case CK_PTX_RM:
	case CK_PTX_RMI:
		return FE_DOWNWARD;
	case CK_PTX_RP:
	case CK_PTX_RPI:
		return FE_UPWARD;
	default:
		return FE_TONEAREST;
	}
}

static inline uint64_t pack_result32(float value)
{
	return value != value ? 0x7fffffff : ck_ptx_u32(value);
}

static inline float unpack_arg32(const struct ck_ptx_insn *in, uint64_t bits)
{
	float value = ck_ptx_f32(bits);

	return in->mod[CK_PTX_MOD_FTZ] ? ck_ptx_flush(value) : value;
}

static uint64_t finish_result32(const struct ck_ptx_insn *in, float value)
{
	if (in->mod[CK_PTX_MOD_FTZ])
		value = ck_ptx_flush(value);
	if (in->mod[CK_PTX_MOD_SAT])
		return ck_ptx_u32(saturate_float(value));
	return pack_result32(value);
}

#ifdef __x86_64__
#define WITH_FMA __attribute__((target("avx2,fma")))
#define HAS_FMA (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
#else
#define WITH_FMA
#define HAS_FMA true
#endif

/* The case that matters: to nearest, no .ftz, no .sat; for any processor, and for one with FMA. */
#define FAST32(name, ...)                                                                          \
	FAST32_FOR(name##_fast32, , __VA_ARGS__)                                                   \
	FAST32_FOR(name##_host32, WITH_FMA, __VA_ARGS__)

#define FAST32_FOR(name, target, ...)                                                              \
	target EXECUTOR(name)                                                                      \
	{                                                                                          \
		const uint64_t *ra = S(0), *rb = S(1), *rc = S(2);                                 \
		uint64_t *rd = D(0);                                                               \
                                                                                                   \
		EACH_LANE(mask, l, const float a = ck_ptx_f32(ra[l]);                              \
			  const float b = ck_ptx_f32(rb[l]); const float c = ck_ptx_f32(rc[l]);    \
			  (void)a; (void)b; (void)c; rd[l] = pack_result32(__VA_ARGS__););         \
		return 0;                                                                          \
	}

#define SLOW32(name, ...)                                                                          \
	EXECUTOR(name##_slow32)                                                                    \
	{                                                                                          \
		const uint64_t *ra = S(0), *rb = S(1), *rc = S(2);                                 \
		uint64_t *rd = D(0);                                                               \
                                                                                                   \
		fesetround(ck_ptx_host_round(in->mod[CK_PTX_MOD_ROUND]));                          \
		EACH_LANE(mask, l, const float a = unpack_arg32(in, ra[l]);                        \
			  const float b = unpack_arg32(in, rb[l]);                                 \
			  const float c = unpack_arg32(in, rc[l]); (void)a; (void)b; (void)c;      \
			  rd[l] = finish_result32(in, __VA_ARGS__););                              \
		fesetround(FE_TONEAREST);                                                          \
		return 0;                                                                          \
	}

#define DOUBLE(name, ...)                                                                          \
	EXECUTOR(name##_f64)                                                                       \
	{                                                                                          \
		const uint64_t *ra = S(0), *rb = S(1), *rc = S(2);                                 \
		uint64_t *rd = D(0);                                                               \
		unsigned int round = in->mod[CK_PTX_MOD_ROUND];                                    \
                                                                                                   \
		if (round > CK_PTX_RN)                                                             \
			fesetround(ck_ptx_host_round(round));                                      \
		EACH_LANE(mask, l, const double a = ck_ptx_f64(ra[l]);                             \
			  const double b = ck_ptx_f64(rb[l]); const double c = ck_ptx_f64(rc[l]);  \
			  (void)a; (void)b; (void)c; rd[l] = ck_ptx_u64(__VA_ARGS__););            \
		if (round > CK_PTX_RN)                                                             \
			fesetround(FE_TONEAREST);                                                  \
		return 0;                                                                          \
	}

#define FLOATS(name, single, wide)                                                                 \
	FAST32(name, single)                                                                       \
	SLOW32(name, single)                                                                       \
	DOUBLE(name, wide)

FLOATS(add, a + b, a + b)
FLOATS(sub, a - b, a - b)
FLOATS(mul, a *b, a *b)
FLOATS(div, a / b, a / b)
FLOATS(fma, fmaf(a, b, c), fma(a, b, c))
FLOATS(rcp, 1 / a, 1 / a)
FLOATS(sqrt, sqrtf(a), sqrt(a))

#define CHOOSE(in, name)                                                                           \
	((in)->type == CK_PTX_F64                                                                  \
		 ? ((in)->mod[CK_PTX_MOD_FTZ] || (in)->mod[CK_PTX_MOD_SAT] ? NULL : name##_f64)    \
	 : (in)->mod[CK_PTX_MOD_ROUND] > CK_PTX_RN || (in)->mod[CK_PTX_MOD_FTZ] ||                 \
			 (in)->mod[CK_PTX_MOD_SAT]                                                 \
		 ? name##_slow32                                                                   \
	 : HAS_FMA ? name##_host32                                                                 \
		   : name##_fast32)

static bool is_half(const struct ck_ptx_insn *in)
{
	return in->type != CK_PTX_F32 && in->type != CK_PTX_F64;
}

static bool bad_round(const struct ck_ptx_insn *in)
{
	return in->mod[CK_PTX_MOD_ROUND] > CK_PTX_RP;
}

ck_ptx_exec ck_ptx_pick_float_add(struct ck_ptx_insn *in, unsigned int n __attribute__((unused)))
{
	if (bad_round(in) || in->mod[CK_PTX_MOD_CC])
		return NULL;
	return is_half(in) ? ck_ptx_pick_half(in) : CHOOSE(in, add);
}

ck_ptx_exec ck_ptx_pick_float_sub(struct ck_ptx_insn *in, unsigned int n __attribute__((unused)))
{
	if (bad_round(in) || in->mod[CK_PTX_MOD_CC])
		return NULL;
	return is_half(in) ? ck_ptx_pick_half(in) : CHOOSE(in, sub);
}

ck_ptx_exec ck_ptx_pick_float_mul(struct ck_ptx_insn *in, unsigned int n __attribute__((unused)))
{
	if (bad_round(in))
		return NULL;
	return is_half(in) ? ck_ptx_pick_half(in) : CHOOSE(in, mul);
}

ck_ptx_exec ck_ptx_pick_float_div(struct ck_ptx_insn *in, unsigned int n __attribute__((unused)))
{
	if (bad_round(in) || in->mod[CK_PTX_MOD_SAT] ||
	    (!in->mod[CK_PTX_MOD_ROUND] && !in->mod[CK_PTX_MOD_APPROX]))
		return NULL;
	return CHOOSE(in, div);
}

ck_ptx_exec ck_ptx_pick_fma(struct ck_ptx_insn *in, unsigned int n __attribute__((unused)))
{
	if (bad_round(in) || in->mod[CK_PTX_MOD_CC])
		return NULL;
	if (is_half(in))
		return ck_ptx_pick_half(in);
	return in->mod[CK_PTX_MOD_RELU] || in->mod[CK_PTX_MOD_OOB] ? NULL : CHOOSE(in, fma);
}

/* rcp.approx.ftz.f64 and rsqrt's: only the upper halves of the operand and the result count. */
static double truncate_double(double exact)
{
	double value = ck_ptx_f64(ck_ptx_u64(exact) & 0xffffffff00000000ull);

	if (fpclassify(value) == FP_SUBNORMAL)
		return copysign(0, value);
	if (isnan(value))
		return ck_ptx_f64(0x7fffffff00000000ull);
	return value;
}

DOUBLE(rcp_coarse, truncate_double(1 / truncate_double(a)))
DOUBLE(rsqrt_coarse, truncate_double(1 / sqrt(truncate_double(a))))
DOUBLE(rsqrt, 1 / sqrt(a))
SLOW32(rsqrt, (float)(1 / sqrt((double)a)))
SLOW32(sin, (float)sin((double)a))
SLOW32(cos, (float)cos((double)a))
SLOW32(lg2, (float)log2((double)a))
SLOW32(ex2, (float)exp2((double)a))
SLOW32(tanh, (float)tanh((double)a))

ck_ptx_exec ck_ptx_pick_rcp(struct ck_ptx_insn *in, unsigned int n __attribute__((unused)))
{
	bool approx = in->mod[CK_PTX_MOD_APPROX] == 1;

	if (bad_round(in) || approx == !!in->mod[CK_PTX_MOD_ROUND])
		return NULL;
	if (in->type == CK_PTX_F64 && approx)
		return in->mod[CK_PTX_MOD_FTZ] ? rcp_coarse_f64 : NULL;
	return CHOOSE(in, rcp);
}

ck_ptx_exec ck_ptx_pick_sqrt(struct ck_ptx_insn *in, unsigned int n __attribute__((unused)))
{
	bool approx = in->mod[CK_PTX_MOD_APPROX] == 1;

	if (bad_round(in) || approx == !!in->mod[CK_PTX_MOD_ROUND] ||
	    (approx && in->type == CK_PTX_F64))
		return NULL;
	return CHOOSE(in, sqrt);
}

ck_ptx_exec ck_ptx_pick_rsqrt(struct ck_ptx_insn *in, unsigned int n __attribute__((unused)))
{
	if (in->mod[CK_PTX_MOD_APPROX] != 1)
		return NULL;
	if (in->type == CK_PTX_F64)
		return in->mod[CK_PTX_MOD_FTZ] ? rsqrt_coarse_f64 : rsqrt_f64;
	return rsqrt_slow32;
}

#define PICK_APPROX(name)                                                                          \
	ck_ptx_exec ck_ptx_pick_##name(struct ck_ptx_insn *in,                                     \
				       unsigned int n __attribute__((unused)))                     \
	{                                                                                          \
		return in->mod[CK_PTX_MOD_APPROX] == 1 ? name##_slow32 : NULL;                     \
	}

PICK_APPROX(sin)
PICK_APPROX(cos)
PICK_APPROX(lg2)

ck_ptx_exec ck_ptx_pick_ex2(struct ck_ptx_insn *in, unsigned int n __attribute__((unused)))
{
	if (in->mod[CK_PTX_MOD_APPROX] != 1)
		return NULL;
	return is_half(in) ? ck_ptx_pick_half(in) : ex2_slow32;
}

ck_ptx_exec ck_ptx_pick_tanh(struct ck_ptx_insn *in, unsigned int n __attribute__((unused)))
{
	if (in->mod[CK_PTX_MOD_APPROX] != 1)
		return NULL;
	return is_half(in) ? ck_ptx_pick_half(in) : tanh_slow32;
}

/* A NaN of single precision is the one of the device; one of double precision keeps its bits. */
EXECUTOR(sign32)
{
	const uint64_t *ra = S(0);
	uint64_t *rd = D(0);
	bool neg = in->op == CK_PTX_OP_NEG;

	EACH_LANE(mask, l, {
		float a = unpack_arg32(in, ra[l]);

		rd[l] = pack_result32(neg ? -a : fabsf(a));
	});
	return 0;
}

EXECUTOR(sign64)
{
	const uint64_t *ra = S(0);
	uint64_t *rd = D(0);
	bool neg = in->op == CK_PTX_OP_NEG;

	EACH_LANE(mask, l, {
		if (isnan(ck_ptx_f64(ra[l])))
			rd[l] = ra[l] | 1ull << 51;
		else
			rd[l] = neg ? ra[l] ^ 1ull << 63 : ra[l] & ~(1ull << 63);
	});
	return 0;
}

ck_ptx_exec ck_ptx_pick_float_abs(struct ck_ptx_insn *in, unsigned int n __attribute__((unused)))
{
	if (is_half(in))
		return ck_ptx_pick_half(in);
	if (in->type == CK_PTX_F64)
		return in->mod[CK_PTX_MOD_FTZ] ? NULL : sign64;
	return sign32;
}

ck_ptx_exec ck_ptx_pick_float_neg(struct ck_ptx_insn *in, unsigned int n)
{
	return ck_ptx_pick_float_abs(in, n);
}

/* -0 is less than +0; a NaN loses against a number unless .NaN. */
static double select_minimum(double a, double b, bool keep_nan)
{
	if (isnan(a) || isnan(b))
		return (isnan(a) && isnan(b)) || keep_nan ? (double)NAN : isnan(a) ? b : a;
	if (a == b)
		return signbit(a) ? a : b;
	return a < b ? a : b;
}

double ck_ptx_least(double a, double b, bool most)
{
	return most ? -select_minimum(-a, -b, false) : select_minimum(a, b, false);
}

double ck_ptx_extreme(const struct ck_ptx_insn *in, double a, double b)
{
	bool keep = in->mod[CK_PTX_MOD_NANS], sign = signbit(a) ^ signbit(b);
	double result;

	if (in->mod[CK_PTX_MOD_XORSIGN]) {
		a = fabs(a);
		b = fabs(b);
	}
	result = in->op == CK_PTX_OP_MIN ? select_minimum(a, b, keep)
					 : -select_minimum(-a, -b, keep);
	return in->mod[CK_PTX_MOD_XORSIGN] && !isnan(result) ? copysign(result, sign ? -1 : 1)
							     : result;
}

SLOW32(extreme, (float)ck_ptx_extreme(in, (double)a, (double)b))
DOUBLE(extreme, ck_ptx_extreme(in, a, b))

/* The operations that floats support. */
static bool bad_extreme(const struct ck_ptx_insn *in)
{
	return in->mod[CK_PTX_MOD_RELU] || in->mod[CK_PTX_MOD_XORSIGN] != in->mod[CK_PTX_MOD_ABS];
}

ck_ptx_exec ck_ptx_pick_float_min(struct ck_ptx_insn *in, unsigned int n __attribute__((unused)))
{
	if (bad_extreme(in))
		return NULL;
	if (is_half(in))
		return ck_ptx_pick_half(in);
	if (in->type == CK_PTX_F64)
		return in->mod[CK_PTX_MOD_FTZ] || in->mod[CK_PTX_MOD_NANS] ||
				       in->mod[CK_PTX_MOD_XORSIGN]
			       ? NULL
			       : extreme_f64;
	return extreme_slow32;
}

ck_ptx_exec ck_ptx_pick_float_max(struct ck_ptx_insn *in, unsigned int n)
{
	return ck_ptx_pick_float_min(in, n);
}

static bool is_kind(unsigned int kind, int class)
{
	switch (kind) {
	case CK_PTX_FINITE:
		return class != FP_NAN && class != FP_INFINITE;
	case CK_PTX_INFINITE:
		return class == FP_INFINITE;
	case CK_PTX_NUMBER:
		return class != FP_NAN;
	case CK_PTX_NOTANUMBER:
		return class == FP_NAN;
	case CK_PTX_NORMAL:
		return class == FP_NORMAL || class == FP_ZERO;
	default:
		return class == FP_SUBNORMAL;
	}
}

EXECUTOR(testp)
{
	const uint64_t *ra = S(0);
	unsigned int kind = in->mod[CK_PTX_MOD_TESTP];
	bool wide = in->type == CK_PTX_F64;
	uint64_t *rd = D(0);

	EACH_LANE(mask, l,
		  rd[l] = is_kind(kind, wide ? fpclassify(ck_ptx_f64(ra[l]))
					     : fpclassify(ck_ptx_f32(ra[l]))););
	return 0;
}

ck_ptx_exec ck_ptx_pick_testp(struct ck_ptx_insn *in, unsigned int n __attribute__((unused)))
{
	return in->mod[CK_PTX_MOD_TESTP] ? testp : NULL;
}

EXECUTOR(copysign_bits)
{
	const uint64_t *ra = S(0), *rb = S(1);
	uint64_t sign = in->type == CK_PTX_F64 ? 1ull << 63 : 1ull << 31;
	uint64_t *rd = D(0);

	EACH_LANE(mask, l, rd[l] = (ra[l] & sign) | (rb[l] & ~sign););
	return 0;
}

ck_ptx_exec ck_ptx_pick_copysign(struct ck_ptx_insn *in __attribute__((unused)),
				 unsigned int n __attribute__((unused)))
{
	return copysign_bits;
}
