/*
 * tests/unit/test_server_lanes.c - further connections of a move: which the receiver takes.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "rpc/chan.h"
#include "server/checkpoint/lanes.h"
#include "server/checkpoint/stream.h"

#define ADDRESS "127.0.0.1:9909" /* of the server; the port is another one */

struct talk {
	int ends[2];
	struct cks_lanes_door door;
	json_t *said;
	struct cks_lanes *lanes[2];
	struct cks_why why[2];
	pthread_t thread;
	int accepted;
};

static int setup(void **state)
{
	struct talk *t = calloc(1, sizeof(*t));

	*state = t;
	if (!t || socketpair(AF_UNIX, SOCK_STREAM, 0, t->ends) < 0)
		return -1;
	t->said = cks_lanes_listen(&t->door, "127.0.0.1:9999");
	return t->said ? 0 : -1;
}

static int teardown(void **state)
{
	struct talk *t = *state;

	cks_lanes_close(&t->door);
	cks_lanes_destroy(t->lanes[0]);
	cks_lanes_destroy(t->lanes[1]);
	json_decref(t->said);
	close(t->ends[0]);
	close(t->ends[1]);
	free(t);
	return 0;
}

static void *accept_lanes(void *data)
{
	struct talk *t = data;
	json_t *json = cks_stream_read(t->ends[1], &t->why[1]);

	t->accepted = json ? cks_lanes_accept(&t->door, t->ends[1], json, &t->lanes[1], &t->why[1])
			   : -EPIPE;
	json_decref(json);
	return NULL;
}

static int dial(struct talk *t)
{
	int ret;

	assert_int_equal(pthread_create(&t->thread, NULL, accept_lanes, t), 0);
	ret = cks_lanes_dial(t->said, ADDRESS, t->ends[0], &t->lanes[0], &t->why[0]);
	if (ret == 0 && !t->lanes[0])
		shutdown(t->ends[0], SHUT_WR);
	pthread_join(t->thread, NULL);
	return ret;
}

static struct ck_chan *connect_to(const struct talk *t, int *error)
{
	struct ck_chan *chan = NULL;
	char address[32];

	snprintf(address, sizeof(address), "127.0.0.1:%d",
		 (int)json_integer_value(json_object_get(t->said, "port")));
	*error = ck_chan_dial(address, 5000, &chan);
	return chan;
}

static int put(void *data, struct ck_chan *chan, size_t task)
{
	unsigned char byte = (unsigned char)task;
	struct iovec iov = {.iov_base = &byte, .iov_len = 1};

	(void)data;
	return ck_chan_writev(chan, &iov, 1);
}

static int get(void *data, struct ck_chan *chan, size_t task)
{
	unsigned char byte = 0;
	int ret = ck_chan_read(chan, &byte, 1);

	(void)data;
	return ret == 0 && byte != task ? -EBADMSG : ret;
}

static void give(struct cks_lanes *lanes, size_t count)
{
	for (size_t i = 0, task; i < count; i++) {
		assert_int_equal(cks_lanes_next(lanes, &task), 0);
		assert_int_equal(task, i);
		cks_lanes_give(lanes);
	}
}

static void test_tasks_meet_on_the_same_connection(void **state)
{
	struct talk *t = *state;

	assert_int_equal(dial(t), 0);
	assert_true(t->accepted == 0 && t->lanes[0] && t->lanes[1]);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(cks_lanes_start(t->lanes[0], put, NULL, -1), 0);
		assert_int_equal(cks_lanes_start(t->lanes[1], get, NULL, -1), 0);
		give(t->lanes[0], CKS_LANES_TASKS - 1);
		give(t->lanes[1], CKS_LANES_TASKS - 1);
		assert_int_equal(cks_lanes_stop(t->lanes[0], false), 0);
		assert_int_equal(cks_lanes_stop(t->lanes[1], false), 0);
	}
}

static void test_there_are_no_more_than_the_move_has(void **state)
{
	struct talk *t = *state;
	int error;

	assert_int_equal(dial(t), 0);
	assert_non_null(t->lanes[1]);
	assert_null(connect_to(t, &error));
	assert_int_equal(error, -ECONNREFUSED);
}

