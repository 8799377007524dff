/*
 * tests/unit/test_server_stream.c - the messages of two servers while a session moves; a message of
 * another form is an error.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "server/checkpoint/move.h"
#include "server/checkpoint/store.h"
#include "server/checkpoint/stream.h"
#include "server_place.h"
#include "util/process/fd.h"

/* Both ends, and a folder. */
struct talk {
	int ends[2];
	struct place place;
};

static int setup(void **state)
{
	struct talk *t = calloc(1, sizeof(*t));

	*state = t;
	return !t || place_open(&t->place) < 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, t->ends) < 0
		       ? -1
		       : 0;
}

static void hang_up(struct talk *t)
{
	close(t->ends[0]);
	t->ends[0] = -1;
}

static int teardown(void **state)
{
	struct talk *t = *state;

	if (t->ends[0] >= 0)
		close(t->ends[0]);
	close(t->ends[1]);
	place_close(&t->place);
	free(t);
	return 0;
}

static void say(struct talk *t, uint32_t size, const char *text)
{
	uint32_t head = htonl(size);

	assert_int_equal(ck_fd_write_full(t->ends[0], &head, sizeof(head)), 0);
	assert_int_equal(ck_fd_write_full(t->ends[0], text, strlen(text)), 0);
}

static void test_objects_arrive_in_order(void **state)
{
	struct talk *t = *state;
	json_t *json;

	for (int i = 0; i < 3; i++)
		assert_int_equal(cks_stream_write(t->ends[0], json_pack("{s:i}", "n", i)), 0);
	for (int i = 0; i < 3; i++) {
		json = cks_stream_read(t->ends[1], &t->place.why);
		assert_int_equal(json_integer_value(json_object_get(json, "n")), i);
		json_decref(json);
	}
	assert_int_equal(cks_stream_write(t->ends[0], NULL), -ENOMEM);
}

static void test_an_end_is_reported(void **state)
{
	struct talk *t = *state;

	hang_up(t);
	assert_null(cks_stream_read(t->ends[1], &t->place.why));
	assert_non_null(strstr(t->place.why.text, "has ended the connection"));
}

static void test_an_object_that_ends_early_is_an_error(void **state)
{
	struct talk *t = *state;

	say(t, 20, "{\"ok\":");
	hang_up(t);
	assert_null(cks_stream_read(t->ends[1], &t->place.why));
}

static void test_other_text_is_refused(void **state)
{
	static const char *const texts[] = {"[1]", "7", "{", "", "{\"a\":1,\"a\":2}", "\xff"};
	struct talk *t = *state;

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		say(t, (uint32_t)strlen(texts[i]), texts[i]);
		assert_null(cks_stream_read(t->ends[1], &t->place.why));
	}
	/* a size beyond all bounds is refused before there is memory for it */
	say(t, UINT32_MAX, "");
	assert_null(cks_stream_read(t->ends[1], &t->place.why));
}

static void send_and_take(struct talk *t, const char *name)
{
	json_t *json;

	assert_int_equal(cks_stream_send_file(t->ends[0], t->place.dir, name, &t->place.why), 0);
	json = cks_stream_read(t->ends[1], &t->place.why);
	assert_non_null(json);
	/* under another name, in the same folder */
	json_object_set_new(json, "file", json_string("copy"));
	assert_int_equal(cks_stream_take_file(t->ends[1], t->place.dir, json, &t->place.why), 0);
	/* a file that exists is not replaced */
	assert_true(cks_stream_take_file(t->ends[1], t->place.dir, json, &t->place.why) < 0);
	json_decref(json);
}

