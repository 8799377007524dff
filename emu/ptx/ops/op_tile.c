/*
 * emu/ptx/ops/op_tile.c - executors of ldmatrix, stmatrix, movmatrix and of wmma's loads and
 * stores.
 */
#include "emu/ptx/ops/matrix.h"
#include "emu/ptx/ops/ops.h"

/* In a tile of 8 x 8 values of 16 bits, lane 4 r + c holds two of row r, from column 2 c on. */
static void lane_takes(uint16_t tile[8][8], bool turned, uint32_t l, uint64_t *bits)
{
	uint32_t row = l / 4, column = l % 4 * 2;

	if (turned)
		*bits = tile[column][row] | (uint32_t)tile[column + 1][row] << 16;
	else
		*bits = tile[row][column] | (uint32_t)tile[row][column + 1] << 16;
}

static void lane_gives(uint16_t tile[8][8], bool turned, uint32_t l, uint64_t bits)
{
	uint32_t row = l / 4, column = l % 4 * 2;

	*(turned ? &tile[column][row] : &tile[row][column]) = (uint16_t)bits;
	*(turned ? &tile[column + 1][row] : &tile[row][column + 1]) = (uint16_t)(bits >> 16);
}

/* The 16 bytes of a tile's row, whose address is that of one lane. */
static int tile_row(struct ck_ptx_warp *w, const struct ck_ptx_insn *in, uint32_t lane,
		    uint16_t **row)
{
	uint64_t address = S(0)[lane] + (uint64_t)in->imm;
	uint8_t *at;
	int err = ck_ptx_translate(w, lane, in->space, address, 16, &at);

	*row = err ? NULL : (uint16_t *)(void *)at;
	return err;
}

EXECUTOR(ldmatrix)
{
	const struct ck_ptx_lists *lists = &w->block->run->module->lists[in->target];
	bool turned = in->mod[CK_PTX_MOD_TRANS];
	uint16_t tiles[4][8][8];

	for (uint32_t i = 0; i < lists->count[0] * 8u; i++) {
		uint16_t *row;
		int err = tile_row(w, in, i, &row);

		if (err)
			return err;
		memcpy(tiles[i / 8][i % 8], row, 16);
	}
	for (unsigned int i = 0; i < lists->count[0]; i++) {
		uint64_t *rd = ck_ptx_row(w, lists->rows[0][i]);

		EACH_LANE(mask, l, lane_takes(tiles[i], turned, l, &rd[l]););
	}
	return 0;
}

EXECUTOR(stmatrix)
{
	const struct ck_ptx_lists *lists = &w->block->run->module->lists[in->target];
	bool turned = in->mod[CK_PTX_MOD_TRANS];
	uint16_t tile[8][8] = {{0}}; /* also where the lanes of a small block are missing */

	for (unsigned int i = 0; i < lists->count[0]; i++) {
		const uint64_t *rs = ck_ptx_row(w, lists->rows[0][i]);

		EACH_LANE(mask, l, lane_gives(tile, turned, l, rs[l]););
		for (uint32_t r = 0; r < 8; r++) {
			uint16_t *row;
			int err = tile_row(w, in, i * 8 + r, &row);

			if (err)
				return err;
			memcpy(row, tile[r], 16);
		}
	}
	return 0;
}

EXECUTOR(movmatrix)
{
	const struct ck_ptx_lists *lists = &w->block->run->module->lists[in->target];
	const uint64_t *rs = ck_ptx_row(w, lists->rows[1][0]);
	uint64_t *rd = ck_ptx_row(w, lists->rows[0][0]);
	uint16_t tile[8][8] = {{0}};

	EACH_LANE(mask, l, lane_gives(tile, false, l, rs[l]););
	EACH_LANE(mask, l, lane_takes(tile, true, l, &rd[l]););
	return 0;
}

ck_ptx_exec ck_ptx_pick_tile(struct ck_ptx_insn *in, unsigned int operands __attribute__((unused)))
{
	bool shared = in->space == CK_PTX_SHARED || in->space == CK_PTX_GENERIC;

	in->mask_at = CK_PTX_WHOLE_WARP;
	if (!in->mod[CK_PTX_MOD_ALIGNED] || in->mod[CK_PTX_MOD_SHAPE] != CK_PTX_M8N8)
		return NULL;
	if (in->op == CK_PTX_OP_MOVMATRIX)
		return in->mod[CK_PTX_MOD_TRANS] && !in->mod[CK_PTX_MOD_COUNT] ? movmatrix : NULL;
	if (!in->mod[CK_PTX_MOD_COUNT] || !shared)
		return NULL;
	return in->op == CK_PTX_OP_LDMATRIX ? ldmatrix : stmatrix;
}

