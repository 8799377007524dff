/*
 * tests/unit/test_server_state.c - what a server passes to its successor, of this release, of older
 * and newer ones, and broken.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "server/options/options.h"
#include "server/processes/sockets.h"
#include "server/processes/state.h"
#include "util/util.h"

static struct cks_state_worker workers[] = {
	{.info = {.pid = 70,
		  .number = 12,
		  .program = "python3",
		  .client_pid = 4000000000,
		  .mps = 3,
		  .memory = 1ull << 40,
		  .gpus = {7, 0, 4000000000},
		  .moved = 3,
		  .suspension = {.state = CK_SUSPENDED,
				 .held = true,
				 .wanted = true,
				 .bytes = 5,
				 .there = "GPU-1,GPU-2"},
		  .owner = {.peer = {.kind = CK_PEER_NETWORK, .bytes = {0xfe, 0x80, 1}},
			    .identity = {.name = "user \"7\"", .key.bytes = {1, 0xff, 2}}}},
	 .control = 20,
	 .process = 21,
	 .serving = true,
	 .named = true,
	 .session = "0123456789abcde"},
	{.info.pid = 71, .control = -1},
};
static struct cks_state_mps mps[] = {{.number = 3,
				      .pid = 80,
				      .messenger = 81,
				      .identity = {.name = "alice", .key.bytes = {1, 2}},
				      .gpus = "0,1",
				      .folder = "/run/cricket-mps-70-3",
				      .quits = true,
				      .lost = 5}};
static struct cks_state_fresh fresh[] = {{.fd = 30, .deadline = 123456789012, .answered = true},
					 {.fd = 31}};
static struct cks_state_caller callers[] = {
	{.fd = 40,
	 .passed = 41,
	 .user = 1000,
	 .limited = true,
	 .in = (char *)(uintptr_t) "{\"\xc3", /* half of a letter */
	 .in_size = 3},
	{.fd = 42, .passed = -1, .out = (char *)(uintptr_t) "}\n", .out_size = 2},
};

/* A state with something in each field; it owns nothing. */
static struct cks_state full(void)
{
	struct cks_state s = {
		.driver = "emu",
		.pid_file = 7,
		.drain_by = 9876543210,
		.listeners = {.count = 2, .list = {{.fd = 8}, {.fd = 9}}},
		.broker.fd = 10,
		.broker_pid = 72,
		.broker_process = 13,
		.broker_leash = 14,
		.rendezvous.fd = 15,
		.control.fd = 11,
		.status.fd = 16,
		.asker = 12,
		.workers = workers,
		.worker_count = CK_ARRAY_SIZE(workers),
		.numbered = 12,
		.mps = mps,
		.mps_count = CK_ARRAY_SIZE(mps),
		.fresh = fresh,
		.fresh_count = CK_ARRAY_SIZE(fresh),
		.callers = callers,
		.caller_count = CK_ARRAY_SIZE(callers),
	};

	s.listeners.list[1].file.st_dev = 3;
	s.listeners.list[1].file.st_ino = (ino_t)-1;
	s.broker.file.st_ino = 77;
	s.control.file.st_ino = 78;
	return s;
}

static void expect_callers(const struct cks_state *s)
{
	const struct cks_state_caller *c = s->callers;

	assert_int_equal(s->caller_count, CK_ARRAY_SIZE(callers));
	assert_true(c[0].fd == 40 && c[0].passed == 41 && c[0].user == 1000 && c[0].limited);
	assert_int_equal(c[0].in_size, 3);
	assert_memory_equal(c[0].in, "{\"\xc3", 3);
	assert_null(c[0].out);
	assert_true(c[1].fd == 42 && c[1].passed == -1 && c[1].user == 0 && !c[1].limited);
	assert_null(c[1].in);
	assert_int_equal(c[1].out_size, 2);
	assert_memory_equal(c[1].out, "}\n", 2);
}

static void expect_workers(const struct cks_state *s)
{
	const struct cks_state_worker *w = s->workers;

	assert_int_equal(s->worker_count, 2);
	assert_true(w[0].process == 21 && w[1].process == 0);
	assert_true(w[0].control == 20 && w[0].serving && w[0].named);
	assert_memory_equal(w[0].session, workers[0].session, 16);
	assert_memory_equal(&w[0].info, &workers[0].info, sizeof(w[0].info));
	assert_true(w[1].info.pid == 71 && w[1].control == -1 && !w[1].serving && !w[1].named);
}

