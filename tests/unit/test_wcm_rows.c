/*
 * tests/unit/test_wcm_rows.c - gather, scatter and embedding on chunked and on plain memory,
 * compared with what the CPU makes of the same tables.
 */
#include <math.h>

#include "tests/unit/wcm_world.h"

#include "emu/core/emu_api.h"

/* --- the CPU's side: elements of all types, as doubles */

static float half_value(uint16_t bits)
{
	int exponent = bits >> 10 & 31, mantissa = bits & 1023;
	float value = exponent ? ldexpf((float)(mantissa | 1024), exponent - 25)
			       : ldexpf((float)mantissa, -24);

	return bits >> 15 ? -value : value;
}

static double value_at(const unsigned char *at, int type)
{
	union {
		int8_t b;
		int16_t s;
		int32_t i;
		int64_t l;
		float f;
		double d;
		uint16_t h;
		uint32_t u;
	} v;

	memcpy(&v, at, wcm_type_size(type));
	switch (type) {
	case WCM_INT8:
		return v.b;
	case WCM_INT16:
		return v.s;
	case WCM_INT32:
		return v.i;
	case WCM_INT64:
		return (double)v.l;
	case WCM_HALF:
		return half_value(v.h);
	case WCM_BFLOAT16:
		v.u = (uint32_t)v.h << 16;
		return v.f;
	case WCM_FLOAT:
		return v.f;
	default:
		return v.d;
	}
}

/* A small number that every type can hold: -60 to 60. */
static int number_of(int64_t row, int64_t column)
{
	return (int)((row * 7 + column * 3 + row * column) % 121) - 60;
}

static void set(unsigned char *at, int type, int number)
{
	int16_t s = (int16_t)number;
	int64_t l = number;
	double d = number;
	float f = (float)number;
	uint32_t bits;
	uint16_t h = 0;
	int exponent;

	switch (type) {
	case WCM_INT8:
		*at = (unsigned char)number;
		break;
	case WCM_INT16:
		memcpy(at, &s, 2);
		break;
	case WCM_INT32:
		memcpy(at, &number, 4);
		break;
	case WCM_INT64:
		memcpy(at, &l, 8);
		break;
	case WCM_HALF:
		if (number) {
			float m = frexpf(fabsf(f), &exponent); /* 0.5 to 1 */
			h = (uint16_t)((exponent + 14) << 10 | ((int)(m * 2048) & 1023));
		}
		h |= number < 0 ? 0x8000 : 0;
		memcpy(at, &h, 2);
		break;
	case WCM_BFLOAT16:
		memcpy(&bits, &f, 4);
		h = (uint16_t)(bits >> 16);
		memcpy(at, &h, 2);
		break;
	case WCM_FLOAT:
		memcpy(at, &f, 4);
		break;
	default:
		memcpy(at, &d, 8);
	}
}

/* --- a case: a table, rows asked for, an output */

struct table_case {
	int type, out_type;
	int64_t rows, columns, stride, offset, out_stride;
	size_t granularity; /* as it is; 0: of a row */
	int index_type;
};

static const struct table_case cases[] = {
	/* rows as they are: each width, strides, offsets; rows that lie in two chunks */
	{WCM_FLOAT, WCM_FLOAT, 100, 32, 0, 0, 0, 0, WCM_INT64},
	{WCM_FLOAT, WCM_FLOAT, 100, 33, 0, 0, 0, 0, WCM_INT32},
	{WCM_FLOAT, WCM_FLOAT, 64, 30, 32, 1, 31, 0, WCM_INT64},
	{WCM_FLOAT, WCM_FLOAT, 97, 100, 0, 0, 0, 16, WCM_INT64},
	{WCM_INT8, WCM_INT8, 90, 5, 7, 3, 6, 1, WCM_INT32},
	{WCM_INT8, WCM_INT8, 50, 256, 0, 0, 0, 0, WCM_INT64},
	{WCM_INT16, WCM_INT16, 61, 3, 0, 0, 0, 2, WCM_INT64},
	{WCM_INT32, WCM_INT32, 61, 1, 0, 0, 0, 0, WCM_INT32},
	{WCM_INT64, WCM_INT64, 40, 3, 0, 0, 0, 24, WCM_INT64},
	{WCM_DOUBLE, WCM_DOUBLE, 33, 600, 0, 0, 0, 0, WCM_INT64},
	{WCM_HALF, WCM_HALF, 33, 6, 8, 0, 0, 0, WCM_INT64},
	/* conversions */
	{WCM_HALF, WCM_FLOAT, 50, 32, 0, 0, 0, 0, WCM_INT64},
	{WCM_FLOAT, WCM_HALF, 50, 31, 32, 0, 0, 0, WCM_INT32},
	{WCM_FLOAT, WCM_BFLOAT16, 50, 64, 0, 0, 0, 0, WCM_INT64},
	{WCM_BFLOAT16, WCM_DOUBLE, 50, 20, 0, 4, 24, 8, WCM_INT64},
	{WCM_DOUBLE, WCM_HALF, 40, 12, 0, 0, 0, 16, WCM_INT64},
	{WCM_HALF, WCM_BFLOAT16, 33, 7, 0, 0, 9, 2, WCM_INT32},
};