/* The GPUs of both ends are compared before anything is sent. */
static void test_a_session_for_other_gpus_is_refused_at_once(void **state)
{
	struct cks_manifest_gpu *here = calloc(1, sizeof(*here));
	struct cks_store store = {.dir = -1};
	struct cks_lanes_door door = {.fd = -1};
	struct talk *t = *state;
	struct cks_arrival arrival = {.criu = "/bin/false",
				      .stream = t->ends[1],
				      .store = &store,
				      .chunks = CK_CHUNKS_NONE,
				      .here = here,
				      .door = &door};

	assert_non_null(here);
	strcpy(here->machine, "x86_64");
	strcpy(here->driver, "emu");
	here->version = 13000;
	assert_int_equal(cks_stream_write(t->ends[0],
					  json_pack("{s:o}", "gpu", cks_manifest_gpu_json(here))),
			 0);
	here->version = 12080;
	assert_int_equal(cks_move_receive(&arrival, &t->place.why), -EXDEV);
	assert_non_null(strstr(t->place.why.text, "version 13000; here is emu, 12080"));
	assert_int_equal(cks_stream_write(t->ends[0], json_pack("{s:{s:i}}", "gpu", "version", 1)),
			 0);
	assert_int_equal(cks_move_receive(&arrival, &t->place.why), -EBADMSG);
	assert_int_equal(arrival.chunks.count, 0);
	free(here);
}

static void test_a_file_arrives_as_it_was(void **state)
{
	struct talk *t = *state;
	int fd = openat(t->place.dir, "original", O_RDWR | O_CREAT, 0600);
	char text[16] = "";

	assert_int_equal(write(fd, "some bytes", 10), 10);
	close(fd);
	send_and_take(t, "original");
	fd = openat(t->place.dir, "copy", O_RDONLY);
	assert_int_equal(read(fd, text, sizeof(text)), 10);
	assert_string_equal(text, "some bytes");
	close(fd);
}

static void test_a_name_that_leads_elsewhere_is_refused(void **state)
{
	static const char *const names[] = {"../x", "/x", "", ".", "..", ".x"};
	struct talk *t = *state;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		json_t *json = json_pack("{s:s, s:i}", "file", names[i], "size", 0);

		assert_int_equal(
			cks_stream_take_file(t->ends[1], t->place.dir, json, &t->place.why),
			-EBADMSG);
		json_decref(json);
	}
}

static void test_a_file_that_ends_early_is_an_error(void **state)
{
	struct talk *t = *state;
	json_t *json = json_pack("{s:s, s:i}", "file", "x", "size", 100);

	assert_int_equal(write(t->ends[0], "short", 5), 5);
	hang_up(t);
	assert_true(cks_stream_take_file(t->ends[1], t->place.dir, json, &t->place.why) < 0);
	json_decref(json);
	json = json_pack("{s:s, s:i}", "file", "y", "size", -1);
	assert_int_equal(cks_stream_take_file(t->ends[1], t->place.dir, json, &t->place.why),
			 -EBADMSG);
	json_decref(json);
}

static void test_a_result_counts_when_the_sender_has_confirmed_it(void **state)
{
	struct talk *t = *state;

	cks_stream_write(t->ends[0], json_pack("{s:b}", "ok", 1));
	assert_int_equal(cks_move_confirm(t->ends[1], json_pack("{s:b}", "ok", 1)), 0);
	cks_stream_write(t->ends[0], json_pack("{s:b}", "ok", 0));
	assert_int_equal(cks_move_confirm(t->ends[1], json_pack("{s:b}", "ok", 1)), -ECANCELED);
	hang_up(t);
	assert_int_equal(cks_move_confirm(t->ends[1], json_pack("{s:b}", "ok", 1)), -EPIPE);
}

static void test_the_last_word_of_a_sender_that_has_gone_counts(void **state)
{
	struct talk *t = *state;

	cks_stream_write(t->ends[0], json_pack("{s:b}", "ok", 0));
	assert_false(cks_stream_waits(t->ends[1]));
	hang_up(t);
	assert_int_equal(cks_move_confirm(t->ends[1], json_pack("{s:b}", "ok", 1)), -ECANCELED);
}

/* --- a receiver that stands still, and one that is slow */