static void expect_mps(const struct cks_state *s)
{
	assert_int_equal(s->mps_count, 1);
	assert_true(s->mps[0].number == 3 && s->mps[0].pid == 80 && s->mps[0].messenger == 81);
	assert_memory_equal(&s->mps[0].identity, &mps[0].identity, sizeof(mps[0].identity));
	assert_string_equal(s->mps[0].gpus, mps[0].gpus);
	assert_string_equal(s->mps[0].folder, mps[0].folder);
	assert_true(s->mps[0].quits && s->mps[0].lost == 5);
}

static void expect_full(const struct cks_state *s)
{
	assert_string_equal(s->driver, "emu");
	assert_true(s->pid_file == 7 && s->drain_by == 9876543210);
	assert_int_equal(s->listeners.count, 2);
	assert_true(s->listeners.list[0].fd == 8 && s->listeners.list[1].fd == 9);
	assert_true(s->listeners.list[1].file.st_dev == 3);
	assert_true(s->listeners.list[1].file.st_ino == (ino_t)-1);
	assert_true(s->broker.fd == 10 && s->broker_pid == 72 && s->broker.file.st_ino == 77);
	assert_true(s->broker_process == 13 && s->broker_leash == 14 && s->rendezvous.fd == 15);
	assert_true(s->control.fd == 11 && s->control.file.st_ino == 78 && s->asker == 12);
	assert_int_equal(s->status.fd, 16);
	expect_callers(s);
	assert_int_equal(s->numbered, 12);
	expect_workers(s);
	expect_mps(s);
	assert_int_equal(s->fresh_count, 2);
	assert_true(s->fresh[0].fd == 30 && s->fresh[0].deadline == 123456789012);
	assert_true(s->fresh[0].answered && s->fresh[1].fd == 31 && !s->fresh[1].answered);
}

static int parse(const char *text, struct cks_state *s)
{
	return cks_state_parse(text, strlen(text), s);
}

static void what_is_written_is_read(void **unused)
{
	struct cks_state s = full(), again;
	char *text = cks_state_print(&s);

	(void)unused;
	assert_non_null(text);
	assert_int_equal(parse(text, &again), 0);
	expect_full(&again);
	cks_state_free(&again);
	free(text);
}

static void a_name_in_any_encoding_is_passed_on(void **unused)
{
	struct cks_state_worker odd = {
		.info = {.pid = 70, .program = "\x01", .owner.identity.name = "J\xf6rg\n"},
		.control = 20,
		.serving = true};
	struct cks_state s, again;
	char *text;

	(void)unused;
	cks_state_init(&s);
	s.workers = &odd;
	s.worker_count = 1;
	text = cks_state_print(&s);
	assert_non_null(text);
	assert_int_equal(parse(text, &again), 0);
	assert_string_equal(again.workers[0].info.owner.identity.name, "J?rg?");
	assert_string_equal(again.workers[0].info.program, "?");
	cks_state_free(&again);
	free(text);
}

static void a_truncated_state_is_refused(void **unused)
{
	struct cks_state s = full(), again;
	char *text = cks_state_print(&s);

	(void)unused;
	for (size_t n = 0; n < strlen(text); n++) {
		char *part = memcpy(malloc(n + 1), text, n); /* so that a read beyond it is seen */

		assert_int_equal(cks_state_parse(part, n, &again), -EPROTO);
		assert_true(!again.workers && again.pid_file == -1 && again.broker.fd == -1);
		free(part);
	}
	free(text);
}

static void an_older_release_may_leave_fields_out(void **unused)
{
	struct cks_state s;

	(void)unused;
	assert_int_equal(parse("{\"readable_by\": 1}", &s), 0);
	assert_true(s.pid_file == -1 && s.broker.fd == -1 && s.listeners.count == 0);
	assert_true(s.control.fd == -1 && s.asker == -1 && s.rendezvous.fd == -1);
	assert_true(s.status.fd == -1 && s.caller_count == 0);
	assert_true(s.worker_count == 0 && s.fresh_count == 0 && s.drain_by == 0);
	assert_string_equal(cks_state_driver(&s, "emu"), "emu");
	cks_state_free(&s);
	assert_int_equal(parse("{\"readable_by\": 1, \"workers\": [{\"pid\": 70}]}", &s), 0);
	assert_true(s.workers[0].serving && s.workers[0].control == -1 && !s.workers[0].named);
	cks_state_free(&s);
}