struct made {
	wcm_table table, plain;
	int64_t stride;	      /* of the table, in elements */
	unsigned char *bytes; /* what the table holds */
	size_t size;
	CUdeviceptr plain_memory;
};

static size_t table_size(const struct table_case *c, int64_t stride)
{
	return (size_t)(c->offset + c->rows * stride) * wcm_type_size(c->type);
}

/* The table, filled by rank 0, as chunked memory and as plain memory of this rank. */
static struct made make(struct world *w, const struct table_case *c)
{
	size_t element = wcm_type_size(c->type);
	struct made t = {.stride = c->stride ? c->stride : c->columns};
	wcm_t m;

	t.size = table_size(c, t.stride);
	t.bytes = calloc(1, t.size);
	expect(t.bytes);
	for (int64_t r = 0; r < c->rows; r++) {
		for (int64_t k = 0; k < c->columns; k++)
			set(t.bytes + (size_t)(c->offset + r * t.stride + k) * element, c->type,
			    number_of(r, k));
	}
	if (c->granularity)
		expect_ok(wcm_malloc_exact(w->group, t.size, c->granularity, NULL, 0, &m));
	else
		expect_ok(wcm_malloc(w->group, t.size, (size_t)t.stride * element, NULL, 0, &m));
	if (w->rank == 0)
		expect_ok(wcm_copy_to(m, 0, t.bytes, t.size, NULL));
	expect(cuMemAlloc_v2(&t.plain_memory, t.size) == 0);
	expect(cuMemcpyHtoD_v2(t.plain_memory, t.bytes, t.size) == 0);
	t.table = (wcm_table){.chunked = m,
			      .type = c->type,
			      .rows = c->rows,
			      .columns = c->columns,
			      .stride = c->stride,
			      .offset = c->offset};
	t.plain = t.table;
	t.plain.chunked = NULL;
	t.plain.plain = (void *)(uintptr_t)t.plain_memory;
	expect(cuStreamSynchronize(NULL) == 0);
	expect_ok(wcm_barrier(w->group));
	return t;
}

static void unmake(struct world *w, struct made *t)
{
	expect_ok(wcm_free(t->table.chunked));
	expect(cuMemFree_v2(t->plain_memory) == 0);
	free(t->bytes);
}

/* Numbers of rows in device memory. */
static CUdeviceptr numbers(struct world *w, const int64_t *values, int64_t count, int type)
{
	size_t size = (size_t)count * wcm_type_size(type);
	unsigned char bytes[1024 * 8];
	CUdeviceptr memory;

	expect(size <= sizeof(bytes));
	for (int64_t i = 0; i < count; i++) {
		int32_t narrow = (int32_t)values[i];

		if (type == WCM_INT64)
			memcpy(bytes + i * 8, &values[i], 8);
		else
			memcpy(bytes + i * 4, &narrow, 4);
	}
	expect(cuMemAlloc_v2(&memory, size ? size : 1) == 0);
	expect(cuMemcpyHtoD_v2(memory, bytes, size) == 0);
	return memory;
}

#define ROWS 150

