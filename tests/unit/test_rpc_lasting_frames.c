/*
 * tests/unit/test_rpc_lasting_frames.c - one end of a lasting channel against frames, goodbyes and
 * breaks of its peer.
 */
#define _GNU_SOURCE
#include "tests/unit/rpc_lasting.h"

static void a_frame_that_no_peer_sends_ends_the_channel(void **state)
{
	static const uint32_t heads[][2] = {
		{(1u << 20) + 1, 0}, /* too long */
		{0x80000004u, 0},    /* an unknown flag */
		{0, 1},		     /* confirms bytes that were never sent */
		{0, 0xffffffffu},
	};
	char byte;

	(void)state;
	for (size_t i = 0; i < CK_ARRAY_SIZE(heads); i++) {
		struct ck_chan *lasting, *plain;
		int why;

		create_against(&lasting, &plain, CK_LASTING_LIMIT);
		send_head(plain, heads[i][0], heads[i][1]);
		assert_int_equal(ck_chan_read(lasting, &byte, 1), -EPROTO);
		assert_int_equal(ck_lasting_state(lasting, &why), CK_LASTING_ENDED);
		assert_int_equal(why, -EPROTO);
		ck_chan_close(lasting);
		ck_chan_close(plain);
	}
}

static void a_goodbye_ends_reads_after_the_data(void **state)
{
	struct ck_chan *chan[2];
	struct iovec iov = {(char *)(uintptr_t) "last", 4};
	char text[4];

	(void)state;
	create_pair(chan, CK_LASTING_LIMIT);
	link_pair(chan, NEVER, NEVER, false);
	assert_int_equal(ck_chan_writev(chan[0], &iov, 1), 0);
	ck_lasting_bye(chan[0], 1000);
	assert_int_equal(ck_chan_read(chan[1], text, 4), 0);
	assert_memory_equal(text, "last", 4);
	assert_int_equal(ck_chan_read(chan[1], text, 1), -EPIPE);
	assert_true(ck_chan_peer_gone(chan[1]));
	close_pair(chan);
}

static void an_end_without_a_goodbye_is_not_the_channels(void **state)
{
	struct ck_chan *lasting, *plain;
	char byte;
	int why;

	(void)state;
	create_against(&lasting, &plain, CK_LASTING_LIMIT);
	ck_chan_close(plain);
	ck_lasting_look(lasting, false);
	assert_int_equal(ck_lasting_state(lasting, &why), CK_LASTING_DOWN);
	assert_int_equal(why, -EPIPE);
	assert_false(ck_chan_peer_gone(lasting));
	ck_chan_timeout(lasting, 50);
	assert_int_equal(ck_chan_read(lasting, &byte, 1), -ETIMEDOUT);
	ck_chan_shutdown(lasting);
	assert_int_equal(ck_chan_read(lasting, &byte, 1), -EPIPE);
	ck_chan_close(lasting);
}

/* A client that closes its end is gone; after a reset it may come back. */
static void a_write_that_fails_does_not_say_that_the_peer_closed(void **state)
{
	struct iovec iov = {(char *)(uintptr_t) "four", 4};
	struct ck_chan *lasting, *plain;
	int why;

	(void)state;
	create_against(&lasting, &plain, CK_LASTING_LIMIT);
	assert_int_equal(shutdown(ck_chan_fd(lasting), SHUT_WR), 0); /* the next write gets EPIPE */
	assert_int_equal(ck_chan_writev(lasting, &iov, 1), 0);	     /* it is sent again later */
	assert_int_equal(ck_lasting_state(lasting, &why), CK_LASTING_DOWN);
	assert_int_equal(why, -ECONNRESET);
	ck_chan_close(lasting);
	ck_chan_close(plain);
}

static void *read_four(void *chan)
{
	uint32_t got = 0;

	check(ck_chan_read(chan, &got, sizeof(got)) == 0);
	return (void *)(uintptr_t)got;
}

/* Nothing more can be sent over @chan until its peer reads. */
static void fill_line(struct ck_chan *chan)
{
	static const char junk[4096];

	while (send(ck_chan_fd(chan), junk, sizeof(junk), MSG_DONTWAIT) > 0)
		;
}

/*
 * A reader that owes a confirmation waits for room to send it, without the lock. What another
 * thread buffers in this time is the reader's, even if nothing comes after it.
 */
static void a_reader_that_waits_for_room_sees_what_others_buffer(void **state)
{
	uint32_t head[3] = {htonl(4), 0, 0x01020304};
	struct iovec iov = {head, sizeof(head)};
	struct timespec until;
	struct ck_chan *lasting, *plain;
	struct ck_lasting *l;
	bool waits = false;
	pthread_t reader;
	void *got;

	(void)state;
	create_against(&lasting, &plain, CK_LASTING_LIMIT);
	l = ck_lasting_of(lasting);
	fill_line(l->inner);
	send_head(plain, 0x40000000u, 0); /* asks */
	assert_int_equal(pthread_create(&reader, NULL, read_four, lasting), 0);
	while (!waits) {
		pthread_mutex_lock(&l->lock);
		waits = l->owes && l->users > 0 && !l->reading;
		if (waits) {
			assert_int_equal(ck_chan_writev(plain, &iov, 1), 0);
			ck_lasting_drain_input(l, true);
		}
		pthread_mutex_unlock(&l->lock);
		usleep(100);
	}
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += 20;
	assert_int_equal(pthread_timedjoin_np(reader, &got, &until), 0);
	assert_int_equal((uintptr_t)got, 0x01020304);
	ck_chan_close(lasting);
	ck_chan_close(plain);
}

static void count_change(void *closure)
{
	(*(_Atomic unsigned int *)closure)++;
}

