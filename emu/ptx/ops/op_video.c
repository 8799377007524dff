/*
 * emu/ptx/ops/op_video.c - executors of the video instructions: one value of parts of registers,
 * pairs of 16 bits, fours of 8 bits.
 *
 * They are rare, so one executor serves them all: it checks the opcode for each lane.
 */
#include "emu/ptx/memory/exec.h"
#include "emu/ptx/ops/ops.h"

/* An opcode's operation, and its number of lanes in a register: 1, 2 or 4. */
enum what { ADD, SUB, AVERAGE, DIFFERENCE, LEAST, MOST, LEFT, RIGHT, MAD, SET };

struct video {
	enum what what;
	unsigned int lanes;
};

static struct video video_of(unsigned int op)
{
	static const uint8_t scalar[] = {ADD, SUB, DIFFERENCE, LEAST, MOST, LEFT, RIGHT, MAD, SET};
	static const uint8_t packed[] = {ADD, SUB, AVERAGE, DIFFERENCE, LEAST, MOST, SET};

	if (op < CK_PTX_OP_VADD2)
		return (struct video){(enum what)scalar[op - CK_PTX_OP_VADD], 1};
	if (op < CK_PTX_OP_VADD4)
		return (struct video){(enum what)packed[op - CK_PTX_OP_VADD2], 2};
	return (struct video){(enum what)packed[op - CK_PTX_OP_VADD4], 4};
}

/* The @bits of @value from bit @shift on, as a number of @type. */
static int64_t extract_field(uint64_t value, unsigned int shift, unsigned int bits,
			     unsigned int type)
{
	uint64_t field = value >> shift & (~0ull >> (64 - bits));

	if (type == CK_PTX_S32 && field >> (bits - 1))
		field |= ~0ull << (bits - 1);
	return (int64_t)field;
}

static unsigned int select_of(const struct ck_ptx_insn *in, unsigned int operand)
{
	return (uint16_t)((uint64_t)in->imm >> (operand * CK_PTX_SELECT_BITS));
}

static unsigned int select_bits(unsigned int select)
{
	return !select ? 32 : select & CK_PTX_SELECT_HALF ? 16 : 8;
}

static int64_t clamp_value(int64_t value, unsigned int bits, bool is_signed)
{
	int64_t high = is_signed ? (1ll << (bits - 1)) - 1 : (1ll << bits) - 1;
	int64_t low = is_signed ? -high - 1 : 0;

	return value > high ? high : value < low ? low : value;
}

static bool compare_values(unsigned int cmp, int64_t a, int64_t b)
{
	switch (cmp) {
	case CK_PTX_EQ:
		return a == b;
	case CK_PTX_NE:
		return a != b;
	case CK_PTX_LT:
		return a < b;
	case CK_PTX_LE:
		return a <= b;
	case CK_PTX_GT:
		return a > b;
	default:
		return a >= b;
	}
}

static int64_t apply_operation(const struct ck_ptx_insn *in, enum what what, int64_t a, int64_t b)
{
	switch (what) {
	case ADD:
		return a + b;
	case SUB:
		return a - b;
	case AVERAGE:
		return (a + b + (a + b >= 0)) >> 1;
	case DIFFERENCE:
		return a > b ? a - b : b - a;
	case LEAST:
		return ck_min(a, b);
	case MOST:
		return ck_max(a, b);
	case LEFT:
		/* of 34 bits, the highest the sign */
		return (int64_t)((uint64_t)a << b << 30) >> 30;
	case RIGHT:
		return a >> b;
	default:
		return compare_values(in->mod[CK_PTX_MOD_CMP], a, b);
	}
}

/* Types: of the destination, a, b; vset has none for the destination, which is then .u32. */
static unsigned int type_of(const struct ck_ptx_insn *in, unsigned int operand)
{
	if (in->mod[CK_PTX_MOD_CMP])
		return operand == 0 ? CK_PTX_U32 : operand == 1 ? in->type : in->type2;
	return operand == 0 ? in->type : operand == 1 ? in->type2 : in->type3;
}

static int64_t select_source(const struct ck_ptx_insn *in, unsigned int operand, uint64_t value)
{
	unsigned int select = select_of(in, operand), bits = select_bits(select);

	return extract_field(value, (select & 7) * (bits % 32), bits, type_of(in, operand));
}

/* The second operation, or the place in c that the result takes. */
static uint32_t finish_result(const struct ck_ptx_insn *in, int64_t value, uint32_t c)
{
	unsigned int select = select_of(in, 0), bits = select_bits(select);
	bool is_signed = type_of(in, 0) == CK_PTX_S32;
	uint32_t shift = (select & 7) * (bits % 32), field;
	int64_t other = is_signed ? (int64_t)(int32_t)c : (int64_t)c;

	if (in->mod[CK_PTX_MOD_SAT])
		value = clamp_value(value, bits, is_signed);
	else
		value = is_signed ? (int64_t)(int32_t)value : (int64_t)(uint32_t)value;
	switch (in->mod[CK_PTX_MOD_AOP]) {
	case CK_PTX_ADD:
		return (uint32_t)value + c;
	case CK_PTX_MIN:
		return (uint32_t)ck_min(value, other);
	case CK_PTX_MAX:
		return (uint32_t)ck_max(value, other);
	default:
		break;
	}
	if (!select)
		return (uint32_t)value;
	field = (uint32_t)((1ull << bits) - 1);
	return (c & ~(field << shift)) | ((uint32_t)value & field) << shift;
}