/* --- gather */

static void check_gather(struct world *w, const struct table_case *c, const wcm_table *table)
{
	int64_t wanted[ROWS], stride = c->out_stride ? c->out_stride : c->columns;
	size_t element = wcm_type_size(c->out_type), size = (size_t)(ROWS * stride) * element;
	unsigned char *out = malloc(size);
	CUdeviceptr indices, memory;
	wcm_indices by;
	wcm_rows to;

	for (int64_t i = 0; i < ROWS; i++)
		wanted[i] = (i * 37 + w->rank) % c->rows;
	wanted[7] = c->rows; /* no such row */
	wanted[8] = -1;
	indices = numbers(w, wanted, ROWS, c->index_type);
	expect(out && cuMemAlloc_v2(&memory, size) == 0);
	expect(cuMemsetD8_v2(memory, 0x11, size) == 0);
	by = (wcm_indices){(void *)(uintptr_t)indices, c->index_type, ROWS};
	to = (wcm_rows){(void *)(uintptr_t)memory, c->out_type, c->out_stride};
	expect_ok(wcm_gather(table, &by, &to, NULL));
	expect(cuMemcpyDtoH_v2(out, memory, size) == 0);
	for (int64_t i = 0; i < ROWS; i++) {
		for (int64_t k = 0; k < stride; k++) {
			unsigned char *at = out + (size_t)(i * stride + k) * element;
			double should = i == 7 || i == 8 ? 0 : number_of(wanted[i], k);

			if (k < c->columns)
				expect(value_at(at, c->out_type) == should);
			else
				expect(*at == 0x11); /* what is between rows stays */
		}
	}
	expect(cuMemFree_v2(indices) == 0 && cuMemFree_v2(memory) == 0);
	free(out);
}

static void enter(struct world *w)
{
	CUcontext context;

	world_join(w);
	expect(cuDevicePrimaryCtxRetain(&context, wcm_device(w->group)) == 0);
	expect(cuCtxSetCurrent(context) == 0);
}

static void role_gather(struct world *w)
{
	wcm_info info;

	enter(w);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct made t = make(w, &cases[i]);

		check_gather(w, &cases[i], &t.table);
		check_gather(w, &cases[i], &t.plain);
		expect_ok(wcm_stat(t.table.chunked, &info));
		expect(info.bad_indices == 2);
		unmake(w, &t);
	}
	expect_ok(wcm_finalize(w->group));
}

static void rows_that_are_gathered_are_the_tables(void **state)
{
	(void)state;
	world_run(PROCESSES, 3, WCM_IPC, role_gather);
	world_run(THREADS, 3, WCM_VMM, role_gather);
}

/* --- scatter */

/* The rank's own rows: those whose number it divides with the remainder of its rank. */
static void scatter_own(struct world *w, const struct table_case *c, const wcm_table *table,
			int plus)
{
	int64_t wanted[ROWS], stride = c->out_stride ? c->out_stride : c->columns, count = 0;
	size_t element = wcm_type_size(c->out_type);
	unsigned char *rows = calloc((size_t)(c->rows * stride), element);
	CUdeviceptr indices, memory;
	wcm_indices by;
	wcm_rows from;

	expect(rows && c->rows <= ROWS);
	for (int64_t r = w->rank; r < c->rows; r += w->size, count++) {
		wanted[count] = r;
		for (int64_t k = 0; k < c->columns; k++)
			set(rows + (size_t)(count * stride + k) * element, c->out_type,
			    number_of(r + plus, k));
	}
	wanted[count++] = c->rows + 1000; /* not written anywhere */
	indices = numbers(w, wanted, count, c->index_type);
	expect(cuMemAlloc_v2(&memory, (size_t)(c->rows * stride) * element) == 0);
	expect(cuMemcpyHtoD_v2(memory, rows, (size_t)(c->rows * stride) * element) == 0);
	by = (wcm_indices){(void *)(uintptr_t)indices, c->index_type, count};
	from = (wcm_rows){(void *)(uintptr_t)memory, c->out_type, c->out_stride};
	expect_ok(wcm_scatter(table, &by, &from, NULL));
	expect(cuStreamSynchronize(NULL) == 0);
	expect(cuMemFree_v2(indices) == 0 && cuMemFree_v2(memory) == 0);
	free(rows);
}