static void a_newer_release_may_say_more(void **unused)
{
	struct cks_state s;

	(void)unused;
	assert_int_equal(parse("{\"readable_by\": 1, \"format\": 9, \"moons\": [{}], \"workers\": ["
			       "{\"pid\": 70, \"state\": \"asleep\", \"dreams\": 2.5, "
			       "\"owner\": {\"peer\": {\"kind\": \"martian\", \"bytes\": "
			       "\"00112233445566778899aabbccddeeff\"}}}]}",
			       &s),
			 0);
	assert_true(s.worker_count == 1 && s.workers[0].serving);
	assert_true(s.workers[0].info.owner.peer.kind == CK_PEER_UNKNOWN);
	assert_int_equal(s.workers[0].info.owner.peer.bytes[15], 0xff);
	cks_state_free(&s);
}

static void what_this_release_cannot_read_is_refused(void **unused)
{
	static const char *const texts[] = {
		"",
		"[]",
		"7",
		"{}",
		"null",
		"{\"readable_by\": 2}",
		"{\"readable_by\": 0}",
		"{\"readable_by\": \"1\"}",
		"{\"readable_by\": 1} more",
	};
	/* behind a readable_by that is right */
	static const char *const fields[] = {
		"\"pid_file\": 0",
		"\"pid_file\": -1",
		"\"pid_file\": 16777217",
		"\"pid_file\": 1e9",
		"\"pid_file\": 99999999999999999999999",
		"\"drain_by\": -1",
		"\"drain_by\": \"soon\"",
		"\"broker\": 5",
		"\"broker\": {}",
		"\"broker\": {\"fd\": 2}",
		"\"broker\": {\"fd\": 5, \"pid\": 1}",
		"\"broker\": {\"fd\": 5, \"pid\": -1}",
		"\"rendezvous\": {}",
		"\"broker\": {\"fd\": 5, \"process\": 6}",
		"\"broker\": {\"fd\": 5, \"leash\": 6}",
		"\"workers\": [{\"pid\": 5, \"process\": 0}]",
		"\"broker\": {\"fd\": 5, \"inode\": {}}",
		"\"control\": {\"fd\": 1}",
		"\"asker\": 0",
		"\"status\": {\"fd\": 0}",
		"\"callers\": {}",
		"\"callers\": [{}]",
		"\"callers\": [{\"fd\": 5, \"passed\": 2}]",
		"\"callers\": [{\"fd\": 5, \"in\": \"7z\"}]",
		"\"callers\": [{\"fd\": 5, \"user\": -1}]",
		"\"mps\": [{\"number\": 0, \"pid\": 80, \"folder\": \"/run/x\"}]",
		"\"mps\": [{\"number\": 1, \"pid\": 1, \"folder\": \"/run/x\"}]",
		"\"mps\": [{\"number\": 1, \"pid\": 80, \"folder\": \"x\"}]",
		"\"listeners\": {}",
		"\"listeners\": [[]]",
		"\"listeners\": [{\"fd\": null}]",
		"\"workers\": 1",
		"\"workers\": [1]",
		"\"workers\": [{}]",
		"\"workers\": [{\"pid\": 0}]",
		"\"workers\": [{\"pid\": 1}]",
		"\"workers\": [{\"pid\": -1}]",
		"\"workers\": [{\"pid\": 5, \"control\": 2}]",
		"\"workers\": [{\"pid\": 5, \"session\": \"00\"}]",
		"\"workers\": [{\"pid\": 5, \"session\": \"00112233445566778899aabbccddeefg\"}]",
		"\"workers\": [{\"pid\": 5, \"session\": 5}]",
		"\"workers\": [{\"pid\": 5, \"owner\": {\"identity\": {\"key\": \"00\"}}}]",
		"\"fresh\": {\"fd\": 5}",
		"\"fresh\": [{\"deadline\": 5}]",
		"\"fresh\": [{\"fd\": 5, \"deadline\": -5}]",
	};
	char text[256];
	struct cks_state s;

	(void)unused;
	for (size_t i = 0; i < CK_ARRAY_SIZE(texts); i++)
		assert_int_equal(parse(texts[i], &s), -EPROTO);
	for (size_t i = 0; i < CK_ARRAY_SIZE(fields); i++) {
		snprintf(text, sizeof(text), "{\"readable_by\": 1, %s}", fields[i]);
		if (parse(text, &s) != -EPROTO)
			fail_msg("%s is taken", text);
	}
}

