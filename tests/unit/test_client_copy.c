/*
 * tests/unit/test_client_copy.c - copies and fills. The peer carries out what it is sent on its
 * own memory; a naive model says what should have come of it.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "client/wire/striping.h"
#include "tests/unit/client_peer.h"

#define SPACE 1024

/* "Device" memory is the peer's; its addresses are those of this process. */
static unsigned char host[2][SPACE], device[2][SPACE];

static CUdeviceptr address(const unsigned char *p)
{
	return (CUdeviceptr)(uintptr_t)p;
}

/* --- the peer's side */

static unsigned char *on_device(uint64_t at)
{
	for (int i = 0; i < 2; i++) {
		if (at >= address(device[i]) && at < address(device[i]) + SPACE)
			return device[i] + (at - address(device[i]));
	}
	peer_check(!"an address of the device");
	return NULL;
}

/* Byte @x of row @y of plane @z on one side of a copy as the server gets it. */
static unsigned char *side_at(bool dst, const CUDA_MEMCPY3D *c, unsigned char *payload, size_t x,
			      size_t y, size_t z)
{
	size_t pitch = dst ? c->dstPitch : c->srcPitch;
	size_t height = dst ? c->dstHeight : c->srcHeight;
	size_t at =
		((z + (dst ? c->dstZ : c->srcZ)) * height + y + (dst ? c->dstY : c->srcY)) * pitch +
		x + (dst ? c->dstXInBytes : c->srcXInBytes);

	if ((dst ? c->dstMemoryType : c->srcMemoryType) == CU_MEMORYTYPE_DEVICE)
		return on_device((dst ? c->dstDevice : c->srcDevice) + at);
	peer_check((dst ? c->dstMemoryType : c->srcMemoryType) == CU_MEMORYTYPE_HOST);
	peer_check(pitch == c->WidthInBytes && height == c->Height); /* packed */
	peer_check(payload && at < c->WidthInBytes * c->Height * c->Depth);
	return payload + at;
}

static void carry_out(const void *bytes, unsigned char *payload)
{
	CUDA_MEMCPY3D c;

	memcpy(&c, bytes, sizeof(c));
	for (size_t z = 0; z < c.Depth; z++) {
		for (size_t y = 0; y < c.Height; y++) {
			for (size_t x = 0; x < c.WidthInBytes; x++)
				*side_at(true, &c, payload, x, y, z) =
					*side_at(false, &c, payload, x, y, z);
		}
	}
}

static void command(const struct peer_message *m)
{
	if (m->number == CK_PROC_upload_3d) {
		const ck_upload_3d_args *args = m->args;

		carry_out(args->copy, m->bulk);
	} else if (m->number == CK_PROC_copy_3d) {
		const ck_copy_3d_args *args = m->args;

		carry_out(args->copy, NULL);
	} else if (m->number == CK_PROC_upload) {
		const ck_upload_args *args = m->args;

		memcpy(on_device(args->dst), m->bulk, m->bulk_size);
	} else if (m->number == CK_PROC_cuMemcpyDtoD_v2) {
		const cuMemcpyDtoD_v2_args *args = m->args;

		memcpy(on_device(args->dstDevice), on_device(args->srcDevice), args->ByteCount);
	} else if (m->number == CK_PROC_cuMemcpyDtoDAsync_v2) {
		const cuMemcpyDtoDAsync_v2_args *args = m->args;

		memcpy(on_device(args->dstDevice), on_device(args->srcDevice), args->ByteCount);
	}
}

static CUresult answer(const struct peer_message *m, void *res, struct peer_payload *payload)
{
	static unsigned char bytes[SPACE];

	(void)res;
	payload->data = bytes;
	if (m->number == CK_PROC_download_3d) {
		const ck_download_3d_args *args = m->args;
		CUDA_MEMCPY3D c;

		memcpy(&c, args->copy, sizeof(c));
		carry_out(&c, bytes);
		payload->size = c.WidthInBytes * c.Height * c.Depth;
	} else if (m->number == CK_PROC_download) {
		const ck_download_args *args = m->args;

		memcpy(bytes, on_device(args->src), args->size);
		payload->size = args->size;
	}
	return CUDA_SUCCESS;
}

