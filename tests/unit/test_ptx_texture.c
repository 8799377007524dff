/*
 * tests/unit/test_ptx_texture.c - texture and surface instructions: each filter and address mode
 * against what the CUDA C++ Programming Guide says, computed here.
 */
#include "ptx_world.h"

#include <math.h>

#define OBJECT 42
#define LANES 32
#define HEIGHT 4
#define WIDTH 8

static struct ck_ptx_texture texture;
static float texels[2][HEIGHT][WIDTH] __attribute__((aligned(64)));

static const struct ck_ptx_texture *find(void *opaque, uint64_t object, bool surface)
{
	(void)opaque;
	(void)surface;
	return object == OBJECT ? &texture : NULL;
}

/* Two layers, or slices, of 8 by 4 floats. */
static void texture_init(void)
{
	for (int z = 0; z < 2; z++)
		for (int y = 0; y < HEIGHT; y++)
			for (int x = 0; x < WIDTH; x++)
				texels[z][y][x] = (float)(100 * z + 10 * y * y + x * x);
	texture = (struct ck_ptx_texture){
		.format = CU_AD_FORMAT_FLOAT,
		.channels = 1,
		.texel = 4,
		.level_count = 1,
		.address = {CU_TR_ADDRESS_MODE_CLAMP, CU_TR_ADDRESS_MODE_CLAMP,
			    CU_TR_ADDRESS_MODE_CLAMP},
		.max_level = 20,
	};
	texture.levels[0] = (struct ck_ptx_image){.base = (uint64_t)(uintptr_t)texels,
						  .pitch = sizeof(texels[0][0]),
						  .slice = sizeof(texels[0]),
						  .size = {WIDTH, HEIGHT, 2}};
}

/* What a lane looks at: three floats in front of its results. */
struct lane {
	float at[3];
	int32_t layer;
	uint32_t out[4];
};

static struct lane *lanes(void)
{
	return (struct lane *)(void *)output();
}

static struct ck_ptx_module *kernel(const char *insn)
{
	char text[2000];

	snprintf(text, sizeof(text), "%s%s%s",
		 HEAD KERNEL "mad.wide.u32 %at, %t, 32, %out;\nmov.u64 %d0, 42;\n"
			     "ld.global.v2.f32 {%f0, %f1}, [%at];\nld.global.f32 %f2, [%at+8];\n"
			     "ld.global.u32 %r0, [%at+12];\n",
		 insn, "\nst.global.v4.b32 [%at+16], {%r4, %r5, %r6, %r7};\n" END);
	return module_of(text);
}

static CUresult go(struct ck_ptx_module *module)
{
	struct ck_ptx_grid grid = {{1, 1, 1}, {LANES, 1, 1}, 0, false, {0}};
	uint64_t params[4] = {(uint64_t)(uintptr_t)output()};
	struct ck_ptx_host host = world_host;
	CUresult result;

	host.texture = find;
	result = ck_ptx_run(ck_ptx_kernel_find(module, "k"), &grid, params, &host);
	ck_ptx_destroy(module);
	return result;
}

static float result_at(int lane)
{
	float value;

	memcpy(&value, &lanes()[lane].out[0], sizeof(value));
	return value;
}

#define TEX_1D "tex.1d.v4.f32.f32 {%f4, %f5, %f6, %f7}, [%d0, {%f0}];\nmov.b32 %r4, %f4;"
#define TEX_2D "tex.2d.v4.f32.f32 {%f4, %f5, %f6, %f7}, [%d0, {%f0, %f1}];\nmov.b32 %r4, %f4;"

static int clamped(int i, int n)
{
	return i < 0 ? 0 : i >= n ? n - 1 : i;
}

/* Lanes look along x, from -1.25 on in steps of 0.375, at y = 1.5. */
static struct ck_ptx_module *along_x(const char *insn)
{
	struct ck_ptx_module *module = kernel(insn);

	for (int i = 0; i < LANES; i++) {
		lanes()[i].at[0] = -1.25f + 0.375f * (float)i;
		lanes()[i].at[1] = 1.5f;
		lanes()[i].at[2] = 0.5f;
	}
	return module;
}

static void a_point_filter_takes_the_texel_that_holds_the_place(void **state)
{
	(void)state;
	texture_init();
	assert_int_equal(go(along_x(TEX_2D)), CUDA_SUCCESS);
	for (int i = 0; i < LANES; i++) {
		int x = (int)floorf(-1.25f + 0.375f * (float)i);

		assert_float_equal(result_at(i), texels[0][1][clamped(x, WIDTH)], 0);
	}
}

