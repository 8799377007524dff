/*
 * launcher/text/type.c - the table of element types, and elements as text; see type.h.
 */
#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "launcher/text/number.h"
#include "launcher/text/type.h"
#include "util/util.h"

static const struct {
	const char *name, *also;
	unsigned char size;
	char kind; /* f: by its bits; i, u: integers; b: bool */
} types[] = {
	[CK_TYPE_NONE] = {"?", NULL, 0, 0},	   [CK_TYPE_F16] = {"f16", "half", 2, 'f'},
	[CK_TYPE_BF16] = {"bf16", NULL, 2, 'f'},   [CK_TYPE_F32] = {"f32", "float", 4, 'f'},
	[CK_TYPE_F64] = {"f64", "double", 8, 'f'}, [CK_TYPE_I8] = {"i8", NULL, 1, 'i'},
	[CK_TYPE_I16] = {"i16", NULL, 2, 'i'},	   [CK_TYPE_I32] = {"i32", "int", 4, 'i'},
	[CK_TYPE_I64] = {"i64", "long", 8, 'i'},   [CK_TYPE_U8] = {"u8", NULL, 1, 'u'},
	[CK_TYPE_U16] = {"u16", NULL, 2, 'u'},	   [CK_TYPE_U32] = {"u32", NULL, 4, 'u'},
	[CK_TYPE_U64] = {"u64", NULL, 8, 'u'},	   [CK_TYPE_BOOL] = {"bool", NULL, 1, 'b'},
};

enum ckl_type ckl_type_find(const char *name)
{
	for (size_t i = 1; i < CK_ARRAY_SIZE(types); i++) {
		if (strcmp(name, types[i].name) == 0 ||
		    (types[i].also && strcmp(name, types[i].also) == 0))
			return (enum ckl_type)i;
	}
	return CK_TYPE_NONE;
}

const char *ckl_type_name(enum ckl_type type)
{
	return types[type].name;
}

size_t ckl_type_size(enum ckl_type type)
{
	return types[type].size;
}

bool ckl_type_is_float(enum ckl_type type)
{
	return types[type].kind == 'f';
}

/*
 * To the nearest half, ties to even, with @bits of mantissa kept and @bias of the exponent; both
 * 16-bit formats. False: finite and too large.
 */
static bool half_from(double value, int mantissa, int exponent_max, uint16_t *out)
{
	uint16_t sign = signbit(value) ? 0x8000 : 0;
	int exponent, lowest = 2 - exponent_max; /* of a normal number, value in [1, 2) */
	double scaled;

	if (isnan(value)) {
		*out = (uint16_t)(sign | (0x7fff & ~((1u << (mantissa - 1)) - 1)));
		return true;
	}
	if (isinf(value)) {
		*out = (uint16_t)(sign | (0x7fff & ~((1u << mantissa) - 1)));
		return true;
	}
	value = fabs(value);
	frexp(value, &exponent);
	exponent = value == 0 ? lowest : ck_max(exponent - 1, lowest);
	scaled = nearbyint(ldexp(value, mantissa - exponent)); /* exact except for the rounding */
	/* A carry out of the mantissa goes into the exponent, as it should. */
	scaled += ldexp(exponent - lowest, mantissa);
	if (scaled >= ldexp(2 * exponent_max - 1, mantissa))
		return false;
	*out = (uint16_t)(sign | (uint16_t)scaled);
	return true;
}

static double half_to(uint16_t bits, int mantissa, int exponent_max)
{
	int exponent = (bits & 0x7fff) >> mantissa, lowest = 2 - exponent_max;
	double fraction = bits & ((1u << mantissa) - 1), value;

	if (exponent == 2 * exponent_max - 1)
		value = fraction != 0 ? (double)NAN : (double)INFINITY;
	else if (exponent == 0)
		value = ldexp(fraction, lowest - mantissa);
	else
		value = ldexp(fraction + ldexp(1, mantissa), lowest + exponent - 1 - mantissa);
	return bits & 0x8000 ? -value : value;
}

#define F16_MANTISSA 10
#define F16_EXPONENT 16
#define BF16_MANTISSA 7
#define BF16_EXPONENT 128

static bool read_float(enum ckl_type type, const char *at, size_t size, void *out)
{
	double value;

	if (type == CK_TYPE_F32)
		return ckl_number_f32(at, size, out);
	if (type == CK_TYPE_F64)
		return ckl_number_f64(at, size, out);
	if (!ckl_number_f64(at, size, &value))
		return false;
	return type == CK_TYPE_F16 ? half_from(value, F16_MANTISSA, F16_EXPONENT, out)
				   : half_from(value, BF16_MANTISSA, BF16_EXPONENT, out);
}

/* @bytes of the number in two's complement, the low end first as on this machine. */
static bool read_integer(enum ckl_type type, const char *at, size_t size, bool any_sign, void *out)
{
	size_t bytes = types[type].size;
	bool is_signed = types[type].kind == 'i', negative;
	uint64_t half = UINT64_C(1) << (8 * bytes - 1), magnitude;

	if (!ckl_number_integer(at, size, &negative, &magnitude))
		return false;
	if (magnitude == 0)
		negative = false;
	if (negative && ((!is_signed && !any_sign) || magnitude > half))
		return false;
	if (!negative && magnitude > half - 1 + (!is_signed || any_sign ? half : 0))
		return false;
	if (negative)
		magnitude = -magnitude;
	memcpy(out, &magnitude, bytes);
	return true;
}

bool ckl_type_read(enum ckl_type type, const char *at, size_t size, bool any_sign, void *out)
{
	static const char words[2][6] = {"false", "true"};
	static const char digits[2][2] = {"0", "1"};

	for (int i = 0; i < 2; i++) {
		if (size == strlen(words[i]) && memcmp(at, words[i], size) == 0) {
			at = digits[i];
			size = 1;
		}
	}
	if (types[type].kind == 'f')
		return read_float(type, at, size, out);
	if (types[type].kind != 'b')
		return read_integer(type, at, size, any_sign, out);
	return read_integer(CK_TYPE_U8, at, size, false, out) && *(unsigned char *)out <= 1;
}

size_t ckl_type_print(enum ckl_type type, const void *element, char *out)
{
	union {
		float f32;
		double f64;
		uint16_t u16;
		uint64_t u64;
		int64_t i64;
	} v = {.u64 = 0};
	unsigned unused;

	memcpy(&v, element, types[type].size);
	unused = 64 - 8 * types[type].size;
	switch (type) {
	case CK_TYPE_F32:
		return ckl_number_print_f32(out, v.f32);
	case CK_TYPE_F64:
		return ckl_number_print_f64(out, v.f64);
	case CK_TYPE_F16:
		return ckl_number_print_f32(out, (float)half_to(v.u16, F16_MANTISSA, F16_EXPONENT));
	case CK_TYPE_BF16:
		return ckl_number_print_f32(out,
					    (float)half_to(v.u16, BF16_MANTISSA, BF16_EXPONENT));
	case CK_TYPE_BOOL:
		memcpy(out, v.u64 ? "true" : "false", v.u64 ? 4 : 5);
		return v.u64 ? 4 : 5;
	default:
		if (types[type].kind == 'u')
			return ckl_number_print_u64(out, v.u64);
		return ckl_number_print_i64(out, (int64_t)(v.u64 << unused) >> unused);
	}
}
