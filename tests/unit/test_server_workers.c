/*
 * tests/unit/test_server_workers.c - what workers tell the supervisor. The spare process is this
 * program again, which says at once that it is ready and that its client's session stands.
 */
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "server/children/workers.h"
#include "server/children/workers_part.h"
#include "server/life/drain.h"
#include "server/options/options.h"
#include "server/processes/messages.h"
#include "server/processes/session_info.h"
#include "server/processes/state.h"
#include "util/process/fd.h"

static const unsigned char session[16] = "a session's name";

/* A note of a release to come: of an unknown kind, and longer. */
static const struct {
	struct cks_worker_note note;
	char more[8];
} unheard_of = {.note.kind = 1000};

/* 0: a connection has come that joins. */
static int be_a_spare(void)
{
	struct cks_worker_note note;
	char kind = 0;
	int fd = -1;

	memset(&note, 0, sizeof(note));
	if (ck_fd_recv(CK_WORKER_CONTROL, &kind, 1, &fd) < 0 || kind != CK_CONTROL_CLIENT)
		return 1;
	ck_fd_write_full(CK_WORKER_CONTROL, &unheard_of, sizeof(unheard_of));
	note.kind = CK_NOTE_STANDBY;
	ck_fd_write_full(CK_WORKER_CONTROL, &note, sizeof(note));
	note.kind = CK_NOTE_SESSION;
	memcpy(note.session, session, sizeof(session));
	ck_fd_write_full(CK_WORKER_CONTROL, &note, sizeof(note));
	return ck_fd_recv(CK_WORKER_CONTROL, &kind, 1, &fd) < 0 || kind != CK_CONTROL_JOIN;
}

/* Until @size bytes of notes wait to be read: 5 s at most. */
static int wait_for_notes(struct cks_workers *w, int size)
{
	int waiting = 0;

	for (int ms = 0; ms < 5000 && waiting < size; ms++) {
		usleep(1000);
		assert_int_equal(ioctl(w->first->control, FIONREAD, &waiting), 0);
	}
	return waiting;
}

static void a_client_joins_whatever_its_worker_has_said_before(void **state)
{
	const struct cks_options options = {.warm_devices = "none"};
	struct cks_workers *w = cks_workers_create(&options, "emu", NULL);
	int notes = 2 * (int)sizeof(struct cks_worker_note) + (int)sizeof(unheard_of), status;
	const struct cks_owner owner = {.peer = {.kind = CK_PEER_USER}},
			       other = {.peer = {.kind = CK_PEER_IPV4}, .identity.key.bytes = {1}};
	const struct cks_start start = {.owner = &owner, .number = 1};
	struct cks_session_counts counts;
	const char *why = NULL;
	pid_t pid;

	(void)state;
	assert_non_null(w);
	assert_int_equal(cks_workers_spare(w), 0);
	cks_workers_count(w, &owner, &counts);
	assert_int_equal(counts.all + counts.peer + counts.identity, 0); /* a spare has no client */
	assert_int_equal(cks_workers_serve(w, STDERR_FILENO, &start, &why), 0);
	cks_workers_count(w, &owner, &counts);
	assert_int_equal(counts.all == 1 && counts.peer == 1 && counts.identity == 1, true);
	cks_workers_count(w, &other, &counts);
	assert_int_equal(counts.all == 1 && counts.peer == 0 && counts.identity == 0, true);
	assert_int_equal(wait_for_notes(w, notes), notes);
	assert_int_equal(cks_workers_join(w, session, STDERR_FILENO), 0);
	pid = waitpid(-1, &status, 0);
	assert_int_equal(status, 0);
	assert_true(cks_workers_ended(w, pid, status));
	cks_workers_count(w, &owner, &counts);
	assert_int_equal(counts.all + counts.peer + counts.identity, 0);
	cks_workers_destroy(w, "");
}

static void a_join_waits_while_its_session_may_return(void **state)
{
	const struct cks_options options = {.warm_devices = "none", .max_sessions = 1};
	struct cks_workers *w = cks_workers_create(&options, "emu", NULL);
	struct cks_state_worker one = {.serving = true, .named = true}, two = {.serving = true};
	int ends[4];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends + 2), 0);
	assert_int_equal(cks_workers_join(w, session, STDERR_FILENO), -ENOENT);
	cks_workers_expect(w, 60000);
	assert_int_equal(cks_workers_join(w, session, STDERR_FILENO), -EAGAIN);
	memcpy(one.session, session, sizeof(session));
	one.info.pid = 4321;
	one.control = ends[0];
	one.process = dup(ends[0]); /* as good as a pidfd here */
	assert_int_equal(cks_workers_return(w, &one), 0);
	assert_int_equal(cks_workers_join(w, session, STDERR_FILENO), 0);
	two.control = ends[2];
	assert_int_equal(cks_workers_return(w, &two), -EUSERS);
	assert_int_equal(cks_workers_gone(w), 0);
	close(ends[1]); /* no signal tells of its end */
	cks_workers_read(w);
	assert_int_equal(cks_workers_gone(w), 4321);
	cks_workers_forget(w, 4321);
	assert_int_equal(cks_workers_gone(w), 0);
	assert_int_equal(cks_workers_serving(w), 0);
	close(ends[2]);
	close(ends[3]);
	cks_workers_destroy(w, "");
}