static void role_scatter(struct world *w)
{
	enter(w);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct table_case *c = &cases[i];
		size_t element = wcm_type_size(c->type);
		struct made t = make(w, c);

		scatter_own(w, c, &t.table, 5);
		scatter_own(w, c, &t.plain, 5);
		expect_ok(wcm_barrier(w->group));
		memset(t.bytes, 0, t.size);
		expect_ok(wcm_copy_from(t.bytes, t.table.chunked, 0, t.size, NULL));
		expect(cuStreamSynchronize(NULL) == 0);
		for (int64_t r = 0; r < c->rows; r++) {
			for (int64_t k = 0; k < c->columns; k++)
				expect(value_at(t.bytes + (size_t)(c->offset + r * t.stride + k) *
								  element,
						c->type) == number_of(r + 5, k));
		}
		expect(cuMemcpyDtoH_v2(t.bytes, t.plain_memory, t.size) == 0);
		for (int64_t r = 0; r < c->rows; r++)
			expect(value_at(t.bytes + (size_t)(c->offset + r * t.stride) * element,
					c->type) ==
			       number_of(r % w->size == w->rank ? r + 5 : r, 0));
		expect_ok(wcm_barrier(w->group));
		unmake(w, &t);
	}
	expect_ok(wcm_finalize(w->group));
}

static void rows_that_are_scattered_are_in_the_table(void **state)
{
	(void)state;
	world_run(PROCESSES, 3, WCM_VMM, role_scatter);
	world_run(THREADS, 2, WCM_IPC, role_scatter);
}

/* --- embedding */

static void check_embedding(struct world *w, const struct table_case *c, const wcm_table *table,
			    int mode)
{
	static const int64_t begins[] = {0, 3, 3, 10, 40}; /* the second is empty */
	enum { BAGS = 5, COUNT = 60 };
	int64_t wanted[COUNT];
	size_t element = wcm_type_size(c->out_type), size = (size_t)(BAGS * c->columns) * element;
	unsigned char *out = malloc(size);
	CUdeviceptr indices, bags, memory;
	wcm_indices by, in;
	wcm_rows to;

	for (int64_t i = 0; i < COUNT; i++)
		wanted[i] = (i * 5) % c->rows;
	wanted[4] = -7;
	indices = numbers(w, wanted, COUNT, c->index_type);
	bags = numbers(w, begins, BAGS, WCM_INT64);
	expect(out && cuMemAlloc_v2(&memory, size) == 0);
	by = (wcm_indices){(void *)(uintptr_t)indices, c->index_type, COUNT};
	in = (wcm_indices){(void *)(uintptr_t)bags, WCM_INT64, BAGS};
	to = (wcm_rows){(void *)(uintptr_t)memory, c->out_type, 0};
	expect_ok(wcm_embedding(table, &by, &in, mode, &to, NULL));
	expect(cuMemcpyDtoH_v2(out, memory, size) == 0);
	for (int b = 0; b < BAGS; b++) {
		int64_t end = b + 1 < BAGS ? begins[b + 1] : COUNT;

		for (int64_t k = 0; k < c->columns; k++) {
			double sum = 0, used = 0, got;

			for (int64_t i = begins[b]; i < end; i++) {
				sum += i == 4 ? 0 : number_of(wanted[i], k);
				used += i != 4;
			}
			if (mode == WCM_MEAN && used > 0)
				sum /= used;
			got = value_at(out + (size_t)(b * c->columns + k) * element, c->out_type);
			expect(fabs(got - sum) <= fabs(sum) / 100);
		}
	}
	expect(cuMemFree_v2(indices) == 0 && cuMemFree_v2(bags) == 0 && cuMemFree_v2(memory) == 0);
	free(out);
}

static void role_embedding(struct world *w)
{
	enter(w);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct made t;

		if (cases[i].type < WCM_HALF)
			continue;
		t = make(w, &cases[i]);
		check_embedding(w, &cases[i], &t.table, WCM_SUM);
		check_embedding(w, &cases[i], &t.table, WCM_MEAN);
		check_embedding(w, &cases[i], &t.plain, WCM_MEAN);
		unmake(w, &t);
	}
	expect_ok(wcm_finalize(w->group));
}