static CUstream stream;

static int begin(void **state)
{
	peer.command = command;
	peer.call = answer;
	if (peer_begin(state) < 0)
		return -1;
	for (int i = 0; i < 2; i++) {
		if (ckc_allocation_add(address(device[i]), SPACE, CK_MEMORY_DEVICE,
				       ckc_context_current(), 0, false))
			return -1;
	}
	return (int)cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
}

static void fill(void)
{
	static uint64_t random = 3;
	unsigned char *all[] = {host[0], host[1], device[0], device[1]};

	for (int k = 0; k < 4; k++) {
		for (int i = 0; i < SPACE; i++) {
			random = random * 6364136223846793005u + 1442695040888963407u;
			all[k][i] = (unsigned char)(random >> 56);
		}
	}
}

static int clear(void **state)
{
	(void)state;
	peer_clear();
	fill();
	return 0;
}

static size_t moved(void)
{
	return peer_count(CK_PROC_upload) + peer_count(CK_PROC_download) +
	       peer_count(CK_PROC_upload_3d) + peer_count(CK_PROC_download_3d) +
	       peer_count(CK_PROC_copy_3d) + peer_count(CK_PROC_cuMemcpyDtoD_v2) +
	       peer_count(CK_PROC_cuMemcpyDtoDAsync_v2);
}

/* --- boxes: what the application says, and what a naive program does with it */

struct naive_side {
	size_t pitch, height, at[3];
};

static size_t naive_at(const struct naive_side *s, const CUDA_MEMCPY3D *c, size_t x, size_t y,
		       size_t z)
{
	size_t pitch = s->pitch ? s->pitch : c->WidthInBytes + s->at[0];
	size_t height = s->height ? s->height : c->Height + s->at[1];

	return ((z + s->at[2]) * height + y + s->at[1]) * pitch + x + s->at[0];
}

static void naive_copy(const CUDA_MEMCPY3D *c, unsigned char *dst, const unsigned char *src)
{
	struct naive_side to = {c->dstPitch, c->dstHeight, {c->dstXInBytes, c->dstY, c->dstZ}};
	struct naive_side from = {c->srcPitch, c->srcHeight, {c->srcXInBytes, c->srcY, c->srcZ}};

	for (size_t z = 0; z < c->Depth; z++) {
		for (size_t y = 0; y < c->Height; y++) {
			for (size_t x = 0; x < c->WidthInBytes; x++)
				dst[naive_at(&to, c, x, y, z)] = src[naive_at(&from, c, x, y, z)];
		}
	}
}

/* Where a side lies, and by which type that is said. */
static const struct {
	CUmemorytype type;
	bool device;
} places[] = {
	{CU_MEMORYTYPE_HOST, false},
	{CU_MEMORYTYPE_DEVICE, true},
	{CU_MEMORYTYPE_UNIFIED, false},
	{CU_MEMORYTYPE_UNIFIED, true},
};

static const size_t shapes[][3] = {{1, 1, 1}, {8, 3, 2}, {5, 3, 1}, {8, 1, 2}};
static const size_t offsets[][3] = {{0, 0, 0}, {3, 2, 1}};

/* A side of a copy of @shape: its place, how its pitch and height are given, its offset. */
static void set_side(CUDA_MEMCPY3D *c, bool dst, int place, int pitch, int height, int offset)
{
	const size_t *at = offsets[offset];
	unsigned char *p = places[place].device ? device[dst] : host[dst];
	size_t row = c->WidthInBytes + at[0], rows = c->Height + at[1];
	size_t pitches[] = {0, row, row + 5}, heights[] = {0, rows, rows + 1};

	if (dst) {
		c->dstMemoryType = places[place].type;
		c->dstHost = places[place].type == CU_MEMORYTYPE_HOST ? p : NULL;
		c->dstDevice = places[place].type == CU_MEMORYTYPE_HOST ? 0 : address(p);
		c->dstPitch = pitches[pitch];
		c->dstHeight = heights[height];
		c->dstXInBytes = at[0];
		c->dstY = at[1];
		c->dstZ = at[2];
	} else {
		c->srcMemoryType = places[place].type;
		c->srcHost = places[place].type == CU_MEMORYTYPE_HOST ? p : NULL;
		c->srcDevice = places[place].type == CU_MEMORYTYPE_HOST ? 0 : address(p);
		c->srcPitch = pitches[pitch];
		c->srcHeight = heights[height];
		c->srcXInBytes = at[0];
		c->srcY = at[1];
		c->srcZ = at[2];
	}
}