static struct worker *find_worker(struct cks_workers *w, pid_t pid)
{
	struct worker *worker = w->first;

	while (worker && worker->info.pid != pid)
		worker = worker->next;
	return worker;
}

/* The driver may count the time of sessions for NVIDIA's server, a child of their daemon. */
static void gpu_time_of_mps_is_that_of_its_sessions(void **state)
{
	const struct cks_options options = {.warm_devices = "none", .max_sessions = 4};
	struct cks_workers *w = cks_workers_create(&options, "emu", NULL);
	struct cks_state_mps daemon = {.number = 1, .pid = getpid(), .folder = "/nonexistent/1"};
	struct cks_state_worker saved = {.serving = true, .control = -1};
	pid_t server = fork();

	(void)state;
	if (server == 0) {
		pause();
		_exit(0);
	}
	assert_int_equal(cks_workers_mps_adopt(w, &daemon), 0);
	for (pid_t pid = 4321; pid < 4325; pid++) {
		saved.info.pid = pid;
		saved.info.mps = pid < 4324; /* the last one does not use it */
		assert_int_equal(cks_workers_adopt(w, &saved), 0);
	}
	find_worker(w, 4323)->info.suspension.used -= 60000; /* idle for long */
	cks_workers_add_gpu_time(w, server, 1000);
	assert_int_equal(find_worker(w, 4321)->info.use.gpu_us, 500);
	assert_int_equal(find_worker(w, 4322)->info.use.gpu_us, 500);
	assert_int_equal(find_worker(w, 4323)->info.use.gpu_us, 0);
	assert_int_equal(find_worker(w, 4324)->info.use.gpu_us, 0);
	for (pid_t pid = 4321; pid < 4324; pid++)
		find_worker(w, pid)->info.suspension.used -= 60000;
	cks_workers_add_gpu_time(w, server, 900);
	assert_int_equal(find_worker(w, 4323)->info.use.gpu_us, 300);
	cks_workers_add_gpu_time(w, getpid(), 900); /* not a child of the daemon */
	assert_int_equal(find_worker(w, 4323)->info.use.gpu_us, 300);
	kill(server, SIGKILL);
	waitpid(server, NULL, 0);
	while (w->first)
		cks_worker_remove(w, &w->first);
	cks_workers_destroy(w, "");
}

/* Of several workers, those that speak are heard, and only they; one that has gone stays out of the
 * list. */
static void workers_that_speak_are_heard(void **state)
{
	const struct cks_options options = {.warm_devices = "none", .max_sessions = 3};
	struct cks_workers *w = cks_workers_create(&options, "emu", NULL);
	const struct cks_worker_note note = {.kind = CK_NOTE_USE, .number = 4711, .uses = 7},
				     wanted = {.kind = CK_NOTE_WANTED};
	struct pollfd p = {.fd = cks_workers_fd(w), .events = POLLIN};
	struct worker *workers[3];
	int ends[3][2];

	(void)state;
	for (int i = 0; i < 3; i++) {
		struct cks_state_worker saved = {
			.serving = true, .named = true, .info.pid = 100 + i};

		assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends[i]), 0);
		saved.control = ends[i][0];
		saved.process = dup(ends[i][0]);
		assert_int_equal(cks_workers_return(w, &saved), 0);
		workers[i] = w->first;
	}
	assert_int_equal(poll(&p, 1, 0), 0);
	cks_workers_take_changed(w);
	assert_int_equal(send(ends[1][1], &note, sizeof(note), 0), sizeof(note));
	assert_int_equal(poll(&p, 1, 0), 1);
	cks_workers_read(w);
	assert_int_equal(workers[1]->info.memory, 4711);
	assert_int_equal(workers[0]->info.memory + workers[2]->info.memory, 0);
	assert_false(cks_workers_take_changed(w)); /* the suspender has nothing to decide */
	assert_int_equal(send(ends[1][1], &wanted, sizeof(wanted), 0), sizeof(wanted));
	cks_workers_read(w);
	assert_true(cks_workers_take_changed(w));
	assert_false(cks_workers_take_changed(w));
	close(ends[0][1]);
	assert_int_equal(poll(&p, 1, 0), 1);
	cks_workers_read(w);
	assert_int_equal(workers[0]->control, -1);
	assert_int_equal(poll(&p, 1, 0), 0);
	for (int i = 0; i < 3; i++) {
		assert_true(cks_workers_gone(w) > 0 || i > 0);
		cks_workers_forget(w, 100 + i);
	}
	close(ends[1][1]);
	close(ends[2][1]);
	cks_workers_destroy(w, "");
}