static void a_linear_filter_mixes_in_steps_of_a_256th(void **state)
{
	struct ck_ptx_module *module;

	(void)state;
	texture_init();
	texture.filter = CU_TR_FILTER_MODE_LINEAR;
	module = along_x(TEX_2D);
	for (int i = 0; i < LANES; i++)
		lanes()[i].at[0] = 2.0f + 0.03f * (float)i;
	assert_int_equal(go(module), CUDA_SUCCESS);
	for (int i = 0; i < LANES; i++) {
		float x = 2.0f + 0.03f * (float)i - 0.5f, low = floorf(x);
		float a = rintf((x - low) * 256) / 256;
		const float *row = texels[0][1];

		assert_float_equal(result_at(i), (1 - a) * row[(int)low] + a * row[(int)low + 1],
				   1e-4);
	}
}

static void a_linear_filter_mixes_in_every_dimension(void **state)
{
	struct ck_ptx_module *module;
	float want = 0;

	(void)state;
	texture_init();
	texture.filter = CU_TR_FILTER_MODE_LINEAR;
	module = kernel("tex.3d.v4.f32.f32 {%f4, %f5, %f6, %f7}, [%d0, {%f0, %f1, %f2, %f2}];\n"
			"mov.b32 %r4, %f4;");
	lanes()[0] = (struct lane){.at = {3.75f, 2.0f, 1.25f}}; /* 3 + 1/4, 1 + 1/2, 0 + 3/4 */
	assert_int_equal(go(module), CUDA_SUCCESS);
	for (int c = 0; c < 8; c++)
		want += (c & 1 ? 0.25f : 0.75f) * 0.5f * (c & 4 ? 0.75f : 0.25f) *
			texels[c >> 2][1 + (c >> 1 & 1)][3 + (c & 1)];
	assert_float_equal(result_at(0), want, 1e-3);
}

static void address_modes_are_those_of_the_guide(void **state)
{
	static const CUaddress_mode modes[] = {CU_TR_ADDRESS_MODE_WRAP, CU_TR_ADDRESS_MODE_MIRROR,
					       CU_TR_ADDRESS_MODE_BORDER, CU_TR_ADDRESS_MODE_CLAMP};

	(void)state;
	for (int m = 0; m < 4; m++) {
		struct ck_ptx_module *module = kernel(TEX_2D);

		texture_init();
		texture.flags = CU_TRSF_NORMALIZED_COORDINATES;
		texture.address[0] = modes[m];
		texture.border[0] = -3.0f;
		for (int i = 0; i < LANES; i++)
			lanes()[i].at[0] = ((float)(i - 12) + 0.5f) / WIDTH;
		assert_int_equal(go(module), CUDA_SUCCESS);
		for (int i = 0; i < LANES; i++) {
			int x = i - 12, period = ((x % (2 * WIDTH)) + 2 * WIDTH) % (2 * WIDTH);
			int at = modes[m] == CU_TR_ADDRESS_MODE_WRAP ? period % WIDTH
				 : modes[m] == CU_TR_ADDRESS_MODE_MIRROR
					 ? (period < WIDTH ? period : 2 * WIDTH - 1 - period)
					 : clamped(x, WIDTH);
			bool outside = x < 0 || x >= WIDTH;
			float want = modes[m] == CU_TR_ADDRESS_MODE_BORDER && outside
					     ? -3.0f
					     : texels[0][0][at];

			assert_float_equal(result_at(i), want, 0);
		}
	}
}

static void wrap_without_normalised_coordinates_clamps(void **state)
{
	(void)state;
	texture_init();
	texture.address[0] = CU_TR_ADDRESS_MODE_WRAP;
	assert_int_equal(go(along_x(TEX_2D)), CUDA_SUCCESS);
	assert_float_equal(result_at(0), texels[0][1][0], 0);
	assert_float_equal(result_at(31), texels[0][1][WIDTH - 1], 0);
}

