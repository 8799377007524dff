/*
 * emu/ptx/ops/op_matrix.c - executors of mma and wmma.mma: d = a b + c by a whole warp.
 *
 * All elements are computed in double: products of the small types and sums of them are exact
 * there, or all but exact; the result is rounded once. A GPU rounds sums of halves in a way of its
 * own that PTX leaves open.
 */
#include <math.h>

#include "emu/ptx/language/half.h"
#include "emu/ptx/ops/matrix.h"
#include "emu/ptx/ops/ops.h"

struct ck_ptx_shape ck_ptx_shape(unsigned int shape)
{
	static const struct ck_ptx_shape shapes[] = {
		[CK_PTX_M8N8K4] = {8, 8, 4},	   [CK_PTX_M16N8K4] = {16, 8, 4},
		[CK_PTX_M16N8K8] = {16, 8, 8},	   [CK_PTX_M16N8K16] = {16, 8, 16},
		[CK_PTX_M16N8K32] = {16, 8, 32},   [CK_PTX_M16N8K64] = {16, 8, 64},
		[CK_PTX_M8N8K16] = {8, 8, 16},	   [CK_PTX_M8N8K32] = {8, 8, 32},
		[CK_PTX_M8N8K128] = {8, 8, 128},   [CK_PTX_M16N8K128] = {16, 8, 128},
		[CK_PTX_M16N8K256] = {16, 8, 256}, [CK_PTX_M16N16K16] = {16, 16, 16},
		[CK_PTX_M32N8K16] = {32, 8, 16},   [CK_PTX_M8N32K16] = {8, 32, 16},
		[CK_PTX_M16N16K8] = {16, 16, 8},
	};

	return shape < CK_ARRAY_SIZE(shapes) ? shapes[shape] : shapes[0];
}

void ck_ptx_matrix_size(const struct ck_ptx_shape *shape, enum ck_ptx_matrix matrix,
			unsigned int *rows, unsigned int *columns)
{
	*rows = matrix == CK_PTX_MATRIX_B ? shape->k : shape->m;
	*columns = matrix == CK_PTX_MATRIX_A ? shape->k : shape->n;
}

unsigned int ck_ptx_per_register(unsigned int type)
{
	switch (type) {
	case CK_PTX_B1:
		return 32;
	case CK_PTX_S4:
	case CK_PTX_U4:
		return 8;
	default:
		return ck_max(4 / ck_ptx_type_bytes(type), 1u);
	}
}

/* Element @e of a register as a number, and back; integers wrap. */
static double get_element(unsigned int type, uint64_t bits, unsigned int e)
{
	unsigned int width = 32 / ck_ptx_per_register(type);
	uint32_t field = (uint32_t)(bits >> (e * width)) & (uint32_t)(~0ull >> (64 - width));

	switch (type) {
	case CK_PTX_F64:
		return ck_ptx_f64(bits);
	case CK_PTX_F32:
		return (double)ck_ptx_f32(bits);
	case CK_PTX_S32:
		return (double)(int32_t)bits;
	case CK_PTX_S8:
		return (double)(int8_t)field;
	case CK_PTX_S4:
		return (double)(int)((field ^ 8) - 8);
	case CK_PTX_U8:
	case CK_PTX_U4:
	case CK_PTX_B1:
		return (double)field;
	default:
		return ck_ptx_small_to(field, type);
	}
}

static uint64_t put_element(unsigned int type, uint64_t bits, unsigned int e, double value)
{
	unsigned int width = 32 / ck_ptx_per_register(type);
	uint64_t field = ~0ull >> (64 - width);

	switch (type) {
	case CK_PTX_F64:
		return ck_ptx_u64(value);
	case CK_PTX_F32:
		return isnan(value) ? 0x7fffffff : ck_ptx_u32((float)value);
	case CK_PTX_S32:
		return (uint32_t)(int64_t)value;
	default:
		return (bits & ~(field << (e * width))) |
		       (uint64_t)ck_ptx_small_from(value, type, CK_PTX_RN, false) << (e * width);
	}
}