static void embeddings_are_sums_and_means(void **state)
{
	(void)state;
	world_run(PROCESSES, 3, WCM_IPC, role_embedding);
}

/* --- arguments */

static void role_wrong(struct world *w)
{
	struct table_case c = {WCM_FLOAT, WCM_FLOAT, 10, 8, 0, 0, 0, 256, WCM_INT64};
	struct made t;
	wcm_table bad;
	wcm_indices by = {(void *)16, WCM_INT64, 4}, none = {NULL, WCM_INT64, 0}, bad_by;
	wcm_rows to = {(void *)256, WCM_FLOAT, 0}, bad_to;
	wcm_info info;
	wcm_t odd;

	enter(w);
	t = make(w, &c);
#define REFUSED(what, field, value)                                                                \
	bad = t.table, bad_by = by, bad_to = to;                                                   \
	what.field = value;                                                                        \
	expect_status(wcm_gather(&bad, &bad_by, &bad_to, NULL), WCM_EINVAL);                       \
	expect_status(wcm_scatter(&bad, &bad_by, &bad_to, NULL), WCM_EINVAL);                      \
	expect_status(wcm_embedding(&bad, &bad_by, &by, WCM_SUM, &bad_to, NULL), WCM_EINVAL)
	REFUSED(bad, rows, -1);
	REFUSED(bad, rows, 1000); /* more than there is */
	REFUSED(bad, rows, INT64_MAX);
	REFUSED(bad, columns, 0);
	REFUSED(bad, stride, 7);
	REFUSED(bad, stride, INT64_MAX);
	REFUSED(bad, offset, -1);
	REFUSED(bad, offset, 1 << 20);
	REFUSED(bad, type, WCM_TYPES);
	REFUSED(bad, type, -1);
	REFUSED(bad, type, WCM_INT32); /* into floats */
	REFUSED(bad, chunked, (wcm_t)&c);
	REFUSED(bad, chunked, NULL); /* and no plain memory either */
	REFUSED(bad_by, data, NULL);
	REFUSED(bad_by, count, -1);
	REFUSED(bad_by, type, WCM_FLOAT);
	REFUSED(bad_to, data, NULL);
	REFUSED(bad_to, stride, 5);
	REFUSED(bad_to, type, WCM_INT64);
	expect_status(wcm_gather(NULL, &by, &to, NULL), WCM_EINVAL);
	expect_status(wcm_gather(&t.table, NULL, &to, NULL), WCM_EINVAL);
	expect_status(wcm_gather(&t.table, &by, NULL, NULL), WCM_EINVAL);
	expect_status(wcm_embedding(&t.table, &by, &by, 2, &to, NULL), WCM_EINVAL);
	expect_ok(wcm_gather(&t.table, &none, &to, NULL)); /* of nothing */
	expect_ok(wcm_stat(t.table.chunked, &info));
	expect(info.bad_indices == 0);
	/* elements that lie in two chunks can be copied, but not converted */
	expect_ok(wcm_malloc_exact(w->group, 1000, 3, NULL, 0, &odd));
	bad = (wcm_table){.chunked = odd, .type = WCM_FLOAT, .rows = 10, .columns = 8};
	bad_to = to;
	bad_to.type = WCM_HALF;
	expect_status(wcm_gather(&bad, &by, &bad_to, NULL), WCM_EINVAL);
	expect_ok(wcm_free(odd));
	unmake(w, &t);
	expect_ok(wcm_finalize(w->group));
}

static void tables_that_make_no_sense_are_refused(void **state)
{
	(void)state;
	world_run(PROCESSES, 2, WCM_AUTO, role_wrong);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_that_are_gathered_are_the_tables),
		cmocka_unit_test(rows_that_are_scattered_are_in_the_table),
		cmocka_unit_test(embeddings_are_sums_and_means),
		cmocka_unit_test(tables_that_make_no_sense_are_refused),
	};

	return cmocka_run_group_tests(tests, world_setup, NULL);
}