static void test_a_receiver_that_says_nothing_ends_the_exchange(void **state)
{
	struct talk *t = *state;

	cks_stream_limit(t->ends[0], 100);
	assert_int_equal(cks_stream_result(t->ends[0], &t->place.why), -EPIPE);
	assert_non_null(strstr(t->place.why.text, "stood still"));
}

#define SLOW_BLOCK ((size_t)64 << 10)
#define SLOW_BLOCKS 60
#define SLOW_MS 50

static void *take_slowly(void *data)
{
	static char block[SLOW_BLOCK];
	struct talk *t = data;

	for (int i = 0; i < SLOW_BLOCKS; i++) {
		usleep(SLOW_MS * 1000);
		ck_fd_read_full(t->ends[1], block, sizeof(block));
	}
	return NULL;
}

static void test_a_receiver_that_takes_nothing_ends_the_exchange(void **state)
{
	char *bytes = calloc(1, 1 << 20);
	struct cks_stream_watch watch;
	struct talk *t = *state;

	assert_non_null(bytes);
	assert_int_equal(cks_stream_watch_begin(&watch, t->ends[0], 100), 0);
	assert_int_equal(ck_fd_write_full(t->ends[0], bytes, 1 << 20), -EPIPE);
	assert_true(cks_stream_watch_end(&watch));
	free(bytes);
}

/* All of it takes longer than the limit. */
static void test_a_slow_receiver_gets_all(void **state)
{
	char *bytes = calloc(SLOW_BLOCKS, SLOW_BLOCK);
	struct cks_stream_watch watch;
	struct talk *t = *state;
	pthread_t thread;

	assert_non_null(bytes);
	assert_int_equal(cks_stream_watch_begin(&watch, t->ends[0], SLOW_BLOCKS * SLOW_MS / 2), 0);
	assert_int_equal(pthread_create(&thread, NULL, take_slowly, t), 0);
	assert_int_equal(ck_fd_write_full(t->ends[0], bytes, SLOW_BLOCKS * SLOW_BLOCK), 0);
	pthread_join(thread, NULL);
	assert_false(cks_stream_watch_end(&watch));
	free(bytes);
}

static void test_a_receiver_says_that_it_is_at_work(void **state)
{
	struct talk *t = *state;
	json_t *asks = json_pack("{s:b}", "alive", 1), *older = json_object();
	struct cks_alive alive;

	cks_stream_alive_begin(&alive, t->ends[1], older);
	cks_stream_alive(&alive);
	assert_true(cks_stream_waits(t->ends[0]));
	cks_stream_alive_begin(&alive, t->ends[1], asks);
	cks_stream_alive(&alive);
	assert_false(cks_stream_waits(t->ends[0]));
	cks_stream_write(t->ends[1], json_pack("{s:b, s:s}", "ok", 0, "error", "no room"));
	assert_int_equal(cks_stream_result(t->ends[0], &t->place.why), -EREMOTEIO);
	assert_non_null(strstr(t->place.why.text, "no room"));
	json_decref(asks);
	json_decref(older);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_objects_arrive_in_order),
		TEST(test_an_end_is_reported),
		TEST(test_an_object_that_ends_early_is_an_error),
		TEST(test_other_text_is_refused),
		TEST(test_a_session_for_other_gpus_is_refused_at_once),
		TEST(test_a_file_arrives_as_it_was),
		TEST(test_a_name_that_leads_elsewhere_is_refused),
		TEST(test_a_file_that_ends_early_is_an_error),
		TEST(test_a_result_counts_when_the_sender_has_confirmed_it),
		TEST(test_the_last_word_of_a_sender_that_has_gone_counts),
		TEST(test_a_receiver_that_takes_nothing_ends_the_exchange),
		TEST(test_a_receiver_that_says_nothing_ends_the_exchange),
		TEST(test_a_slow_receiver_gets_all),
		TEST(test_a_receiver_says_that_it_is_at_work),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