static uint32_t execute_scalar(const struct ck_ptx_insn *in, enum what what, uint32_t a, uint32_t b,
			       uint32_t c)
{
	int64_t y = select_source(in, 2, b);

	if (what == LEFT || what == RIGHT)
		y = in->mod[CK_PTX_MOD_WRAP] == 1 ? y & 31
						  : ck_min((int64_t)(uint64_t)y, (int64_t)32);
	return finish_result(in, apply_operation(in, what, select_source(in, 1, a), y), c);
}

static uint32_t multiply_add(const struct ck_ptx_insn *in, uint32_t a, uint32_t b, uint32_t c)
{
	unsigned int scale = in->mod[CK_PTX_MOD_SCALE], minus;
	__int128 product = (__int128)select_source(in, 1, a) * select_source(in, 2, b), more;
	bool is_signed = in->type2 == CK_PTX_S32 || in->type3 == CK_PTX_S32;

	minus = (unsigned int)((uint64_t)in->imm >> CK_PTX_SELECT_MINUS) & 7;
	if ((minus & 3) == 1 || (minus & 3) == 2) {
		product = -product;
		is_signed = true;
	}
	is_signed |= minus >> 2;
	more = is_signed ? (__int128)(int32_t)c : (__int128)c;
	product += minus >> 2 ? -more : more;
	product += scale == CK_PTX_PLUS_ONE;
	product >>= scale == CK_PTX_SHR7 ? 7 : scale == CK_PTX_SHR15 ? 15 : 0;
	if (!in->mod[CK_PTX_MOD_SAT])
		return (uint32_t)product;
	return (uint32_t)clamp_value((int64_t)product, 32, is_signed);
}

/* The digit of lane @i in a selector, or what it is without one. */
static unsigned int get_selector_digit(unsigned int select, unsigned int i, unsigned int usual)
{
	return select ? select >> (3 * i) & 7 : usual;
}

static uint32_t execute_packed(const struct ck_ptx_insn *in, const struct video *v, uint32_t a,
			       uint32_t b, uint32_t c)
{
	unsigned int bits = 32 / v->lanes, chosen = 0, mask = select_of(in, 0);
	uint64_t both = (uint64_t)b << 32 | a;
	uint32_t field = (uint32_t)((1ull << bits) - 1), sum = c, merged = 0;

	for (unsigned int i = 0; mask && i < (mask >> 12 & 7); i++)
		chosen |= 1u << get_selector_digit(mask, i, 0);
	if (!mask)
		chosen = (1u << v->lanes) - 1;
	for (unsigned int i = 0; i < v->lanes; i++) {
		unsigned int from_a = get_selector_digit(select_of(in, 1), i, i) * bits;
		unsigned int from_b = get_selector_digit(select_of(in, 2), i, v->lanes + i) * bits;
		int64_t t = apply_operation(in, v->what,
					    extract_field(both, from_a, bits, type_of(in, 1)),
					    extract_field(both, from_b, bits, type_of(in, 2)));

		if (in->mod[CK_PTX_MOD_SAT])
			t = clamp_value(t, bits, type_of(in, 0) == CK_PTX_S32);
		if (chosen >> i & 1)
			sum += (uint32_t)t;
		merged |= (chosen >> i & 1 ? (uint32_t)t & field : c >> (i * bits) & field)
			  << (i * bits);
	}
	return in->mod[CK_PTX_MOD_AOP] ? sum : merged;
}

EXECUTOR(video)
{
	const uint64_t *ra = S(0), *rb = S(1), *rc = S(2);
	struct video v = video_of(in->op);
	uint64_t *rd = D(0);

	EACH_LANE(mask, l, {
		uint32_t a = (uint32_t)ra[l];
		uint32_t b = (uint32_t)rb[l];
		uint32_t c = (uint32_t)rc[l];

		rd[l] = v.what == MAD  ? multiply_add(in, a, b, c)
			: v.lanes == 1 ? execute_scalar(in, v.what, a, b, c)
				       : execute_packed(in, &v, a, b, c);
	});
	return 0;
}

/* Whether the parts that an operand names are there; packed forms name all lanes of a source. */
static bool select_fits(unsigned int select, unsigned int lanes, bool dest)
{
	bool half = select & CK_PTX_SELECT_HALF;
	unsigned int count = select >> 12 & 7, most = lanes * (dest ? 1 : 2);

	if (!select)
		return true;
	if (lanes == 1)
		return count == 1 && (select & 7) < (half ? 2u : 4u);
	if (half != (lanes == 2) || (!dest && count != lanes))
		return false;
	for (unsigned int i = 0; i < count; i++)
		if (get_selector_digit(select, i, 0) >= most)
			return false;
	return true;
}

ck_ptx_exec ck_ptx_pick_video(struct ck_ptx_insn *in, unsigned int operands)
{
	struct video v = video_of(in->op);
	unsigned int aop = in->mod[CK_PTX_MOD_AOP];

	for (unsigned int i = 0; i < 3; i++)
		if (!select_fits(select_of(in, i), v.lanes, i == 0))
			return NULL;
	if ((v.what == SET) != !in->type3 || (v.what == SET && !in->mod[CK_PTX_MOD_CMP]) ||
	    in->type4)
		return NULL;
	if ((v.what == LEFT || v.what == RIGHT) && !in->mod[CK_PTX_MOD_WRAP])
		return NULL;
	if (aop && aop != CK_PTX_ADD && (v.lanes > 1 || (aop != CK_PTX_MIN && aop != CK_PTX_MAX)))
		return NULL;
	if (v.lanes == 1 && v.what != MAD && (operands == 4) != (aop || select_of(in, 0)))
		return NULL;
	return video;
}
