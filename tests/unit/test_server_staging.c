/*
 * tests/unit/test_server_staging.c - rings of slots, and copies cut into pieces.
 */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "rpc/chan.h"
#include "server/copy/copy_iterator.h"
#include "server/copy/staging.h"
#include "server_fake.h"

static int make(void **state)
{
	fake_install();
	return cks_staging_create((struct cks_staging **)state);
}

static int drop(void **state)
{
	cks_staging_destroy(*state);
	return fake.registered == 0 && fake.events == 0 ? 0 : -1; /* nothing is left behind */
}

/* Fill @size bytes of @device through @ring, with bytes that depend on their place. */
static void upload(struct cks_ring *ring, unsigned char *device, size_t size, uint64_t stream)
{
	struct cks_slot *slot;
	struct cks_copy_iterator walk;

	cks_copy_iterator_flat(&walk, true, (uintptr_t)device, size);
	while (cks_copy_iterator_next(&walk)) {
		unsigned char *host;

		assert_int_equal(cks_ring_take(ring, 1, stream, walk.piece, &slot), CUDA_SUCCESS);
		host = slot->host + slot->used;
		for (size_t i = 0; i < walk.piece; i++)
			host[i] = (unsigned char)((walk.done + i) * 31 >> 3);
		assert_int_equal(cks_copy_iterator_copy(&walk, host, NULL), CUDA_SUCCESS);
		assert_int_equal(cks_slot_mark(slot, NULL, walk.piece), CUDA_SUCCESS);
	}
}

static bool right(const unsigned char *device, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		if (device[i] != (unsigned char)(i * 31 >> 3))
			return false;
	}
	return true;
}

static void no_slot_is_used_again_before_its_copies_are_done(void **state)
{
	const size_t size = 3u * CK_UPLOAD_SLOTS * CK_SLOT_SIZE + 12345;
	struct cks_ring *ring = cks_staging_upload(*state);
	unsigned char *device = malloc(size);

	upload(ring, device, size, 7);
	fake_flush();
	assert_true(right(device, size));
	cks_ring_release(ring);
	free(device);
}

static void small_copies_share_a_slot_and_keep_their_bytes(void **state)
{
	enum { COUNT = 1000, EACH = 100 };
	struct cks_ring *ring = cks_staging_upload(*state);
	unsigned char *device = malloc(COUNT * EACH);

	for (size_t i = 0; i < COUNT; i++)
		upload(ring, device + i * EACH, EACH, 7);
	assert_int_equal(fake.registered, 1);
	fake_flush();
	for (size_t i = 0; i < COUNT; i++)
		assert_true(right(device + i * EACH, EACH));
	cks_ring_release(ring);
	free(device);
}

static void another_stream_gets_another_slot(void **state)
{
	struct cks_ring *ring = cks_staging_upload(*state);
	struct cks_slot *a, *b, *c;

	assert_int_equal(cks_ring_take(ring, 1, 7, 100, &a), CUDA_SUCCESS);
	assert_int_equal(cks_ring_take(ring, 1, 8, 100, &b), CUDA_SUCCESS);
	assert_int_equal(cks_ring_take(ring, 2, 8, 100, &c), CUDA_SUCCESS);
	assert_ptr_not_equal(a, b);
	assert_ptr_not_equal(b, c);
	cks_ring_release(ring);
}

static void a_context_that_goes_takes_its_events_but_not_the_memory(void **state)
{
	struct cks_ring *ring = cks_staging_upload(*state);
	struct cks_slot *slot;
	unsigned char *host;

	assert_int_equal(cks_ring_take(ring, 1, 7, 100, &slot), CUDA_SUCCESS);
	host = slot->host;
	cks_ring_release(ring);
	cks_staging_drop_context(*state, 1);
	assert_int_equal(fake.events, 0);
	fake.registered = 0; /* the registration went with the context */
	assert_ptr_equal(slot->host, host);
	host[0] = 1;
	ring = cks_staging_upload(*state);
	for (int i = 0; i < CK_UPLOAD_SLOTS; i++)
		assert_int_equal(cks_ring_next(ring, 2, 7, &slot), CUDA_SUCCESS);
	assert_true(slot->pinned);
	cks_ring_release(ring);
}

static void downloads_at_the_same_time_have_rings_of_their_own(void **state)
{
	struct cks_ring *a = cks_staging_call(*state, NULL), *b = cks_staging_call(*state, NULL);

	assert_ptr_not_equal(a, b);
	cks_ring_release(a);
	cks_ring_release(b);
}