/* As the hardware has it: beyond the edge is nothing, whatever the address mode. */
static void integer_coordinates_are_texels(void **state)
{
	struct ck_ptx_module *module;

	(void)state;
	texture_init();
	texture.filter = CU_TR_FILTER_MODE_LINEAR;
	module = kernel("tex.2d.v4.f32.s32 {%f4, %f5, %f6, %f7}, [%d0, {%r0, 2}];\n"
			"mov.b32 %r4, %f4;");
	for (int i = 0; i < LANES; i++)
		lanes()[i].layer = i - 4;
	assert_int_equal(go(module), CUDA_SUCCESS);
	for (int i = 0; i < LANES; i++)
		assert_float_equal(result_at(i),
				   i >= 4 && i < 4 + WIDTH ? texels[0][2][i - 4] : 0.0f, 0);
}

static void linear_memory_has_zeroes_beyond_its_end(void **state)
{
	struct ck_ptx_module *module;

	(void)state;
	texture_init();
	texture.linear = true;
	texture.levels[0].size[1] = texture.levels[0].size[2] = 1;
	module = kernel("tex.1d.v4.f32.s32 {%f4, %f5, %f6, %f7}, [%d0, {%r0}];\n"
			"mov.b32 %r4, %f4;");
	for (int i = 0; i < LANES; i++)
		lanes()[i].layer = i - 4;
	assert_int_equal(go(module), CUDA_SUCCESS);
	for (int i = 0; i < LANES; i++)
		assert_float_equal(result_at(i),
				   i >= 4 && i < 4 + WIDTH ? texels[0][0][i - 4] : 0.0f, 0);
}

static void memory_of_the_program_is_checked(void **state)
{
	(void)state;
	texture_init();
	texture.checked = true; /* and outside the device's memory */
	assert_int_equal(go(along_x(TEX_2D)), CUDA_ERROR_ILLEGAL_ADDRESS);
}

static void a_number_that_is_no_object_is_a_fault(void **state)
{
	(void)state;
	texture_init();
	assert_int_equal(go(kernel("mov.u64 %d0, 7;\n" TEX_1D)), CUDA_ERROR_ILLEGAL_ADDRESS);
	assert_int_equal(run_text(HEAD KERNEL TEX_1D END, 1), CUDA_ERROR_ILLEGAL_ADDRESS);
}

static void layers_are_clamped(void **state)
{
	struct ck_ptx_module *module;

	(void)state;
	texture_init();
	module = kernel("tex.a2d.v4.f32.f32 {%f4, %f5, %f6, %f7}, [%d0, {%r0, %f0, %f1, %f1}];\n"
			"mov.b32 %r4, %f4;");
	for (int i = 0; i < LANES; i++)
		lanes()[i] = (struct lane){.at = {2.5f, 1.5f}, .layer = i - 2};
	assert_int_equal(go(module), CUDA_SUCCESS);
	for (int i = 0; i < LANES; i++)
		assert_float_equal(result_at(i), texels[clamped(i - 2, 2)][1][2], 0);
}

/* Level n holds the number n everywhere. */
static void levels_init(void)
{
	static float constant[4] = {0, 1, 2, 3};

	texture_init();
	texture.flags = CU_TRSF_NORMALIZED_COORDINATES;
	texture.level_count = 4;
	for (unsigned int i = 0; i < 4; i++)
		texture.levels[i] = (struct ck_ptx_image){.base = (uint64_t)(uintptr_t)&constant[i],
							  .size = {1, 1, 1}};
	texture.levels[0].size[0] = texture.levels[0].size[1] = 1;
}

#define TEX_LEVEL                                                                                  \
	"tex.level.2d.v4.f32.f32 {%f4, %f5, %f6, %f7}, [%d0, {%f0, %f1}], %f2;\n"                  \
	"mov.b32 %r4, %f4;"

static void levels_are_chosen_and_mixed(void **state)
{
	for (int mixed = 0; mixed < 2; mixed++) {
		struct ck_ptx_module *module = kernel(TEX_LEVEL);

		(void)state;
		levels_init();
		texture.mipmap_filter = mixed ? CU_TR_FILTER_MODE_LINEAR : CU_TR_FILTER_MODE_POINT;
		texture.bias = 0.25f;
		texture.min_level = 0.5f;
		texture.max_level = 2.5f;
		for (int i = 0; i < LANES; i++)
			lanes()[i].at[2] = -1.0f + 0.1875f * (float)i;
		assert_int_equal(go(module), CUDA_SUCCESS);
		for (int i = 0; i < LANES; i++) {
			float lod = fminf(fmaxf(-0.75f + 0.1875f * (float)i, 0.5f), 2.5f);

			assert_float_equal(result_at(i), mixed ? lod : floorf(lod + 0.5f), 1e-5);
		}
	}
}

