/*
 * wcm/kernels.cu - gather, scatter and embedding, each written once for plain and chunked memory.
 *
 * tools/wcm-kernels makes kernels.ptx of it, which is committed and goes into the library, so that
 * neither building nor using it needs a compiler for CUDA. The threads of `lanes` share a row; a
 * row's address is found once where no row lies in two chunks.
 */
#include <cuda_fp16.h>

#include "wcm/rows_job.h"
#include "wcm/wcm.h"
#include "wcm/whole_chunked_memory.cuh"

typedef const WholeChunkedMemoryHandle Chunked;
typedef unsigned char Plain;

static __device__ long long index_at(const void *indices, int wide, long long i)
{
	return wide ? ((const long long *)indices)[i] : ((const int *)indices)[i];
}

/* The first row of this thread, how far to the next, and its place in a row. */
struct Walk {
	long long row, step;
	int lane;
	__device__ explicit Walk(int lanes)
	{
		long long thread = (long long)blockIdx.x * blockDim.x + threadIdx.x;

		row = thread / lanes;
		lane = (int)(thread % lanes);
		step = (long long)gridDim.x * blockDim.x / lanes;
	}
};

/* Which row of the table index number @i names; -1: none, and one thread counts it. */
static __device__ long long table_row(const ck_wcm_rows_job &job, long long i, int lane)
{
	long long index = index_at(job.indices, job.indices_wide, i);

	if (index >= 0 && index < job.rows)
		return index;
	if (lane == 0 && job.bad)
		atomicAdd(job.bad, 1ull);
	return -1;
}

/* A row of the table, as elements of T. */
template <typename H, typename T> class Row
{
      public:
	__device__ Row(const PtrGen<H, T> &table, const ck_wcm_rows_job &job, long long row)
		: table_(table), first_((size_t)row * (job.stride / sizeof(T))), whole_(job.whole),
		  start_(whole_ ? table.At(first_) : nullptr)
	{
	}
	__device__ T &operator[](size_t i) const
	{
		return whole_ ? start_[i] : *table_.At(first_ + i);
	}

      private:
	const PtrGen<H, T> &table_;
	size_t first_;
	bool whole_;
	T *start_;
};

/* --- rows as they are, in units of V */

template <typename V, typename H, bool SCATTER> static __device__ void copy_rows(ck_wcm_rows_job job)
{
	PtrGen<H, V> table((H *)job.table, job.offset / sizeof(V));
	size_t units = job.row_size / sizeof(V);

	for (Walk at(job.lanes); at.row < job.count; at.row += at.step) {
		V *data = (V *)((char *)job.data + (size_t)at.row * job.data_stride);
		long long index = table_row(job, at.row, at.lane);

		if (index < 0) {
#pragma unroll 1
			for (size_t i = at.lane; !SCATTER && i < units; i += job.lanes)
				data[i] = V();
			continue;
		}
		Row<H, V> row(table, job, index);
#pragma unroll(sizeof(V) < 4 ? 1 : 4)
		for (size_t i = at.lane; i < units; i += job.lanes) {
			if (SCATTER)
				row[i] = data[i];
			else
				data[i] = row[i];
		}
	}
}

#define COPY(width, V)                                                                             \
	extern "C" __global__ void wcm_gather_chunked_##width(ck_wcm_rows_job job)                 \
	{                                                                                          \
		copy_rows<V, Chunked, false>(job);                                                 \
	}                                                                                          \
	extern "C" __global__ void wcm_gather_plain_##width(ck_wcm_rows_job job)                   \
	{                                                                                          \
		copy_rows<V, Plain, false>(job);                                                   \
	}                                                                                          \
	extern "C" __global__ void wcm_scatter_chunked_##width(ck_wcm_rows_job job)                \
	{                                                                                          \
		copy_rows<V, Chunked, true>(job);                                                  \
	}                                                                                          \
	extern "C" __global__ void wcm_scatter_plain_##width(ck_wcm_rows_job job)                  \
	{                                                                                          \
		copy_rows<V, Plain, true>(job);                                                    \
	}
