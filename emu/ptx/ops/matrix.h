/*
 * emu/ptx/ops/matrix.h - the shapes of matrix instructions and where their elements are.
 */
#ifndef CK_EMU_PTX_OPS_MATRIX_H
#define CK_EMU_PTX_OPS_MATRIX_H

#include "emu/ptx/memory/exec.h"

struct ck_ptx_shape {
	unsigned int m, n, k;
};

enum ck_ptx_matrix { CK_PTX_MATRIX_A, CK_PTX_MATRIX_B, CK_PTX_MATRIX_C };

/* Of a CK_PTX_M... value; all 0 if it is none of a product. */
struct ck_ptx_shape ck_ptx_shape(unsigned int shape);

/* Rows and columns of one of the three matrices. */
void ck_ptx_matrix_size(const struct ck_ptx_shape *shape, enum ck_ptx_matrix matrix,
			unsigned int *rows, unsigned int *columns);

/* Elements of @type in a register of theirs: 1 to 32. */
unsigned int ck_ptx_per_register(unsigned int type);

/*
 * Where wmma keeps the elements of a matrix of @size elements, @count to a lane: the number of
 * lane @l's element @i, row by row; or -1, when there are more places than elements.
 */
static inline int ck_ptx_wmma_place(unsigned int size, unsigned int count, uint32_t l,
				    unsigned int i)
{
	unsigned int at = l * count + i;

	return at < size ? (int)at : -1;
}

#endif