static void gradients_choose_the_level(void **state)
{
	struct ck_ptx_module *module =
		kernel("tex.grad.2d.v4.f32.f32 {%f4, %f5, %f6, %f7}, [%d0, {%f0, %f1}], {%f2, %f2},"
		       " {%f2, 0f00000000};\nmov.b32 %r4, %f4;");

	(void)state;
	levels_init();
	for (int i = 0; i < LANES; i++)
		lanes()[i].at[2] = 4.0f / sqrtf(2.0f); /* of length 4: two levels up */
	assert_int_equal(go(module), CUDA_SUCCESS);
	assert_float_equal(result_at(0), 2.0f, 0);
}

static void integers_become_fractions_unless_told(void **state)
{
	static const uint8_t bytes[4] = {0, 255, 51, 128};
	static const int8_t signs[4] = {-128, 127, -127, 0};
	static const uint16_t words[4] = {0, 65535, 13107, 1};
	static const uint16_t halves[4] = {0x3c00, 0xc000, 0x0001, 0x7bff};
	static const struct {
		CUarray_format format;
		unsigned int texel;
		const void *at;
		float want[4];
	} rows[] = {
		{CU_AD_FORMAT_UNSIGNED_INT8, 4, bytes, {0, 1, 0.2f, 128 / 255.0f}},
		{CU_AD_FORMAT_SIGNED_INT8, 4, signs, {-1, 1, -1, 0}},
		{CU_AD_FORMAT_UNSIGNED_INT16, 8, words, {0, 1, 0.2f, 1 / 65535.0f}},
		{CU_AD_FORMAT_HALF, 8, halves, {1, -2, 5.9604645e-8f, 65504}},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct ck_ptx_module *module =
			kernel("tex.1d.v4.f32.s32 {%r4, %r5, %r6, %r7}, [%d0, {0}];");

		texture_init();
		texture.format = rows[i].format;
		texture.channels = 4;
		texture.texel = rows[i].texel;
		texture.levels[0].base = (uint64_t)(uintptr_t)rows[i].at;
		assert_int_equal(go(module), CUDA_SUCCESS);
		for (int c = 0; c < 4; c++) {
			float got;

			memcpy(&got, &lanes()[0].out[c], sizeof(got));
			assert_float_equal(got, rows[i].want[c], 1e-7);
		}
	}
	texture_init();
	texture.format = CU_AD_FORMAT_SIGNED_INT8;
	texture.channels = texture.texel = 4;
	texture.flags = CU_TRSF_READ_AS_INTEGER;
	texture.levels[0].base = (uint64_t)(uintptr_t)signs;
	assert_int_equal(go(kernel("tex.1d.v4.s32.s32 {%r4, %r5, %r6, %r7}, [%d0, {0}];")),
			 CUDA_SUCCESS);
	for (int c = 0; c < 4; c++)
		assert_int_equal((int32_t)lanes()[0].out[c], signs[c]);
}

static void a_gather_has_the_four_texels_of_the_filter(void **state)
{
	struct ck_ptx_module *module =
		kernel("tld4.r.2d.v4.f32.f32 {%r4, %r5, %r6, %r7}, [%d0, {%f0, %f1}];");
	float want[4], got[4];

	(void)state;
	texture_init();
	lanes()[0] = (struct lane){.at = {3.25f, 2.0f}};
	want[0] = texels[0][2][2];
	want[1] = texels[0][2][3];
	want[2] = texels[0][1][3];
	want[3] = texels[0][1][2];
	assert_int_equal(go(module), CUDA_SUCCESS);
	memcpy(got, lanes()[0].out, sizeof(got));
	assert_memory_equal(got, want, sizeof(want));
}

static void directions_find_the_faces_of_a_cube(void **state)
{
	static const float ways[6][3] = {{1, 0.2f, 0.1f},  {-1, 0.2f, 0.1f}, {0.1f, 1, 0.2f},
					 {0.1f, -1, 0.2f}, {0.1f, 0.2f, 1},  {0.1f, 0.2f, -1}};
	static const float faces[6] = {10, 11, 12, 13, 14, 15};
	struct ck_ptx_module *module =
		kernel("tex.cube.v4.f32.f32 {%r4, %r5, %r6, %r7}, [%d0, {%f0, %f1, %f2, %f2}];");

	(void)state;
	texture_init();
	texture.levels[0] = (struct ck_ptx_image){
		.base = (uint64_t)(uintptr_t)faces, .pitch = 4, .slice = 4, .size = {1, 1, 6}};
	for (int i = 0; i < 6; i++)
		memcpy(lanes()[i].at, ways[i], sizeof(ways[i]));
	assert_int_equal(go(module), CUDA_SUCCESS);
	for (int i = 0; i < 6; i++)
		assert_float_equal(result_at(i), faces[i], 0);
}