/* Which of four small products, row and column. */
struct place {
	unsigned int group, row, column;
};

/*
 * mma.m8n8k4 of halves is four products at once, each by 8 lanes: 4 of the lower half of the warp
 * and 4 of the upper one.
 */
static struct place quad_place(const struct ck_ptx_insn *in, enum ck_ptx_matrix matrix, uint32_t l,
			       unsigned int r, unsigned int e)
{
	unsigned int i = r * 2 + e, high = l < 16 ? 0 : 4, four = l & 3;
	struct place at = {.group = l >> 2 & 3};

	if (matrix == CK_PTX_MATRIX_A) {
		bool by_row = in->mod[CK_PTX_MOD_LAYOUT] == CK_PTX_ROW;

		at.row = high + (by_row ? four : i);
		at.column = by_row ? i : four;
	} else if (matrix == CK_PTX_MATRIX_B) {
		bool by_row = in->mod[CK_PTX_MOD_LAYOUT2] == CK_PTX_ROW;

		at.row = by_row ? four : i;
		at.column = high + (by_row ? i : four);
	} else if (in->type == CK_PTX_F16) {
		at.row = high + four;
		at.column = i;
	} else {
		at.row = high + (l & 1) + (r & 2);
		at.column = (r & 4) + (l & 2) + (r & 1);
	}
	return at;
}

/* The other shapes of mma follow one rule: lane 4 g + t has rows g and g + 8, columns from t on. */
static struct place mma_place(const struct ck_ptx_shape *shape, enum ck_ptx_matrix matrix,
			      unsigned int per, uint32_t l, unsigned int r, unsigned int e)
{
	unsigned int g = l >> 2, t = l & 3, tall = shape->m == 16;

	if (matrix == CK_PTX_MATRIX_A)
		return (struct place){0, g + (tall ? 8 * (r & 1) : 0),
				      t * per + e + (tall ? r >> 1 : r) * 4 * per};
	if (matrix == CK_PTX_MATRIX_B)
		return (struct place){0, t * per + e + r * 4 * per, g};
	if (per == 2)
		return (struct place){0, g + 8 * r, 2 * t + e};
	return (struct place){0, g + 8 * (r >> 1), 2 * t + (r & 1)};
}

static bool is_quads(const struct ck_ptx_insn *in)
{
	return in->op == CK_PTX_OP_MMA && in->mod[CK_PTX_MOD_SHAPE] == CK_PTX_M8N8K4 &&
	       in->type != CK_PTX_F64;
}

/* The number of an element, group by group and row by row; -1: there is none. */
static int element_at(const struct ck_ptx_insn *in, const struct ck_ptx_shape *shape,
		      enum ck_ptx_matrix matrix, unsigned int per, unsigned int regs, uint32_t l,
		      unsigned int r, unsigned int e)
{
	unsigned int rows, columns;
	struct place at;

	ck_ptx_matrix_size(shape, matrix, &rows, &columns);
	if (in->op == CK_PTX_OP_WMMA_MMA)
		return ck_ptx_wmma_place(rows * columns, regs * per, l, r * per + e);
	at = is_quads(in) ? quad_place(in, matrix, l, r, e)
			  : mma_place(shape, matrix, per, l, r, e);
	return (int)((at.group * rows + at.row) * columns + at.column);
}

#define MOST 4096 /* elements: 16 x 256 bits */

/* The elements of list @list of the instruction, in order. */
static void gather_elements(struct ck_ptx_warp *w, const struct ck_ptx_insn *in, unsigned int list,
			    enum ck_ptx_matrix matrix, unsigned int type, double *out)
{
	const struct ck_ptx_lists *lists = &w->block->run->module->lists[in->target];
	struct ck_ptx_shape shape = ck_ptx_shape(in->mod[CK_PTX_MOD_SHAPE]);
	unsigned int per = ck_ptx_per_register(type), regs = lists->count[list];