/* Everything but the destination must be as it was, and that as the model says. */
static void check_copy(const CUDA_MEMCPY3D *c, int from, int to, CUresult (*copy)(const void *),
		       const void *descriptor)
{
	static unsigned char was[4][SPACE];
	unsigned char *src = places[from].device ? device[0] : host[0];

	memcpy(was[0], host, sizeof(host));
	memcpy(was[2], device, sizeof(device));
	naive_copy(c, was[places[to].device ? 3 : 1], src);
	assert_int_equal(copy(descriptor), CUDA_SUCCESS);
	peer_await_all();
	if (memcmp(was[0], host, sizeof(host)) || memcmp(was[2], device, sizeof(device)))
		fail_msg("%zux%zux%zu from place %d, pitch %zu height %zu x %zu, to place %d, "
			 "pitch %zu height %zu x %zu",
			 c->WidthInBytes, c->Height, c->Depth, from, c->srcPitch, c->srcHeight,
			 c->srcXInBytes, to, c->dstPitch, c->dstHeight, c->dstXInBytes);
	if (ckc_copy_part > SPACE)
		assert_int_equal(moved(), places[from].device || places[to].device ? 1 : 0);
	peer_clear();
}

static CUresult copy_3d(const void *c)
{
	return cuMemcpy3D_v2(c);
}

static CUresult copy_3d_async(const void *c)
{
	return cuMemcpy3DAsync_v2(c, stream);
}

/* Every @step-th of all kinds of boxes; with a step that neither 2 nor 3 divides, each digit has
 * all its values. */
static void copy_boxes(int step)
{
	unsigned int n = 0;

	/* digits: shape 4, places 4 4, pitches 3 3, heights 3 3, offsets 2 2 */
	for (int i = 0; i < 4 * 16 * 9 * 9 * 4; i += step) {
		CUDA_MEMCPY3D c = {0};
		int d = i, from, to, shape = d % 4;

		d /= 4;
		from = d % 4;
		to = d / 4 % 4;
		d /= 16;
		c.WidthInBytes = shapes[shape][0];
		c.Height = shapes[shape][1];
		c.Depth = shapes[shape][2];
		set_side(&c, false, from, d % 3, d / 9 % 3, d / 81 % 2);
		set_side(&c, true, to, d / 3 % 3, d / 27 % 3, d / 162 % 2);
		check_copy(&c, from, to, n++ % 2 ? copy_3d : copy_3d_async, &c);
	}
}

static void boxes_are_copied_as_a_naive_program_would(void **state)
{
	(void)state;
	copy_boxes(1);
}

static CUresult copy_2d(const void *c)
{
	return cuMemcpy2D_v2(c);
}

static CUresult copy_2d_unaligned(const void *c)
{
	return cuMemcpy2DUnaligned_v2(c);
}

static CUresult copy_2d_async(const void *c)
{
	return cuMemcpy2DAsync_v2(c, stream);
}

static void rectangles_are_copied_as_a_naive_program_would(void **state)
{
	CUresult (*copies[])(const void *) = {copy_2d, copy_2d_unaligned, copy_2d_async};

	(void)state;
	for (int i = 0; i < 16 * 9 * 4; i++) {
		CUDA_MEMCPY3D c = {.WidthInBytes = 5, .Height = 3, .Depth = 1};
		int d = i / 16, from = i % 4, to = i / 4 % 4;
		CUDA_MEMCPY2D flat;

		set_side(&c, false, from, d % 3, 0, d / 9 % 2);
		set_side(&c, true, to, d / 3 % 3, 0, d / 18 % 2);
		c.srcZ = c.dstZ = 0;
		flat = (CUDA_MEMCPY2D){
			.srcXInBytes = c.srcXInBytes,
			.srcY = c.srcY,
			.srcMemoryType = c.srcMemoryType,
			.srcHost = c.srcHost,
			.srcDevice = c.srcDevice,
			.srcPitch = c.srcPitch,
			.dstXInBytes = c.dstXInBytes,
			.dstY = c.dstY,
			.dstMemoryType = c.dstMemoryType,
			.dstHost = c.dstHost,
			.dstDevice = c.dstDevice,
			.dstPitch = c.dstPitch,
			.WidthInBytes = c.WidthInBytes,
			.Height = c.Height,
		};
		check_copy(&c, from, to, copies[i % 3], &flat);
	}
}