/* Bytes for a stream that waits stay in their rings; others take other ones. */
static void uploads_ahead_avoid_rings_that_wait(void **state)
{
	unsigned char *device = malloc(CK_AHEAD_RINGS * CK_AHEAD_SLOTS * CK_PIECE_MAX);
	struct cks_ring *rings[CK_AHEAD_RINGS + 1];

	fake.running = true;
	for (size_t i = 0; i < CK_AHEAD_RINGS; i++) {
		rings[i] = cks_staging_ahead(*state);
		for (size_t k = 0; k < i; k++)
			assert_ptr_not_equal(rings[i], rings[k]);
		upload(rings[i], device, CK_AHEAD_SLOTS * CK_PIECE_MAX, 7);
		cks_ring_release(rings[i]);
	}
	rings[CK_AHEAD_RINGS] = cks_staging_ahead(*state); /* all wait: any will do */
	assert_true(fake.running);
	cks_ring_release(rings[CK_AHEAD_RINGS]);
	fake.running = false;
	assert_ptr_equal(cks_staging_ahead(*state), rings[0]);
	cks_ring_release(rings[0]);
	fake_flush();
	free(device);
}

/* As long as there are any; then a caller may have one that no call uses. */
static void calls_avoid_slots_that_wait_for_a_stream(void **state)
{
	unsigned char *device = malloc(CK_PIECE_MAX);
	struct cks_ring *ring;
	unsigned int count = 0;

	fake.running = true;
	while ((ring = cks_staging_idle(*state, 2 * CK_PIECE_MAX)) != NULL) {
		upload(ring, device, CK_PIECE_MAX, 7);
		cks_ring_release(ring);
		count++;
	}
	assert_int_equal(count, CK_CALL_RINGS_NEAR * (CK_CALL_SLOTS - 1));
	for (unsigned int i = 0; i < CK_CALL_RINGS_NEAR; i++) {
		ring = cks_staging_call(*state, NULL);
		upload(ring, device, CK_PIECE_MAX, 7);
		cks_ring_release(ring);
	}
	assert_true(fake.running); /* none has waited */
	assert_null(cks_staging_idle(*state, 1));
	fake.running = false;
	fake_flush();
	free(device);
}

struct waiting {
	struct cks_staging *staging;
	struct ck_chan *chan;
	atomic_bool asked, taken;
};

static void *take_one_more(void *data)
{
	struct waiting *w = data;
	struct cks_ring *ring;

	atomic_store(&w->asked, true);
	ring = cks_staging_call(w->staging, w->chan);
	atomic_store(&w->taken, true);
	cks_ring_release(ring);
	return NULL;
}

/* On a short link, a call that finds the first rings taken waits for one of them. */
static void calls_on_a_short_link_use_few_rings(void **state)
{
	struct cks_ring *rings[CK_CALL_RINGS_NEAR];
	struct waiting w = {.staging = *state};
	pthread_t thread;
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	assert_int_equal(ck_chan_adopt(pair[0], &w.chan), 0);
	for (size_t i = 0; i < CK_CALL_RINGS_NEAR; i++) {
		rings[i] = cks_staging_call(*state, w.chan);
		for (size_t k = 0; k < i; k++)
			assert_ptr_not_equal(rings[i], rings[k]);
	}
	assert_int_equal(pthread_create(&thread, NULL, take_one_more, &w), 0);
	while (!atomic_load(&w.asked))
		sched_yield();
	usleep(20000); /* if it took another ring, it would have it by now */
	assert_false(atomic_load(&w.taken));
	for (size_t i = 0; i < CK_CALL_RINGS_NEAR; i++)
		cks_ring_release(rings[i]);
	pthread_join(thread, NULL);
	ck_chan_close(w.chan);
	close(pair[1]);
}