COPY(1, unsigned char)
COPY(2, unsigned short)
COPY(4, unsigned int)
COPY(8, unsigned long long)
COPY(16, uint4)

/* --- float types, by way of float or double */

/* bfloat16 is the upper half of a float; rounded to nearest even, a NaN stays one. */
static __device__ unsigned short to_bfloat16(float value)
{
	unsigned int bits = __float_as_uint(value);

	if ((bits & 0x7fffffffu) > 0x7f800000u)
		return (unsigned short)(bits >> 16 | 0x40u);
	return (unsigned short)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

template <typename A> static __device__ A as_number(unsigned short bits, int type)
{
	if (type == WCM_HALF)
		return (A)__half2float(__ushort_as_half(bits));
	return (A)__uint_as_float((unsigned int)bits << 16);
}

static __device__ unsigned short as_bits(float value, int type)
{
	return type == WCM_HALF ? __half_as_ushort(__float2half_rn(value)) : to_bfloat16(value);
}

/* N elements of any float type at one address, which is aligned for all of them. */
template <int N> struct alignas(2 * N) Shorts {
	unsigned short at[N];
};
template <int N> struct alignas(4 * N) Floats {
	float at[N];
};
template <int N> struct alignas(N > 1 ? 16 : 8) Doubles {
	double at[N];
};

template <typename A, int N> static __device__ void load(A *out, const void *from, int type)
{
	if (type == WCM_FLOAT) {
		Floats<N> f = *(const Floats<N> *)from;
		for (int i = 0; i < N; i++)
			out[i] = (A)f.at[i];
	} else if (type == WCM_DOUBLE) {
		Doubles<N> d = *(const Doubles<N> *)from;
		for (int i = 0; i < N; i++)
			out[i] = (A)d.at[i];
	} else {
		Shorts<N> s = *(const Shorts<N> *)from;
		for (int i = 0; i < N; i++)
			out[i] = as_number<A>(s.at[i], type);
	}
}

template <typename A, int N> static __device__ void store(void *to, const A *in, int type)
{
	if (type == WCM_FLOAT) {
		Floats<N> f;
		for (int i = 0; i < N; i++)
			f.at[i] = (float)in[i];
		*(Floats<N> *)to = f;
	} else if (type == WCM_DOUBLE) {
		Doubles<N> d;
		for (int i = 0; i < N; i++)
			d.at[i] = (double)in[i];
		*(Doubles<N> *)to = d;
	} else {
		Shorts<N> s;
		for (int i = 0; i < N; i++)
			s.at[i] = as_bits((float)in[i], type);
		*(Shorts<N> *)to = s;
	}
}

static __device__ unsigned int size_of(int type)
{
	return type == WCM_DOUBLE ? 8 : type == WCM_FLOAT ? 4 : 2;
}

/* Where element @column of a row is, found once for the row where that is right. */
template <typename H> class Place
{
      public:
	__device__ Place(const ck_wcm_rows_job &job, long long row)
		: table_((H *)job.table, job.offset), first_((size_t)row * job.stride),
		  size_(size_of(job.type)), start_(job.whole ? table_.At(first_) : nullptr)
	{
	}
	__device__ char *operator()(long long column) const
	{
		size_t byte = (size_t)column * size_;

		return start_ ? start_ + byte : table_.At(first_ + byte);
	}

      private:
	PtrGen<H, char> table_;
	size_t first_;
	unsigned int size_;
	char *start_;
};

template <int N, typename H, bool SCATTER>
static __device__ void convert_row(const ck_wcm_rows_job &job, long long i, long long index, int lane)
{
	char *data = (char *)job.data + (size_t)i * job.data_stride;
	Place<H> place(job, index < 0 ? 0 : index);
	unsigned int size = size_of(job.data_type);
	float value[N] = {};

#pragma unroll 1
	for (long long c = (long long)lane * N; c < job.columns; c += (long long)job.lanes * N) {
		if (SCATTER) {
			load<float, N>(value, data + c * size, job.data_type);
			store<float, N>(place(c), value, job.type);
			continue;
		}
		if (index >= 0)
			load<float, N>(value, place(c), job.type);
		store<float, N>(data + c * size, value, job.data_type);
	}
}

template <typename H, bool SCATTER> static __device__ void convert_rows(ck_wcm_rows_job job)
{
	for (Walk at(job.lanes); at.row < job.count; at.row += at.step) {
		long long index = table_row(job, at.row, at.lane);

		if (index < 0 && SCATTER)
			continue;
		if (job.vector == 4)
			convert_row<4, H, SCATTER>(job, at.row, index, at.lane);
		else
			convert_row<1, H, SCATTER>(job, at.row, index, at.lane);
	}
}

extern "C" __global__ void wcm_gather_chunked_convert(ck_wcm_rows_job job)
{
	convert_rows<Chunked, false>(job);
}
extern "C" __global__ void wcm_gather_plain_convert(ck_wcm_rows_job job)
{
	convert_rows<Plain, false>(job);
}
extern "C" __global__ void wcm_scatter_chunked_convert(ck_wcm_rows_job job)
{
	convert_rows<Chunked, true>(job);
}
extern "C" __global__ void wcm_scatter_plain_convert(ck_wcm_rows_job job)
{
	convert_rows<Plain, true>(job);
}

/* --- embeddings: a row of the output is a bag of rows of the table */

/* Where bag @b begins, kept inside of the indices. */
static __device__ long long bag_at(const ck_wcm_rows_job &job, long long b)
{
	long long at = b < job.bag_count ? index_at(job.bags, job.bags_wide, b) : job.count;

	return at < 0 ? 0 : at > job.count ? job.count : at;
}

template <typename A, int N, typename H>
static __device__ void sum_bag(const ck_wcm_rows_job &job, long long b, int lane)
{
	long long first = bag_at(job, b), end = bag_at(job, b + 1);
	char *data = (char *)job.data + (size_t)b * job.data_stride;
	long long used = 0;

	for (long long c = (long long)lane * N; c < job.columns; c += (long long)job.lanes * N) {
		A sum[N] = {}, value[N];

		used = 0;
#pragma unroll 1
		for (long long i = first; i < end; i++) {
			/* counted by the thread that has column 0 */
			long long index = table_row(job, i, c == 0 ? 0 : 1);

			if (index < 0)
				continue;
			load<A, N>(value, Place<H>(job, index)(c), job.type);
			for (int k = 0; k < N; k++)
				sum[k] += value[k];
			used++;
		}
		for (int k = 0; k < N && job.mean && used; k++)
			sum[k] /= (A)used;
		store<A, N>(data + c * size_of(job.data_type), sum, job.data_type);
	}
}

template <typename A, typename H> static __device__ void sum_bags(ck_wcm_rows_job job)
{
	for (Walk at(job.lanes); at.row < job.bag_count; at.row += at.step) {
		if (job.vector == 4)
			sum_bag<A, 4, H>(job, at.row, at.lane);
		else
			sum_bag<A, 1, H>(job, at.row, at.lane);
	}
}

extern "C" __global__ void wcm_embed_chunked_float(ck_wcm_rows_job job)
{
	sum_bags<float, Chunked>(job);
}
extern "C" __global__ void wcm_embed_plain_float(ck_wcm_rows_job job)
{
	sum_bags<float, Plain>(job);
}
extern "C" __global__ void wcm_embed_chunked_double(ck_wcm_rows_job job)
{
	sum_bags<double, Chunked>(job);
}
extern "C" __global__ void wcm_embed_plain_double(ck_wcm_rows_job job)
{
	sum_bags<double, Plain>(job);
}
