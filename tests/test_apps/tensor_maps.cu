/*
 * tests/test_apps/tensor_maps.cu - descriptors of tensors: what is encoded depends on the arguments
 * and on nothing else, and what CUDA documents as wrong is refused.
 */
#include <cstring>

#include "entry.h"

struct tiled {
	cuuint32_t rank = 2;
	uintptr_t address = 0;
	cuuint64_t dims[5] = { 256, 64, 8, 4, 2 };
	cuuint64_t strides[4] = { 512, 32768, 262144, 1048576 };
	cuuint32_t box[5] = { 64, 16, 1, 1, 1 }, steps[5] = { 1, 1, 1, 1, 1 };
	CUtensorMapDataType type = CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
	CUtensorMapInterleave interleave = CU_TENSOR_MAP_INTERLEAVE_NONE;
	CUtensorMapSwizzle swizzle = CU_TENSOR_MAP_SWIZZLE_128B;
	CUtensorMapFloatOOBfill fill = CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE;
};

static uintptr_t memory;

static CUresult encode(CUtensorMap *map, const tiled &t)
{
	return CU(cuTensorMapEncodeTiled)(map, t.type, t.rank, (void *)(memory + t.address), t.dims,
					  t.strides, t.box, t.steps, t.interleave, t.swizzle,
					  CU_TENSOR_MAP_L2_PROMOTION_L2_128B, t.fill);
}

static void tiles()
{
	alignas(128) CUtensorMap first, again, moved, other;
	tiled t;

	memset(&first, 1, sizeof(first));
	memset(&again, 2, sizeof(again));
	CHECK_CU(encode(&first, t));
	CHECK_CU(encode(&again, t));
	EXPECT(memcmp(&first, &again, sizeof(first)) == 0);
	t.address = 4096;
	CHECK_CU(encode(&moved, t));
	EXPECT(memcmp(&first, &moved, sizeof(first)) != 0);
	CHECK_CU(CU(cuTensorMapReplaceAddress)(&again, (void *)(memory + 4096)));
	EXPECT(memcmp(&again, &moved, sizeof(first)) == 0);
	for (t.rank = 1; t.rank <= 5; t.rank++)
		CHECK_CU(encode(&other, t));
	EXPECT_CU(CUDA_ERROR_INVALID_VALUE,
		  CU(cuTensorMapReplaceAddress)(&again, (void *)(memory + 8)));
	printf("a map is its arguments, and its address can be replaced\n");
}

static void columns()
{
	alignas(128) CUtensorMap map, again;
	const cuuint64_t dims[] = { 64, 32, 32, 8 }, strides[] = { 128, 4096, 131072 };
	const cuuint32_t steps[] = { 1, 1, 1, 1 };
	const int lower[] = { -1, -1 }, upper[] = { 1, 1 }, far[] = { 1 << 20, 0 };
	auto im2col = [&](CUtensorMap *m, cuuint32_t rank, const int *up) {
		return CU(cuTensorMapEncodeIm2col)(
			m, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, rank, (void *)memory, dims, strides,
			lower, up, 32, 64, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
			CU_TENSOR_MAP_SWIZZLE_64B, CU_TENSOR_MAP_L2_PROMOTION_NONE,
			CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
	};

	CHECK_CU(im2col(&map, 4, upper));
	CHECK_CU(im2col(&again, 4, upper));
	EXPECT(memcmp(&map, &again, sizeof(map)) == 0);
	EXPECT_CU(CUDA_ERROR_INVALID_VALUE, im2col(&map, 2, upper));
	EXPECT_CU(CUDA_ERROR_INVALID_VALUE, im2col(&map, 4, far));
	printf("images as columns\n");
}

static int refused;

template <typename F> static void refuse(F change)
{
	alignas(128) CUtensorMap map;
	tiled t;

	change(t);
	if (encode(&map, t) == CUDA_ERROR_INVALID_VALUE)
		refused++;
	else
		fprintf(stderr, "not refused: after %d that were\n", refused);
}

static void faults()
{
	refuse([](tiled &t) { t.rank = 0; });
	refuse([](tiled &t) { t.rank = 6; });
	refuse([](tiled &t) { t.address = 8; });
	refuse([](tiled &t) { t.dims[1] = 0; });
	refuse([](tiled &t) { t.strides[0] = 520; });
	refuse([](tiled &t) { t.strides[0] = 1ull << 40; });
	refuse([](tiled &t) { t.box[1] = 0; });
	refuse([](tiled &t) { t.box[1] = 257; });
	refuse([](tiled &t) { t.box[0] = 4; });
	refuse([](tiled &t) { t.box[0] = 128; });
	refuse([](tiled &t) { t.steps[1] = 9; });
	refuse([](tiled &t) { t.interleave = CU_TENSOR_MAP_INTERLEAVE_16B; });
	refuse([](tiled &t) {
		t.type = CU_TENSOR_MAP_DATA_TYPE_INT32;
		t.box[0] = 32;
		t.fill = CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA;
	});
	EXPECT_CU(CUDA_ERROR_INVALID_VALUE, encode(NULL, tiled()));
	printf("%d of 13 wrong arguments are refused\n", refused);
}

int main()
{
	CHECK(cudaMalloc((void **)&memory, 1 << 20));
	tiles();
	columns();
	faults();
	return 0;
}
