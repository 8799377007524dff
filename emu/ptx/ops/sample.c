/*
 * emu/ptx/ops/sample.c - coordinates to texels, and texels to one value; see sample.h.
 */
#include <math.h>

#include "emu/ptx/language/half.h"
#include "emu/ptx/ops/sample.h"

/* Integers of 8 and 16 bits become floats unless the texture says otherwise. */
static bool is_float_texture(const struct ck_ptx_texture *t)
{
	switch (t->format) {
	case CU_AD_FORMAT_HALF:
	case CU_AD_FORMAT_FLOAT:
		return true;
	case CU_AD_FORMAT_UNSIGNED_INT32:
	case CU_AD_FORMAT_SIGNED_INT32:
		return false;
	default:
		return !(t->flags & CU_TRSF_READ_AS_INTEGER);
	}
}

static float srgb_to_linear(float v)
{
	return v <= 0.04045f ? v / 12.92f : powf((v + 0.055f) / 1.055f, 2.4f);
}

/* Channel @c of the texel at @at, as the bits of a float or an integer. */
static uint32_t read_channel(const struct ck_ptx_texture *t, const uint8_t *at, unsigned int c)
{
	bool is_float = is_float_texture(t);
	uint32_t word;
	uint16_t half;
	float v;

	switch (t->format) {
	case CU_AD_FORMAT_UNSIGNED_INT8:
		v = (float)at[c] / 255.0f;
		if ((t->flags & CU_TRSF_SRGB) && c < 3)
			v = srgb_to_linear(v);
		return is_float ? (uint32_t)ck_ptx_u32(v) : at[c];
	case CU_AD_FORMAT_SIGNED_INT8:
		v = fmaxf((float)(int8_t)at[c] / 127.0f, -1.0f);
		return is_float ? (uint32_t)ck_ptx_u32(v) : (uint32_t)(int8_t)at[c];
	case CU_AD_FORMAT_UNSIGNED_INT16:
		memcpy(&half, at + 2 * c, sizeof(half));
		return is_float ? (uint32_t)ck_ptx_u32((float)half / 65535.0f) : half;
	case CU_AD_FORMAT_SIGNED_INT16:
		memcpy(&half, at + 2 * c, sizeof(half));
		v = fmaxf((float)(int16_t)half / 32767.0f, -1.0f);
		return is_float ? (uint32_t)ck_ptx_u32(v) : (uint32_t)(int16_t)half;
	case CU_AD_FORMAT_HALF:
		memcpy(&half, at + 2 * c, sizeof(half));
		return (uint32_t)ck_ptx_u32((float)ck_ptx_half_to(half));
	default:
		memcpy(&word, at + 4 * c, sizeof(word));
		return word;
	}
}

static void get_border_color(const struct ck_ptx_texture *t, uint32_t out[4])
{
	for (unsigned int c = 0; c < 4; c++)
		out[c] = t->linear	       ? 0
			 : is_float_texture(t) ? (uint32_t)ck_ptx_u32(t->border[c])
					       : (uint32_t)(int64_t)t->border[c];
}

/* The texel at @index, which lies in the image; missing channels are 0. */
static int read_texel(const struct ck_ptx_place *p, const struct ck_ptx_image *m,
		      const int64_t index[3], uint32_t out[4])
{
	const struct ck_ptx_texture *t = p->texture;
	uint64_t address = m->base + (uint64_t)index[2] * m->slice + (uint64_t)index[1] * m->pitch +
			   (uint64_t)index[0] * t->texel;
	uint8_t *at = (uint8_t *)(uintptr_t)address;
	int err;

	if (t->checked) {
		err = ck_ptx_translate(p->w, p->lane, CK_PTX_GLOBAL, address, t->texel, &at);
		if (err)
			return err;
	}
	for (unsigned int c = 0; c < 4; c++)
		out[c] = c < t->channels ? read_channel(t, at, c) : 0;
	return 0;
}

/* Texel number @i of @n by the address mode: false where the border is. */
static bool wrap_index(const struct ck_ptx_place *p, unsigned int dim, int64_t i, int64_t n,
		       int64_t *out)
{
	CUaddress_mode mode = p->texture->address[dim];
	int64_t period = i % (2 * n);

	if (p->cube || (!(p->texture->flags & CU_TRSF_NORMALIZED_COORDINATES) &&
			mode != CU_TR_ADDRESS_MODE_BORDER))
		mode = CU_TR_ADDRESS_MODE_CLAMP;
	*out = i;
	if (p->texture->linear)
		return i >= 0 && i < n;
	switch (mode) {
	case CU_TR_ADDRESS_MODE_BORDER:
		return i >= 0 && i < n;
	case CU_TR_ADDRESS_MODE_WRAP:
		*out = i % n + (i % n < 0 ? n : 0);
		return true;
	case CU_TR_ADDRESS_MODE_MIRROR:
		period += period < 0 ? 2 * n : 0;
		*out = period < n ? period : 2 * n - 1 - period;
		return true;
	default:
		*out = ck_max((int64_t)0, ck_min(i, n - 1));
		return true;
	}
}