static enum ck_ptx_matrix matrix_of(const struct ck_ptx_insn *in)
{
	return in->op == CK_PTX_OP_WMMA_A   ? CK_PTX_MATRIX_A
	       : in->op == CK_PTX_OP_WMMA_B ? CK_PTX_MATRIX_B
					    : CK_PTX_MATRIX_C;
}

/* Bits of an element in memory. */
static unsigned int element_bits(unsigned int type)
{
	return type == CK_PTX_F64 ? 64 : 32 / ck_ptx_per_register(type);
}

/*
 * The memory of element @at of the matrix, row by row there; *@shift: its first bit in the byte,
 * of elements smaller than one. The address and the stride are lane @l's, the same in all lanes.
 */
static int element_memory(struct ck_ptx_warp *w, const struct ck_ptx_insn *in, uint32_t l,
			  unsigned int at, uint8_t **memory, unsigned int *shift)
{
	struct ck_ptx_shape shape = ck_ptx_shape(in->mod[CK_PTX_MOD_SHAPE]);
	unsigned int bits = element_bits(in->type), rows, columns;
	bool by_row = in->mod[CK_PTX_MOD_LAYOUT] == CK_PTX_ROW;
	uint64_t stride, place;

	ck_ptx_matrix_size(&shape, matrix_of(in), &rows, &columns);
	stride = in->vec ? (uint32_t)S(1)[l] : by_row ? columns : rows;
	place = by_row ? at / columns * stride + at % columns
		       : at % columns * stride + at / columns;
	*shift = (unsigned int)(place * bits % 8);
	return ck_ptx_translate(w, l, in->space, S(0)[l] + (uint64_t)in->imm + place * bits / 8,
				ck_max(bits / 8, 1u), memory);
}

static unsigned int matrix_elements(const struct ck_ptx_insn *in)
{
	struct ck_ptx_shape shape = ck_ptx_shape(in->mod[CK_PTX_MOD_SHAPE]);
	unsigned int rows, columns;

	ck_ptx_matrix_size(&shape, matrix_of(in), &rows, &columns);
	return rows * columns;
}

/* Element @i of lane @l between its register's bits and memory. */
static int element_move(struct ck_ptx_warp *w, const struct ck_ptx_insn *in, uint32_t l,
			unsigned int count, unsigned int i, uint64_t *bits)
{
	unsigned int width = element_bits(in->type), per = ck_ptx_per_register(in->type), shift;
	int at = ck_ptx_wmma_place(matrix_elements(in), count, l, i), err;
	uint64_t field = ~0ull >> (64 - width), value = 0;
	unsigned int bytes = ck_max(width / 8, 1u), place = i % per * width;
	uint8_t *memory;

	if (at < 0)
		return 0;
	err = element_memory(w, in, l, (unsigned int)at, &memory, &shift);
	if (err)
		return err;
	memcpy(&value, memory, bytes);
	if (in->op == CK_PTX_OP_WMMA_D) {
		value = (value & ~(field << shift)) | (*bits >> place & field) << shift;
		memcpy(memory, &value, bytes);
	} else {
		*bits = (*bits & ~(field << place)) | (value >> shift & field) << place;
	}
	return 0;
}

EXECUTOR(wmma)
{
	const struct ck_ptx_lists *lists = &w->block->run->module->lists[in->target];
	unsigned int per = ck_ptx_per_register(in->type), count = lists->count[0] * per;

	EACH_LANE(mask, l, {
		for (unsigned int i = 0; i < count; i++) {
			uint64_t *row = ck_ptx_row(w, lists->rows[0][i / per]);
			int err = element_move(w, in, l, count, i, &row[l]);

			if (err)
				return err;
		}
	});
	return 0;
}

ck_ptx_exec ck_ptx_pick_wmma(struct ck_ptx_insn *in, unsigned int operands)
{
	in->mask_at = CK_PTX_WHOLE_WARP;
	in->vec = operands == 3; /* with a stride */
	if (!in->mod[CK_PTX_MOD_ALIGNED] || !in->mod[CK_PTX_MOD_LAYOUT] || !in->type ||
	    !ck_ptx_shape(in->mod[CK_PTX_MOD_SHAPE]).m || in->space == CK_PTX_CONST ||
	    in->space == CK_PTX_PARAM)
		return NULL;
	return wmma;
}