static void leave(void *closure, struct ck_chan *chan)
{
	(void)closure;
	(void)chan;
}

static void *read_one(void *chan)
{
	char byte;

	check(ck_chan_read(chan, &byte, 1) == 0);
	return NULL;
}

static bool is_read(struct ck_chan *chan)
{
	struct ck_lasting *l = ck_lasting_of(chan);
	bool reading;

	pthread_mutex_lock(&l->lock);
	reading = l->reading;
	pthread_mutex_unlock(&l->lock);
	return reading;
}

/* Keepers look at all channels when one of them changes; the reader of another has nothing to tell
 * them then. */
static void a_look_leaves_a_healthy_channel_alone(void **state)
{
	static _Atomic unsigned int changes;
	char bytes[1] = "x";
	const struct ck_lasting_owner owner = {
		.changed = count_change, .closing = leave, .closure = &changes};
	struct ck_chan *lasting, *ends[2];
	struct iovec iov = {bytes, 1};
	pthread_t thread;

	(void)state;
	socket_pair(ends);
	assert_int_equal(ck_lasting_create("peer", &owner, CK_LASTING_LIMIT, &lasting), 0);
	assert_int_equal(ck_lasting_attach(lasting, ends[0], 0, false), 0);
	changes = 0;
	assert_int_equal(pthread_create(&thread, NULL, read_one, lasting), 0);
	while (!is_read(lasting))
		usleep(100);
	ck_lasting_look(lasting, false);
	send_head(ends[1], 1, 0);
	assert_int_equal(ck_chan_writev(ends[1], &iov, 1), 0);
	pthread_join(thread, NULL);
	assert_int_equal(changes, 0);
	/* bytes wait for their reader, who has a place for them */
	send_head(ends[1], 1, 0);
	iov = (struct iovec){bytes, 1};
	assert_int_equal(ck_chan_writev(ends[1], &iov, 1), 0);
	ck_lasting_look(lasting, false);
	assert_int_equal(ck_frames_ready(&ck_lasting_of(lasting)->in), 0);
	ck_lasting_look(lasting, true);
	assert_int_equal(ck_frames_ready(&ck_lasting_of(lasting)->in), 1);
	ck_chan_close(lasting);
	ck_chan_close(ends[1]);
}

static void *send_frames(void *plain)
{
	static unsigned char much[CK_FRAME_MAX];

	for (int i = 0; i < 8; i++) {
		struct iovec iov = {much, sizeof(much)};
		uint32_t head[2] = {htonl(CK_FRAME_MAX), 0};
		struct iovec first = {head, sizeof(head)};

		check(ck_chan_writev(plain, &first, 1) == 0);
		check(ck_chan_writev(plain, &iov, 1) == 0);
	}
	return NULL;
}

/* It grows while bytes must be taken in without a reader. Later ones go to the reader's place,
 * without a detour. */
static void a_buffer_that_has_grown_is_given_up(void **state)
{
	unsigned char *to = malloc(8 * CK_FRAME_MAX);
	struct ck_chan *lasting, *plain;
	struct ck_frames *in;
	pthread_t thread;

	(void)state;
	create_against(&lasting, &plain, CK_LASTING_LIMIT);
	in = &ck_lasting_of(lasting)->in;
	assert_int_equal(pthread_create(&thread, NULL, send_frames, plain), 0);
	while (in->received < 4 * CK_FRAME_MAX)
		ck_lasting_look(lasting, true);
	assert_in_range(in->size, 4 * CK_FRAME_MAX, 16 * CK_FRAME_MAX);
	assert_int_equal(ck_chan_read(lasting, to, 8 * CK_FRAME_MAX - 1), 0);
	assert_int_equal(ck_chan_read(lasting, to, 1), 0);
	pthread_join(thread, NULL);
	send_head(plain, 1, 0);
	assert_int_equal(ck_chan_writev(plain, &(struct iovec){to, 1}, 1), 0);
	assert_int_equal(ck_chan_read(lasting, to, 1), 0);
	assert_in_range(in->size, 1, 64 << 10);
	free(to);
	ck_chan_close(lasting);
	ck_chan_close(plain);
}

static void a_link_of_a_peer_that_lies_is_refused(void **state)
{
	struct iovec iov = {(char *)(uintptr_t) "1234", 4};
	struct ck_chan *lasting, *plain, *ends[2];
	uint64_t received;

	(void)state;
	create_against(&lasting, &plain, CK_LASTING_LIMIT);
	assert_int_equal(ck_chan_writev(lasting, &iov, 1), 0);
	send_head(plain, 0, 3);
	ck_lasting_look(lasting, true);
	ck_lasting_detach(lasting, &received);
	socket_pair(ends);
	assert_int_equal(ck_lasting_attach(lasting, ends[0], 5, false), -EPROTO);
	ck_chan_close(ends[1]);
	socket_pair(ends);
	assert_int_equal(ck_lasting_attach(lasting, ends[0], 2, false), -ESTALE);
	ck_chan_close(ends[1]);
	ck_chan_close(lasting);
	ck_chan_close(plain);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_frame_that_no_peer_sends_ends_the_channel),
		cmocka_unit_test(a_goodbye_ends_reads_after_the_data),
		cmocka_unit_test(an_end_without_a_goodbye_is_not_the_channels),
		cmocka_unit_test(a_write_that_fails_does_not_say_that_the_peer_closed),
		cmocka_unit_test(a_reader_that_waits_for_room_sees_what_others_buffer),
		cmocka_unit_test(a_look_leaves_a_healthy_channel_alone),
		cmocka_unit_test(a_buffer_that_has_grown_is_given_up),
		cmocka_unit_test(a_link_of_a_peer_that_lies_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