/* The texel at @index after the address modes, in the place's layer. */
static int fetch_texel(const struct ck_ptx_place *p, const struct ck_ptx_image *m,
		       const int64_t index[3], uint32_t out[4])
{
	int64_t at[3] = {0, 0, 0};

	for (unsigned int d = 0; d < p->dims; d++) {
		/* integer coordinates outside the image read 0 */
		if (p->integer && (index[d] < 0 || index[d] >= m->size[d])) {
			memset(out, 0, 4 * sizeof(*out));
			return 0;
		}
		if (!wrap_index(p, d, index[d], m->size[d], &at[d])) {
			get_border_color(p->texture, out);
			return 0;
		}
	}
	if (p->layered)
		at[2] = ck_max((int64_t)0, ck_min(p->layer, (int64_t)m->size[2] - 1));
	return read_texel(p, m, at, out);
}

/* A coordinate in texels; one that is too large for any texture counts as the edge. */
static float scale_coordinate(const struct ck_ptx_place *p, const struct ck_ptx_image *m,
			      unsigned int d)
{
	float x = p->at[d];

	if (p->cube || (p->texture->flags & CU_TRSF_NORMALIZED_COORDINATES))
		x *= (float)m->size[d];
	if (!(x == x))
		return 0;
	return fmaxf(-1e9f, fminf(x, 1e9f));
}

static int sample_nearest(const struct ck_ptx_place *p, const struct ck_ptx_image *m,
			  uint32_t out[4])
{
	int64_t index[3] = {0, 0, 0};

	for (unsigned int d = 0; d < p->dims; d++)
		index[d] = p->integer ? p->index[d] : (int64_t)floorf(scale_coordinate(p, m, d));
	return fetch_texel(p, m, index, out);
}

/* The lower texel of a linear filter, and the weight of the upper one, in 1/256. */
static int64_t find_lower_texel(const struct ck_ptx_place *p, const struct ck_ptx_image *m,
				unsigned int d, unsigned int *weight)
{
	int64_t x = (int64_t)floorf((scale_coordinate(p, m, d) - 0.5f) * 256.0f + 0.5f);

	*weight = (unsigned int)(x & 255);
	return x >> 8;
}

/*
 * The weights of the texels round a place, in 1/256. They are whole numbers whose sum is 256: a
 * product of fractions is rounded, and its neighbours' weights get the difference.
 */
static void corner_weights(unsigned int dims, const unsigned int fraction[3], int weights[8])
{
	unsigned int corners = 1u << dims;

	for (unsigned int set = 0; set < corners; set++) {
		unsigned int product = 256, count = 0;

		for (unsigned int d = 0; d < dims; d++) {
			if (!(set >> d & 1))
				continue;
			product = count++ ? product * fraction[d] : fraction[d];
		}
		if (count > 1)
			product = (product + (1u << (8 * count - 9))) >> (8 * count - 8);
		weights[set] = (int)product;
	}
	for (unsigned int d = 0; d < dims; d++)
		for (unsigned int set = 0; set < corners; set++)
			if (!(set >> d & 1))
				weights[set] -= weights[set | 1u << d];
}

/*
 * A texture of one dimension is a row of height 1 that is looked up at its upper edge: where the
 * second address mode is the border's, the hardware mixes that in.
 */
static bool is_edge(const struct ck_ptx_place *p)
{
	return p->dims == 1 && !p->layered && !p->texture->linear &&
	       p->texture->address[1] == CU_TR_ADDRESS_MODE_BORDER;
}