/* A box whose rows, slices and single rows are longer than a piece, in turn. */
static void boxes_are_cut_without_loss(void **state)
{
	static const size_t extents[][3] = {
		{1, 1, 1}, {100, 7, 5}, {1000, 3000, 2}, {3000000, 2, 2}, {4, 100000, 20},
	};

	for (size_t e = 0; e < sizeof(extents) / sizeof(extents[0]); e++) {
		size_t w = extents[e][0], h = extents[e][1], d = extents[e][2], at = 0;
		CUDA_MEMCPY3D c = {
			.dstMemoryType = CU_MEMORYTYPE_DEVICE,
			.dstXInBytes = 3,
			.dstY = 1,
			.dstZ = 1,
			.dstPitch = w + 8,
			.dstHeight = h + 2,
			.WidthInBytes = w,
			.Height = h,
			.Depth = d,
		};
		unsigned char *device = calloc((w + 8) * (h + 2), d + 1);
		struct cks_ring *ring = cks_staging_upload(*state);
		struct cks_slot *slot;
		struct cks_copy_iterator walk;

		c.dstDevice = (uintptr_t)device;
		assert_int_equal(cks_copy_iterator_box(&walk, true, &c), CUDA_SUCCESS);
		assert_int_equal(walk.total, w * h * d);
		while (cks_copy_iterator_next(&walk)) {
			assert_int_equal(walk.done, at);
			assert_true(walk.piece > 0 && walk.piece <= CK_PIECE_MAX);
			assert_int_equal(cks_ring_next(ring, 1, 7, &slot), CUDA_SUCCESS);
			for (size_t i = 0; i < walk.piece; i++)
				slot->host[i] = (unsigned char)((at + i) * 31 >> 3);
			assert_int_equal(cks_copy_iterator_copy(&walk, slot->host, NULL),
					 CUDA_SUCCESS);
			fake_flush();
			at += walk.piece;
		}
		cks_ring_release(ring);
		assert_int_equal(at, w * h * d);
		for (at = 0; at < w * h * d; at++) {
			size_t x = at % w, y = at / w % h, z = at / w / h;

			if (device[((z + 1) * (h + 2) + y + 1) * (w + 8) + x + 3] !=
			    (unsigned char)(at * 31 >> 3))
				fail_msg("byte %zu of extent %zu", at, e);
		}
		free(device);
	}
}

static void impossible_boxes_are_refused(void **state)
{
	const CUDA_MEMCPY3D good = {
		.srcMemoryType = CU_MEMORYTYPE_DEVICE,
		.srcPitch = 64,
		.srcHeight = 64,
		.WidthInBytes = 64,
		.Height = 64,
		.Depth = 4,
	};
	CUDA_MEMCPY3D c = good;
	struct cks_copy_iterator walk;

	(void)state;
	assert_int_equal(cks_copy_iterator_box(&walk, false, &c), CUDA_SUCCESS);
	c.srcMemoryType = CU_MEMORYTYPE_UNIFIED;
	assert_int_equal(cks_copy_iterator_box(&walk, false, &c), CUDA_ERROR_INVALID_VALUE);
	c.srcMemoryType = CU_MEMORYTYPE_HOST; /* an address of the server's own */
	assert_int_equal(cks_copy_iterator_box(&walk, false, &c), CUDA_ERROR_INVALID_VALUE);
	c = good;
	c.WidthInBytes = c.Height = (size_t)1 << 40;
	assert_int_equal(cks_copy_iterator_box(&walk, false, &c), CUDA_ERROR_INVALID_VALUE);
	c = good;
	c.srcXInBytes = 1;
	assert_int_equal(cks_copy_iterator_box(&walk, false, &c), CUDA_ERROR_INVALID_VALUE);
	c.srcXInBytes = SIZE_MAX;
	assert_int_equal(cks_copy_iterator_box(&walk, false, &c), CUDA_ERROR_INVALID_VALUE);
	c = good;
	c.srcHeight = 63;
	assert_int_equal(cks_copy_iterator_box(&walk, false, &c), CUDA_ERROR_INVALID_VALUE);
	c = good;
	c.Depth = 0;
	assert_int_equal(cks_copy_iterator_box(&walk, false, &c), CUDA_SUCCESS);
	assert_false(cks_copy_iterator_next(&walk));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, make, drop)
	const struct CMUnitTest tests[] = {
		TEST(no_slot_is_used_again_before_its_copies_are_done),
		TEST(small_copies_share_a_slot_and_keep_their_bytes),
		TEST(another_stream_gets_another_slot),
		TEST(a_context_that_goes_takes_its_events_but_not_the_memory),
		TEST(downloads_at_the_same_time_have_rings_of_their_own),
		TEST(uploads_ahead_avoid_rings_that_wait),
		TEST(calls_avoid_slots_that_wait_for_a_stream),
		TEST(calls_on_a_short_link_use_few_rings),
		TEST(boxes_are_cut_without_loss),
		TEST(impossible_boxes_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