/* --- boxes that are refused */

static CUDA_MEMCPY3D good(int from, int to)
{
	CUDA_MEMCPY3D c = {.WidthInBytes = 8, .Height = 3, .Depth = 2};

	set_side(&c, false, from, 1, 1, 0);
	set_side(&c, true, to, 1, 1, 0);
	return c;
}

static void assert_refused(const CUDA_MEMCPY3D *c, CUresult err)
{
	static unsigned char was[2 * SPACE];

	memcpy(was, host, sizeof(was));
	assert_int_equal(cuMemcpy3D_v2(c), err);
	assert_int_equal(cuMemcpy3DAsync_v2(c, stream), err);
	assert_int_equal(moved(), 0);
	assert_memory_equal(was, host, sizeof(was));
}

/* Both sides of a copy between each two places, one value of it replaced. */
#define REFUSED(field, value, err)                                                                 \
	for (int i = 0; i < 16; i++) {                                                             \
		CUDA_MEMCPY3D c = good(i % 4, i / 4);                                              \
                                                                                                   \
		c.src##field = value;                                                              \
		assert_refused(&c, err);                                                           \
		c = good(i % 4, i / 4);                                                            \
		c.dst##field = value;                                                              \
		assert_refused(&c, err);                                                           \
	}

static void descriptors_that_make_no_sense_are_refused(void **state)
{
	CUDA_MEMCPY3D c;

	(void)state;
	REFUSED(Pitch, 7, CUDA_ERROR_INVALID_VALUE)
	REFUSED(Pitch, 1, CUDA_ERROR_INVALID_VALUE)
	REFUSED(Height, 2, CUDA_ERROR_INVALID_VALUE)
	REFUSED(XInBytes, 1, CUDA_ERROR_INVALID_VALUE) /* the pitch is that of the width */
	REFUSED(Y, 1, CUDA_ERROR_INVALID_VALUE)
	REFUSED(LOD, 1, CUDA_ERROR_INVALID_VALUE)
	REFUSED(MemoryType, CU_MEMORYTYPE_ARRAY, CUDA_ERROR_INVALID_HANDLE)
	REFUSED(MemoryType, (CUmemorytype)0, CUDA_ERROR_INVALID_VALUE)
	REFUSED(MemoryType, (CUmemorytype)5, CUDA_ERROR_INVALID_VALUE)
	assert_int_equal(cuMemcpy3D_v2(NULL), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemcpy2D_v2(NULL), CUDA_ERROR_INVALID_VALUE);
	for (int place = 0; place < 4; place++) {
		c = good(place, 1);
		c.srcHost = NULL;
		c.srcDevice = 0;
		assert_refused(&c, CUDA_ERROR_INVALID_VALUE);
		c = good(1, place);
		c.dstHost = NULL;
		c.dstDevice = 0;
		assert_refused(&c, CUDA_ERROR_INVALID_VALUE);
		c = good(place, 1);
		assert_int_equal(cuMemcpy3DAsync_v2(&c, (CUstream)&c), CUDA_ERROR_INVALID_HANDLE);
	}
}