static int sample_linear(const struct ck_ptx_place *p, const struct ck_ptx_image *m,
			 uint32_t out[4])
{
	unsigned int fraction[3] = {0, 0, 0};
	float sum[4] = {0, 0, 0, 0};
	int64_t low[3] = {0, 0, 0};
	int weights[8];

	for (unsigned int d = 0; d < p->dims; d++)
		low[d] = find_lower_texel(p, m, d, &fraction[d]);
	corner_weights(p->dims, fraction, weights);
	for (unsigned int corner = 0; corner < 1u << p->dims; corner++) {
		int64_t index[3] = {0, 0, 0};
		uint32_t value[4];
		float w = (float)weights[corner] / 256.0f;
		int err;

		for (unsigned int d = 0; d < p->dims; d++)
			index[d] = low[d] + (corner >> d & 1);
		err = fetch_texel(p, m, index, value);
		if (err)
			return err;
		for (unsigned int c = 0; w > 0 && c < 4; c++)
			sum[c] += w * ck_ptx_f32(value[c]);
	}
	if (is_edge(p)) {
		get_border_color(p->texture, out);
		for (unsigned int c = 0; c < 4; c++)
			sum[c] = (sum[c] + ck_ptx_f32(out[c])) / 2;
	}
	for (unsigned int c = 0; c < 4; c++)
		out[c] = (uint32_t)ck_ptx_u32(sum[c]);
	return 0;
}

static int sample_level(const struct ck_ptx_place *p, unsigned int number, uint32_t out[4])
{
	const struct ck_ptx_texture *t = p->texture;
	const struct ck_ptx_image *m = &t->levels[number];

	if (p->integer || t->linear || t->filter == CU_TR_FILTER_MODE_POINT || !is_float_texture(t))
		return sample_nearest(p, m, out);
	return sample_linear(p, m, out);
}

int ck_ptx_sample(const struct ck_ptx_place *p, float lod, uint32_t out[4])
{
	const struct ck_ptx_texture *t = p->texture;
	uint32_t upper[4];
	float top = (float)(t->level_count - 1), base, weight;
	int err;

	if (t->level_count == 1)
		return sample_level(p, 0, out);
	lod = fminf(fmaxf(lod + t->bias, t->min_level), t->max_level);
	lod = fminf(fmaxf(lod, 0), top);
	if (t->mipmap_filter == CU_TR_FILTER_MODE_POINT || !is_float_texture(t))
		return sample_level(p, (unsigned int)floorf(lod + 0.5f), out);
	base = floorf(lod);
	weight = rintf((lod - base) * 256.0f) / 256.0f;
	err = sample_level(p, (unsigned int)base, out);
	if (err || weight == 0)
		return err;
	err = sample_level(p, (unsigned int)base + 1, upper);
	for (unsigned int c = 0; c < 4; c++)
		out[c] = (uint32_t)ck_ptx_u32((1.0f - weight) * ck_ptx_f32(out[c]) +
					      weight * ck_ptx_f32(upper[c]));
	return err;
}

int ck_ptx_gather(const struct ck_ptx_place *p, unsigned int channel_number, uint32_t out[4])
{
	/* lower left, lower right, upper right, upper left, as y grows downwards */
	static const uint8_t corners[4][2] = {{0, 1}, {1, 1}, {1, 0}, {0, 0}};
	const struct ck_ptx_image *m = &p->texture->levels[0];
	unsigned int weight;

	for (unsigned int i = 0; i < 4; i++) {
		int64_t index[3] = {find_lower_texel(p, m, 0, &weight) + corners[i][0],
				    find_lower_texel(p, m, 1, &weight) + corners[i][1], 0};
		uint32_t value[4];
		int err = fetch_texel(p, m, index, value);

		if (err)
			return err;
		out[i] = value[channel_number];
	}
	return 0;
}

float ck_ptx_gradient_lod(const struct ck_ptx_texture *t, unsigned int dims, const float dx[3],
			  const float dy[3])
{
	float x = 0, y = 0;

	for (unsigned int d = 0; d < dims; d++) {
		float size = t->flags & CU_TRSF_NORMALIZED_COORDINATES ? (float)t->levels[0].size[d]
								       : 1.0f;

		x += dx[d] * size * dx[d] * size;
		y += dy[d] * size * dy[d] * size;
	}
	return 0.5f * log2f(fmaxf(x, y));
}

unsigned int ck_ptx_cube_face(const float v[3], float at[2])
{
	float x = fabsf(v[0]), y = fabsf(v[1]), z = fabsf(v[2]), s, t, m;
	unsigned int face;

	if (x > y && x > z) {
		face = v[0] < 0;
		m = x;
		s = v[0] < 0 ? v[2] : -v[2];
		t = -v[1];
	} else if (y > z) {
		face = 2 + (v[1] < 0);
		m = y;
		s = v[0];
		t = v[1] < 0 ? -v[2] : v[2];
	} else {
		face = 4 + (v[2] < 0);
		m = z;
		s = v[2] < 0 ? -v[0] : v[0];
		t = -v[1];
	}
	at[0] = m > 0 ? (s / m + 1.0f) / 2.0f : 0.5f;
	at[1] = m > 0 ? (t / m + 1.0f) / 2.0f : 0.5f;
	return face;
}