static void there_is_no_room_for_too_many_listeners(void **unused)
{
	char text[32 * (CK_LISTENERS + 1) + 64] =
		"{\"readable_by\": 1, \"listeners\": [{\"fd\": 5}";
	struct cks_state s;

	(void)unused;
	for (int i = 0; i < CK_LISTENERS; i++)
		strcat(text, ", {\"fd\": 5}");
	strcat(text, "]}");
	assert_int_equal(parse(text, &s), -EPROTO);
}

static void only_a_sealed_file_is_read(void **unused)
{
	struct cks_state s = full(), again;
	int fd = cks_state_write(&s), open_one = memfd_create("state", MFD_ALLOW_SEALING);

	(void)unused;
	assert_true(fd >= 0 && open_one >= 0);
	assert_int_equal(write(fd, "x", 1), -1);
	assert_int_equal(ftruncate(fd, 0), -1);
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	assert_int_equal(cks_state_read(fd, &again), 0);
	expect_full(&again);
	cks_state_free(&again);
	assert_int_equal(cks_state_read(fd, &again), 0); /* as often as wanted */
	cks_state_free(&again);
	assert_int_equal(write(open_one, "{\"readable_by\": 1}", 18), 18);
	assert_int_equal(cks_state_read(open_one, &again), -EPERM);
	assert_int_equal(cks_state_read(STDIN_FILENO, &again), -EPERM);
	close(fd);
	close(open_one);
}

static int any(void)
{
	return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static void descriptors_survive_an_exec_when_told_to(void **unused)
{
	struct cks_state_worker worker = {.control = any(), .process = any()};
	struct cks_state_fresh one = {.fd = any()};
	struct cks_state_caller caller = {.fd = any(), .passed = any()};
	struct cks_state s = {.pid_file = any(),
			      .listeners = {.count = 1, .list[0].fd = any()},
			      .broker.fd = any(),
			      .broker_process = any(),
			      .broker_leash = any(),
			      .control.fd = any(),
			      .status.fd = any(),
			      .asker = any(),
			      .rendezvous.fd = any(),
			      .workers = &worker,
			      .worker_count = 1,
			      .fresh = &one,
			      .fresh_count = 1,
			      .callers = &caller,
			      .caller_count = 1};
	const int fds[] = {
		worker.control,		worker.process, one.fd,	      s.pid_file,   s.broker.fd,
		s.broker_process,	s.broker_leash, s.control.fd, s.asker,	    s.rendezvous.fd,
		s.listeners.list[0].fd, s.status.fd,	caller.fd,    caller.passed};

	(void)unused;
	assert_int_equal(cks_state_inherit(&s, true), 0);
	for (size_t i = 0; i < CK_ARRAY_SIZE(fds); i++)
		assert_false(fcntl(fds[i], F_GETFD) & FD_CLOEXEC);
	assert_int_equal(cks_state_inherit(&s, false), 0);
	for (size_t i = 0; i < CK_ARRAY_SIZE(fds); i++)
		assert_true(fcntl(fds[i], F_GETFD) & FD_CLOEXEC);
	for (size_t i = 0; i < CK_ARRAY_SIZE(fds); i++) {
		int copy = fcntl(fds[i], F_DUPFD_CLOEXEC, 100);

		close(fds[i]);
		assert_int_equal(cks_state_inherit(&s, false), -EBADF);
		dup2(copy, fds[i]);
		close(copy);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_written_is_read),
		cmocka_unit_test(a_name_in_any_encoding_is_passed_on),
		cmocka_unit_test(a_truncated_state_is_refused),
		cmocka_unit_test(an_older_release_may_leave_fields_out),
		cmocka_unit_test(a_newer_release_may_say_more),
		cmocka_unit_test(what_this_release_cannot_read_is_refused),
		cmocka_unit_test(there_is_no_room_for_too_many_listeners),
		cmocka_unit_test(only_a_sealed_file_is_read),
		cmocka_unit_test(descriptors_survive_an_exec_when_told_to),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