static void sizes_and_offsets_that_overflow_are_refused(void **state)
{
	static const size_t large[] = {SIZE_MAX, SIZE_MAX - 7, SIZE_MAX / 2 + 1, 1ull << 62};

	(void)state;
	for (size_t k = 0; k < CK_ARRAY_SIZE(large); k++) {
		REFUSED(Height, large[k], CUDA_ERROR_INVALID_VALUE)
		REFUSED(Z, large[k], CUDA_ERROR_INVALID_VALUE)
		for (int i = 0; i < 16; i++) { /* with a pitch and height that follow from them */
			CUDA_MEMCPY3D c = good(i % 4, i / 4);

			c.srcPitch = c.srcHeight = c.dstPitch = c.dstHeight = 0;
			c.srcXInBytes = large[k];
			assert_refused(&c, CUDA_ERROR_INVALID_VALUE);
			c.srcXInBytes = 0;
			c.dstXInBytes = large[k];
			assert_refused(&c, CUDA_ERROR_INVALID_VALUE);
			c.dstXInBytes = 0;
			c.srcY = large[k];
			assert_refused(&c, CUDA_ERROR_INVALID_VALUE);
			c.srcY = 0;
			c.dstY = large[k];
			assert_refused(&c, CUDA_ERROR_INVALID_VALUE);
			c.dstY = 0;
			c.WidthInBytes = large[k];
			assert_refused(&c, CUDA_ERROR_INVALID_VALUE);
			c.WidthInBytes = 8;
			c.Height = large[k];
			assert_refused(&c, CUDA_ERROR_INVALID_VALUE);
		}
	}
}

static void planes_that_wrap_around_are_refused(void **state)
{
	(void)state;
	for (int i = 0; i < 16; i++) {
		CUDA_MEMCPY3D c = good(i % 4, i / 4);

		/* 2^32 planes of 2^32 bytes: all that is copied seems to be one plane */
		c.WidthInBytes = 1;
		c.Height = 1;
		c.Depth = (1ull << 32) + 1;
		c.srcPitch = c.dstPitch = 1ull << 16;
		c.srcHeight = c.dstHeight = 1ull << 16;
		assert_refused(&c, CUDA_ERROR_INVALID_VALUE);
	}
}

static void a_box_must_lie_in_one_allocation(void **state)
{
	(void)state;
	for (int i = 0; i < 4; i++) {
		CUDA_MEMCPY3D c = good(i, 1);

		c.dstDevice += SPACE - 48;
		assert_int_equal(cuMemcpy3D_v2(&c), CUDA_SUCCESS); /* to the very end */
		peer_clear();
		c.dstDevice++;
		assert_refused(&c, CUDA_ERROR_INVALID_VALUE);
		c = good(1, i);
		c.srcDevice += SPACE - 47;
		assert_refused(&c, CUDA_ERROR_INVALID_VALUE);
		c.srcDevice = 0x1000;
		assert_refused(&c, CUDA_ERROR_INVALID_VALUE);
	}
}

static void a_box_of_nothing_is_copied_without_a_look(void **state)
{
	(void)state;
	for (int i = 0; i < 3; i++) {
		CUDA_MEMCPY3D c = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
				   .dstMemoryType = CU_MEMORYTYPE_HOST,
				   .srcDevice = 0x1000,
				   .WidthInBytes = i != 0,
				   .Height = i != 1,
				   .Depth = i != 2};

		assert_int_equal(cuMemcpy3DAsync_v2(&c, stream), CUDA_SUCCESS);
	}
	assert_int_equal(moved(), 0);
}

/* --- linear copies */

static void a_unified_copy_is_what_its_addresses_say(void **state)
{
	unsigned char *dst[] = {host[1], device[1]}, *src[] = {host[0], device[0]};

	(void)state;
	for (int i = 0; i < 8; i++) {
		unsigned char *to = dst[i % 2] + 7, *from = src[i / 2 % 2] + 3;
		unsigned char before = to[-1], after = to[100];

		fill();
		before = to[-1];
		after = to[100];
		assert_int_equal(i < 4 ? cuMemcpy(address(to), address(from), 100)
				       : cuMemcpyAsync(address(to), address(from), 100, stream),
				 CUDA_SUCCESS);
		peer_await_all();
		assert_memory_equal(to, from, 100);
		assert_int_equal(to[-1], before);
		assert_int_equal(to[100], after);
		assert_int_equal(moved(), i % 2 || i / 2 % 2);
		peer_clear();
	}
}