static void queries_tell_the_extents(void **state)
{
	(void)state;
	texture_init();
	assert_int_equal(go(kernel("txq.width.b32 %r4, [%d0];\ntxq.height.b32 %r5, [%d0];\n"
				   "suq.depth.b32 %r6, [%d0];\nsuq.width.b32 %r7, [%d0];")),
			 CUDA_SUCCESS);
	assert_int_equal(lanes()[0].out[0], WIDTH);
	assert_int_equal(lanes()[0].out[1], HEIGHT);
	assert_int_equal(lanes()[0].out[2], 2);
	assert_int_equal(lanes()[0].out[3], WIDTH);
}

static void surfaces_are_read_and_written_in_bytes(void **state)
{
	(void)state;
	texture_init();
	assert_int_equal(go(kernel("suld.b.2d.v2.b32.trap {%r4, %r5}, [%d0, {8, 3}];\n"
				   "sust.b.a2d.b32.trap [%d0, {1, 4, 2, 2}], {%r5};\n"
				   "suld.b.3d.b32.trap {%r6}, [%d0, {4, 2, 1, 1}];\n"
				   "mov.u32 %r9, 1;\nsured.b.add.1d.u32.trap [%d0, {0}], %r9;\n"
				   "bar.sync 0;\nsuld.b.1d.b32.trap %r7, [%d0, {0}];")),
			 CUDA_SUCCESS);
	assert_float_equal(result_at(0), texels[0][3][2], 0);
	assert_memory_equal(&lanes()[0].out[1], &texels[0][3][3], 4);
	assert_memory_equal(&lanes()[0].out[2], &texels[0][3][3], 4);
	assert_float_equal(texels[1][2][1], texels[0][3][3], 0);
	assert_int_equal(lanes()[31].out[3], 32); /* texel 0 was 0.0f */
}

static void what_lies_outside_a_surface_traps_or_clamps_or_is_zero(void **state)
{
	(void)state;
	texture_init();
	assert_int_equal(go(kernel("suld.b.2d.b32.trap %r4, [%d0, {32, 0}];")),
			 CUDA_ERROR_LAUNCH_FAILED);
	assert_int_equal(go(kernel("sust.b.2d.b32.trap [%d0, {0, -1}], %r4;")),
			 CUDA_ERROR_LAUNCH_FAILED);
}

static void a_clamped_place_is_the_last_one_and_zero_is_nothing(void **state)
{
	float before;

	(void)state;
	texture_init();
	before = texels[0][0][0];
	assert_int_equal(go(kernel("suld.b.2d.b32.clamp %r4, [%d0, {400, 9}];\n"
				   "mov.u32 %r5, 7;\nsuld.b.2d.b32.zero %r5, [%d0, {-4, 0}];\n"
				   "sust.b.2d.b32.zero [%d0, {-4, 0}], %r4;")),
			 CUDA_SUCCESS);
	assert_float_equal(result_at(0), texels[0][HEIGHT - 1][WIDTH - 1], 0);
	assert_int_equal(lanes()[0].out[1], 0);
	assert_float_equal(texels[0][0][0], before, 0);
	assert_int_equal(go(kernel("suld.b.2d.b32.trap %r4, [%d0, {2, 0}];")),
			 CUDA_ERROR_MISALIGNED_ADDRESS);
}

static void a_reference_stands_for_the_object_in_its_variable(void **state)
{
	struct ck_ptx_module *module;
	uint64_t slot = 0, number = OBJECT, size;

	(void)state;
	texture_init();
	module = module_of(HEAD ".global .texref pic;\n.global .surfref paper;\n" KERNEL
				"mad.wide.u32 %at, %t, 32, %out;\n"
				"tex.1d.v4.f32.s32 {%r4, %r5, %r6, %r7}, [pic, {3}];\n"
				"st.global.v4.b32 [%at+16], {%r4, %r5, %r6, %r7};\n" END);
	assert_int_equal(ck_ptx_reference(module, "pic", true, &slot), -ENOENT);
	assert_int_equal(ck_ptx_reference(module, "paper", true, &slot), 0);
	assert_int_equal(ck_ptx_reference(module, "pic", false, &slot), 0);
	assert_int_equal(ck_ptx_variable(module, "pic", &size, &size), -ENOENT);
	memcpy((void *)(uintptr_t)slot, &number, sizeof(number));
	assert_int_equal(go(module), CUDA_SUCCESS);
	assert_float_equal(result_at(0), texels[0][0][3], 0);
}