static void test_a_wrong_key_has_no_connection(void **state)
{
	static const char *const keys[] = {
		"0000000000000000000000000000000000000000000000000000000000000000", "00", ""};
	struct talk *t = *state;

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		json_object_set_new(t->said, "secret", json_string(keys[i]));
		assert_int_equal(dial(t), 0);
		assert_true(!t->lanes[0] && !t->lanes[1]);
		close(t->ends[0]);
		close(t->ends[1]);
		assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, t->ends), 0);
	}
}

static void test_strangers_are_closed(void **state)
{
	struct iovec text = {.iov_base = (char *)"GET / HTTP/1.0\r\n\r\n", .iov_len = 18};
	struct talk *t = *state;
	struct ck_chan *strangers[2];
	unsigned char byte;
	int error;

	for (int i = 0; i < 2; i++) {
		strangers[i] = connect_to(t, &error);
		assert_non_null(strangers[i]);
	}
	ck_chan_writev(strangers[0], &text, 1);
	assert_int_equal(dial(t), 0);
	assert_true(t->lanes[0] && t->lanes[1]);
	for (int i = 0; i < 2; i++) {
		ck_chan_timeout(strangers[i], 30000);
		while ((error = ck_chan_read(strangers[i], &byte, 1)) == 0)
			;
		assert_int_not_equal(error, -ETIMEDOUT);
		ck_chan_close(strangers[i]);
	}
}

/* The head of a long record, and then one byte after the other. */
static void *drip(void *data)
{
	static const unsigned char head[] = {0x16, 3, 1, 0x20, 0};
	const struct timespec pause = {.tv_nsec = 200000000};
	int ret = 0;

	for (size_t i = 0; ret == 0; i++) {
		unsigned char byte = i < sizeof(head) ? head[i] : 1;
		struct iovec iov = {.iov_base = &byte, .iov_len = 1};

		ret = ck_chan_writev(data, &iov, 1);
		nanosleep(&pause, NULL);
	}
	return NULL;
}

static void test_a_slow_stranger_is_closed_too(void **state)
{
	struct talk *t = *state;
	struct ck_chan *stranger;
	pthread_t thread;
	int error;

	stranger = connect_to(t, &error);
	assert_non_null(stranger);
	assert_int_equal(pthread_create(&thread, NULL, drip, stranger), 0);
	assert_int_equal(dial(t), 0);
	assert_true(t->lanes[0] && t->lanes[1]);
	pthread_join(thread, NULL);
	ck_chan_close(stranger);
}

static void test_another_number_is_refused(void **state)
{
	const json_int_t numbers[] = {0, -1, 1, CKS_LANES + 1, INT64_MAX};
	struct talk *t = *state;

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		json_t *json = json_pack("{s:I}", "lanes", numbers[i]);

		assert_int_equal(
			cks_lanes_accept(&t->door, t->ends[1], json, &t->lanes[1], &t->why[1]),
			-EBADMSG);
		json_decref(json);
	}
	/* and a second time */
	assert_int_equal(dial(t), 0);
	cks_stream_write(t->ends[0], json_pack("{s:i}", "lanes", CKS_LANES));
	cks_lanes_destroy(t->lanes[1]);
	accept_lanes(t);
	assert_int_equal(t->accepted, -EBADMSG);
	assert_null(t->lanes[1]);
}

static void test_a_door_of_another_form_is_not_used(void **state)
{
	static const char *const texts[] = {"{}", "[]", "7", "{\"port\":1}",
					    "{\"port\":70000,\"secret\":\"00\"}"};
	struct talk *t = *state;

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		json_t *json = json_loads(texts[i], JSON_DECODE_ANY, NULL);

		assert_int_equal(
			cks_lanes_dial(json, ADDRESS, t->ends[0], &t->lanes[0], &t->why[0]), 0);
		assert_null(t->lanes[0]);
		json_decref(json);
	}
	/* a program that listens at no host's port has no others */
	assert_int_equal(cks_lanes_dial(t->said, "unix:/x", t->ends[0], &t->lanes[0], &t->why[0]),
			 0);
	assert_null(t->lanes[0]);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_tasks_meet_on_the_same_connection),
		TEST(test_there_are_no_more_than_the_move_has),
		TEST(test_a_wrong_key_has_no_connection),
		TEST(test_strangers_are_closed),
		TEST(test_a_slow_stranger_is_closed_too),
		TEST(test_another_number_is_refused),
		TEST(test_a_door_of_another_form_is_not_used),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