static void a_copy_within_the_host_refuses_null(void **state)
{
	CUdeviceptr p = address(host[0]);

	(void)state;
	assert_int_equal(cuMemcpy(0, p, 4), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemcpy(p, 0, 4), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemcpyAsync(0, p, 4, stream), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemcpyAsync(p, 0, 4, stream), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemcpy(0, p, 0), CUDA_SUCCESS);
}

static void linear_copies_stay_in_their_allocation(void **state)
{
	CUdeviceptr d = address(device[0]);

	(void)state;
	assert_int_equal(cuMemcpyHtoD_v2(d + 1, host[0], SPACE), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemcpyDtoH_v2(host[0], d + 1, SPACE), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemcpyHtoDAsync_v2(d - 1, host[0], 1, stream), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemcpyDtoHAsync_v2(host[0], d, SIZE_MAX, stream),
			 CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemcpyDtoD_v2(d, address(host[0]), 1), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemcpyDtoDAsync_v2(d, address(device[1]), SPACE + 1, stream),
			 CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemcpyHtoD_v2(d, NULL, 1), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemcpyDtoH_v2(NULL, d, 1), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemcpyHtoDAsync_v2(d, host[0], 1, (CUstream)host),
			 CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(cuMemcpyHtoD_v2(d, host[0], 0), CUDA_SUCCESS);
	assert_int_equal(cuMemcpyDtoH_v2(NULL, 5, 0), CUDA_SUCCESS);
	assert_int_equal(cuMemcpyDtoD_v2(5, 6, 0), CUDA_SUCCESS);
	assert_int_equal(moved(), 0);
	assert_int_equal(cuMemcpyHtoD_v2(d, host[0], SPACE), CUDA_SUCCESS);
	assert_int_equal(cuMemcpyDtoH_v2(host[1], d, SPACE), CUDA_SUCCESS);
	assert_memory_equal(host[0], host[1], SPACE);
	assert_int_equal(moved(), 2);
}

static void host_bytes_are_taken_over_at_the_call(void **state)
{
	unsigned char bytes[64], was[64];

	(void)state;
	memcpy(bytes, host[0], sizeof(bytes));
	memcpy(was, bytes, sizeof(was));
	assert_int_equal(cuMemcpyHtoDAsync_v2(address(device[0]), bytes, sizeof(bytes), stream),
			 CUDA_SUCCESS);
	memset(bytes, 0, sizeof(bytes));
	peer_await_all();
	assert_memory_equal(device[0], was, sizeof(was));
}

static void a_download_makes_its_stream_idle(void **state)
{
	CUdeviceptr d = address(device[0]);

	(void)state;
	assert_int_equal(cuMemcpyDtoHAsync_v2(host[0], d, 8, stream), CUDA_SUCCESS);
	assert_int_equal(cuStreamSynchronize(stream), CUDA_SUCCESS);
	assert_int_equal(cuStreamQuery(stream), CUDA_SUCCESS);
	assert_int_equal(peer_count(CK_PROC_cuStreamSynchronize), 0);
	assert_int_equal(peer_count(CK_PROC_cuStreamQuery), 0);
	assert_int_equal(cuMemcpyHtoDAsync_v2(d, host[0], 8, stream), CUDA_SUCCESS);
	assert_int_equal(cuStreamSynchronize(stream), CUDA_SUCCESS);
	assert_int_equal(cuStreamSynchronize(stream), CUDA_SUCCESS);
	assert_int_equal(peer_count(CK_PROC_cuStreamSynchronize), 1);
}

/* Its parts are calls, which return when the bytes are with the server. */
static void a_large_upload_is_waited_for(void **state)
{
	static unsigned char large[CK_STRIPING_MIN];
	CUdeviceptr d = (CUdeviceptr)1 << 45;

	(void)state;
	assert_int_equal(ckc_allocation_add(d, sizeof(large), CK_MEMORY_DEVICE,
					    ckc_context_current(), 0, false),
			 CUDA_SUCCESS);
	assert_int_equal(cuStreamSynchronize(stream), CUDA_SUCCESS);
	peer_clear();
	assert_int_equal(cuMemcpyHtoDAsync_v2(d, large, sizeof(large), stream), CUDA_SUCCESS);
	assert_true(peer_count(CK_PROC_upload_part) > 0);
	assert_int_equal(cuStreamSynchronize(stream), CUDA_SUCCESS);
	assert_int_equal(cuStreamSynchronize(stream), CUDA_SUCCESS);
	assert_int_equal(peer_count(CK_PROC_cuStreamSynchronize), 1);
}

/* --- fills */

static size_t fills(void)
{
	return peer_count(CK_PROC_cuMemsetD8_v2) + peer_count(CK_PROC_cuMemsetD8Async) +
	       peer_count(CK_PROC_cuMemsetD16Async) + peer_count(CK_PROC_cuMemsetD32_v2) +
	       peer_count(CK_PROC_cuMemsetD32Async) + peer_count(CK_PROC_cuMemsetD2D8Async) +
	       peer_count(CK_PROC_cuMemsetD2D32_v2) + peer_count(CK_PROC_cuMemsetD2D32Async);
}

static void fills_that_leave_their_allocation_or_overflow_are_refused(void **state)
{
	CUdeviceptr d = address(device[0]);

	(void)state;
	assert_int_equal(cuMemsetD8_v2(d, 1, SPACE + 1), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemsetD32_v2(d, 1, SPACE / 4 + 1), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemsetD32_v2(d + 2, 1, 1), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemsetD16Async(d + 1, 1, 1, stream), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemsetD32Async(d, 1, SIZE_MAX / 4 + 2, stream),
			 CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemsetD2D32_v2(d, 8, 1, 3, 2), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemsetD2D32_v2(d, 14, 1, 3, 2), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemsetD2D8Async(d, 512, 1, 1, 3, stream), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemsetD2D8Async(d, 1ull << 32, 1, 1, (1ull << 32) + 1, stream),
			 CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemsetD8Async(d, 1, 1, (CUstream)host), CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(cuMemsetD8_v2(address(host[0]), 1, 1), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemsetD8_v2(5, 1, 0), CUDA_SUCCESS);
	assert_int_equal(fills(), 0);
	assert_int_equal(cuMemsetD8_v2(d, 1, SPACE), CUDA_SUCCESS);
	assert_int_equal(cuMemsetD2D32_v2(d, 512, 1, 128, 2), CUDA_SUCCESS);
	assert_int_equal(cuMemsetD2D32Async(d, 3, 1, 256, 1, stream), CUDA_SUCCESS); /* one row */
	assert_int_equal(fills(), 3);
}

static void boxes_that_are_too_large_for_a_message_go_in_parts(void **state)
{
	size_t was = ckc_copy_part;

	for (ckc_copy_part = 1; ckc_copy_part < 100; ckc_copy_part = ckc_copy_part * 3 + 1) {
		copy_boxes(17);
		clear(state);
	}
	ckc_copy_part = was;
}

#define copy_test(name) cmocka_unit_test_setup(name, clear)

int main(void)
{
	const struct CMUnitTest tests[] = {
		copy_test(boxes_are_copied_as_a_naive_program_would),
		copy_test(boxes_that_are_too_large_for_a_message_go_in_parts),
		copy_test(rectangles_are_copied_as_a_naive_program_would),
		copy_test(descriptors_that_make_no_sense_are_refused),
		copy_test(sizes_and_offsets_that_overflow_are_refused),
		copy_test(planes_that_wrap_around_are_refused),
		copy_test(a_box_must_lie_in_one_allocation),
		copy_test(a_box_of_nothing_is_copied_without_a_look),
		copy_test(a_unified_copy_is_what_its_addresses_say),
		copy_test(a_copy_within_the_host_refuses_null),
		copy_test(linear_copies_stay_in_their_allocation),
		copy_test(host_bytes_are_taken_over_at_the_call),
		copy_test(a_download_makes_its_stream_idle),
		copy_test(a_large_upload_is_waited_for),
		copy_test(fills_that_leave_their_allocation_or_overflow_are_refused),
	};

	return cmocka_run_group_tests(tests, begin, peer_end);
}