static void what_is_not_there_is_refused_by_name(void **state)
{
	static const struct {
		const char *insn, *says;
	} rows[] = {
		{"tex.2dms.v4.f32.s32 {%f0, %f1, %f2, %f3}, [%d0, {%r0, %r1, %r2, %r3}];",
		 "tex.2dms"},
		{"tex.2d.v4.f32.f32 {%f0, %f1, %f2, %f3}, [%d0, {%f0}];", "wrong size"},
		{"tex.2d.v4.f32.f32 {%f0, %f1, %f2}, [%d0, {%f0, %f1}];", "wrong size"},
		{"tex.2d.v4.f32.f32 {%f0, %f1, %f2, %f3}, [out, {%f0, %f1}];", "not a texture"},
		{"tex.1d.v4.f32.f32 {%f0, %f1, %f2, %f3}, [%d0, {%f0}], {1};", "tex.1d"},
		{"tex.cube.v4.f32.s32 {%f0, %f1, %f2, %f3}, [%d0, {%r0, %r1, %r2, %r2}];",
		 "tex.cube"},
		{"sust.p.2d.b32.trap [%d0, {%r0, %r1}], %r2;", "sust.p"},
		{"sured.b.add.2d.b32.trap [%d0, {%r0, %r1}], %r2;", "sured.b.add"},
		{"suld.b.2d.b32 %r2, [%d0, {%r0, %r1}];", "suld.b.2d"},
		{"txq.channel_order.b32 %r2, [%d0];", "txq.channel_order"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct ck_ptx_kernel_info info = {.refusal = NULL};
		struct ck_ptx_module *module = NULL;
		char text[2000], log[200] = "";

		snprintf(text, sizeof(text), "%s%s%s",
			 HEAD ".visible .entry k(.param .u64 out) {\n.reg .b64 %d<4>;\n"
			      ".reg .f32 %f<8>; .reg .b32 %r<8>;\n",
			 rows[i].insn, END);
		/* An instruction that is malformed refuses the module, an unsupported one its
		 * kernel. */
		if (text_parse(text, log, sizeof(log), &module) == 0) {
			ck_ptx_kernel_info(ck_ptx_kernel_at(module, 0), &info);
			assert_non_null(info.refusal);
			snprintf(log, sizeof(log), "%s", info.refusal);
			ck_ptx_destroy(module);
		}
		if (!strstr(log, rows[i].says))
			fail_msg("%s: %s", rows[i].insn, log);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_point_filter_takes_the_texel_that_holds_the_place),
		cmocka_unit_test(a_linear_filter_mixes_in_steps_of_a_256th),
		cmocka_unit_test(a_linear_filter_mixes_in_every_dimension),
		cmocka_unit_test(address_modes_are_those_of_the_guide),
		cmocka_unit_test(wrap_without_normalised_coordinates_clamps),
		cmocka_unit_test(integer_coordinates_are_texels),
		cmocka_unit_test(linear_memory_has_zeroes_beyond_its_end),
		cmocka_unit_test(memory_of_the_program_is_checked),
		cmocka_unit_test(a_number_that_is_no_object_is_a_fault),
		cmocka_unit_test(layers_are_clamped),
		cmocka_unit_test(levels_are_chosen_and_mixed),
		cmocka_unit_test(gradients_choose_the_level),
		cmocka_unit_test(integers_become_fractions_unless_told),
		cmocka_unit_test(a_gather_has_the_four_texels_of_the_filter),
		cmocka_unit_test(directions_find_the_faces_of_a_cube),
		cmocka_unit_test(queries_tell_the_extents),
		cmocka_unit_test(surfaces_are_read_and_written_in_bytes),
		cmocka_unit_test(what_lies_outside_a_surface_traps_or_clamps_or_is_zero),
		cmocka_unit_test(a_clamped_place_is_the_last_one_and_zero_is_nothing),
		cmocka_unit_test(a_reference_stands_for_the_object_in_its_variable),
		cmocka_unit_test(what_is_not_there_is_refused_by_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