/* A client may have taken over its worker, and an administrator looks at names and reasons on a
 * terminal. */
static void words_of_workers_are_no_commands_for_a_terminal(void **state)
{
	const struct cks_options options = {.warm_devices = "none", .max_sessions = 1};
	struct cks_workers *w = cks_workers_create(&options, "emu", NULL);
	struct cks_state_worker saved = {.serving = true, .info.pid = 100};
	struct cks_worker_note note = {.kind = CK_NOTE_SESSION,
				       .text = "a\x1b[31m\n",
				       .host = "h\x1b]0;x\a",
				       .identity.name = "\x7f\r"};
	int ends[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
	saved.control = ends[0];
	saved.process = dup(ends[0]);
	assert_int_equal(cks_workers_return(w, &saved), 0);
	assert_int_equal(send(ends[1], &note, sizeof(note), 0), sizeof(note));
	note.kind = CK_NOTE_LEFT;
	memset(note.text, '\x1b', sizeof(note.text));
	assert_int_equal(send(ends[1], &note, sizeof(note), 0), sizeof(note));
	cks_workers_read(w);
	assert_string_equal(w->first->info.program, "a?[31m?");
	assert_string_equal(w->first->info.use.host, "h?]0;x?");
	assert_string_equal(w->first->info.owner.identity.name, "??");
	assert_string_equal(w->first->info.why + CK_NOTE_TEXT - 3, "??");
	cks_workers_forget(w, 100);
	close(ends[1]);
	cks_workers_destroy(w, "");
}

static void read_warning(int worker, const char *expected)
{
	struct cks_control_words words = {.kind = 0};

	assert_int_equal(recv(worker, &words, sizeof(words), MSG_DONTWAIT), sizeof(words));
	assert_int_equal(words.kind, CK_CONTROL_WORDS);
	assert_false(words.last);
	assert_non_null(strstr(words.text, expected));
}

/* Its client was admitted before, and no other message of the drain would reach it. */
static void a_session_that_a_drain_does_not_find_yet_is_warned_when_it_is_there(void **state)
{
	const struct cks_options options = {.warm_devices = "none", .max_sessions = 1};
	struct cks_workers *w = cks_workers_create(&options, "emu", NULL);
	struct cks_state_worker saved = {.serving = true, .info.pid = 100};
	const struct cks_worker_note note = {.kind = CK_NOTE_SESSION};
	struct cks_drain drain = {.by = 0};
	int ends[2];
	char byte;

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
	saved.control = ends[0];
	saved.process = dup(ends[0]);
	assert_int_equal(cks_workers_return(w, &saved), 0);
	while (recv(ends[1], &byte, 1, MSG_DONTWAIT) > 0)
		; /* it has a supervisor */
	assert_int_equal(cks_drain_run(&drain, w), -1);
	cks_drain_begin(&drain, w, 3600);
	assert_in_range(cks_drain_run(&drain, w), 3000000, 3300000);
	assert_int_equal(recv(ends[1], &byte, 1, MSG_DONTWAIT), -1);
	assert_int_equal(send(ends[1], &note, sizeof(note), 0), sizeof(note));
	cks_workers_read(w);
	cks_drain_run(&drain, w);
	read_warning(ends[1], "the server stops (drain)");
	cks_drain_run(&drain, w);
	assert_int_equal(recv(ends[1], &byte, 1, MSG_DONTWAIT), -1); /* once */
	cks_drain_resume(&drain, w, drain.by);			     /* nor after an upgrade */
	cks_drain_run(&drain, w);
	assert_int_equal(recv(ends[1], &byte, 1, MSG_DONTWAIT), -1);
	drain.by -= 3420000;
	assert_in_range(cks_drain_run(&drain, w), 100000, 180000);
	read_warning(ends[1], "the session ends in 3m");
	cks_workers_forget(w, 100);
	close(ends[1]);
	cks_workers_destroy(w, "");
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_client_joins_whatever_its_worker_has_said_before),
		cmocka_unit_test(a_join_waits_while_its_session_may_return),
		cmocka_unit_test(gpu_time_of_mps_is_that_of_its_sessions),
		cmocka_unit_test(workers_that_speak_are_heard),
		cmocka_unit_test(words_of_workers_are_no_commands_for_a_terminal),
		cmocka_unit_test(
			a_session_that_a_drain_does_not_find_yet_is_warned_when_it_is_there),
	};

	if (argc > 1 && strcmp(argv[1], CK_SPARE_ARGUMENT) == 0)
		return be_a_spare();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