	for (unsigned int r = 0; r < regs; r++) {
		const uint64_t *row = ck_ptx_row(w, lists->rows[list][r]);

		for (uint32_t l = 0; l < CK_PTX_LANES; l++)
			for (unsigned int e = 0; e < per; e++) {
				int at = element_at(in, &shape, matrix, per, regs, l, r, e);

				if (at >= 0)
					out[at] = get_element(type, row[l], e);
			}
	}
}

static void scatter_elements(struct ck_ptx_warp *w, const struct ck_ptx_insn *in, uint32_t mask,
			     unsigned int type, const double *from)
{
	const struct ck_ptx_lists *lists = &w->block->run->module->lists[in->target];
	struct ck_ptx_shape shape = ck_ptx_shape(in->mod[CK_PTX_MOD_SHAPE]);
	unsigned int per = ck_ptx_per_register(type), regs = lists->count[0];

	for (unsigned int r = 0; r < regs; r++) {
		uint64_t *row = ck_ptx_row(w, lists->rows[0][r]);

		EACH_LANE(mask, l, {
			uint64_t bits = 0;

			for (unsigned int e = 0; e < per; e++) {
				int at =
					element_at(in, &shape, CK_PTX_MATRIX_C, per, regs, l, r, e);

				bits = put_element(type, bits, e, at < 0 ? 0 : from[at]);
			}
			row[l] = bits;
		});
	}
}

/* The types of d, a, b, c; wmma of halves names those of d and c only. */
static unsigned int type_at(const struct ck_ptx_insn *in, unsigned int i)
{
	bool short_form = !in->type3;

	switch (i) {
	case 0:
		return in->type;
	case 1:
		return short_form ? CK_PTX_F16 : in->type2;
	case 2:
		return short_form ? CK_PTX_F16 : in->type3;
	default:
		return short_form ? in->type2 : in->type4;
	}
}

static double compute_dot_product(const struct ck_ptx_insn *in, const struct ck_ptx_shape *shape,
				  const double *a, const double *b, double sum)
{
	for (unsigned int k = 0; k < shape->k; k++) {
		double x = a[k], y = b[k * shape->n];

		if (in->mod[CK_PTX_MOD_BITS])
			sum += in->mod[CK_PTX_MOD_AOP] == CK_PTX_XOR ? x != y : x * y;
		else
			sum = fma(x, y, sum);
	}
	return sum;
}

EXECUTOR(mma)
{
	struct ck_ptx_shape shape = ck_ptx_shape(in->mod[CK_PTX_MOD_SHAPE]);
	unsigned int groups = is_quads(in) ? 4 : 1;
	double a[MOST], b[MOST], c[MOST];

	gather_elements(w, in, 1, CK_PTX_MATRIX_A, type_at(in, 1), a);
	gather_elements(w, in, 2, CK_PTX_MATRIX_B, type_at(in, 2), b);
	gather_elements(w, in, 3, CK_PTX_MATRIX_C, type_at(in, 3), c);
	for (unsigned int i = 0; i < groups * shape.m; i++) {
		const double *left = a + i * shape.k;
		const double *right = b + i / shape.m * shape.k * shape.n;

		for (unsigned int j = 0; j < shape.n; j++) {
			double *sum = &c[i * shape.n + j];

			*sum = compute_dot_product(in, &shape, left, right + j, *sum);
			if (in->type == CK_PTX_S32 && in->mod[CK_PTX_MOD_SATFINITE])
				*sum = fmin(fmax(*sum, INT32_MIN), INT32_MAX);
		}
	}
	scatter_elements(w, in, mask, in->type, c);
	return 0;
}

static bool is_integer(unsigned int type)
{
	return type == CK_PTX_S8 || type == CK_PTX_U8 || type == CK_PTX_S4 || type == CK_PTX_U4;
}

/* Whether there is a product of these types. */
static bool types_fit(const struct ck_ptx_insn *in)
{
	unsigned int d = type_at(in, 0), a = type_at(in, 1), b = type_at(in, 2), c = type_at(in, 3);
	bool bits = a == CK_PTX_B1;

	if (in->type3 ? !in->type4 : in->op != CK_PTX_OP_WMMA_MMA)
		return false;
	if (bits != !!in->mod[CK_PTX_MOD_BITS])
		return false;
	if (in->mod[CK_PTX_MOD_SATFINITE] && !is_integer(a) && a != CK_PTX_F16)
		return false;
	if (bits || is_integer(a))
		return d == CK_PTX_S32 && c == d && (bits ? b == a : is_integer(b)) &&
		       ck_ptx_per_register(a) == ck_ptx_per_register(b);
	switch (a) {
	case CK_PTX_F16:
		return b == a && (d == CK_PTX_F16 || d == CK_PTX_F32) &&
		       (c == CK_PTX_F16 || c == CK_PTX_F32);
	case CK_PTX_BF16:
	case CK_PTX_TF32:
		return b == a && d == CK_PTX_F32 && c == d;
	case CK_PTX_E4M3:
	case CK_PTX_E5M2:
		return (b == CK_PTX_E4M3 || b == CK_PTX_E5M2) && d == CK_PTX_F32 && c == d;
	default:
		return a == CK_PTX_F64 && b == a && d == a && c == a;
	}
}

/* The lists are not in the instruction: their lengths are checked when they are parsed. */
bool ck_ptx_lists_fit(const struct ck_ptx_insn *in, const struct ck_ptx_lists *lists)
{
	static const enum ck_ptx_matrix which[] = {CK_PTX_MATRIX_C, CK_PTX_MATRIX_A,
						   CK_PTX_MATRIX_B, CK_PTX_MATRIX_C};
	struct ck_ptx_shape shape = ck_ptx_shape(in->mod[CK_PTX_MOD_SHAPE]);

	if (in->op == CK_PTX_OP_LDMATRIX || in->op == CK_PTX_OP_STMATRIX)
		return lists->count[0] == in->mod[CK_PTX_MOD_COUNT];
	if (in->op == CK_PTX_OP_MOVMATRIX)
		return lists->count[0] == 1 && lists->count[1] == 1;
	if (in->op != CK_PTX_OP_MMA && in->op != CK_PTX_OP_WMMA_MMA)
		return true;
	for (unsigned int i = 0; i < CK_ARRAY_SIZE(which); i++) {
		unsigned int have = lists->count[i] * ck_ptx_per_register(type_at(in, i));
		unsigned int rows, columns, want;

		ck_ptx_matrix_size(&shape, which[i], &rows, &columns);
		want = rows * columns * (is_quads(in) ? 4 : 1) / CK_PTX_LANES;
		/* wmma has always as many registers of halves, for small matrices too */
		if (have != want && (in->op == CK_PTX_OP_MMA || have % want))
			return false;
	}
	return true;
}

ck_ptx_exec ck_ptx_pick_mma(struct ck_ptx_insn *in, unsigned int operands __attribute__((unused)))
{
	struct ck_ptx_shape shape = ck_ptx_shape(in->mod[CK_PTX_MOD_SHAPE]);

	in->mask_at = CK_PTX_WHOLE_WARP;
	if (!shape.m || !in->mod[CK_PTX_MOD_ALIGNED] || !in->mod[CK_PTX_MOD_LAYOUT] ||
	    !in->mod[CK_PTX_MOD_LAYOUT2] || !types_fit(in))
		return NULL;
	if (in->op == CK_PTX_OP_MMA && shape.n != 8)
		return NULL;
	if (in->op == CK_PTX_OP_MMA && !is_quads(in) &&
	    (in->mod[CK_PTX_MOD_LAYOUT] != CK_PTX_ROW || in->mod[CK_PTX_MOD_LAYOUT2] != CK_PTX_COL))
		return NULL;
	return mma;
}
