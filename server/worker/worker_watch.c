/*
 * server/worker/worker_watch.c - when the session ends: its client has gone, or does not come back.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "server/session/locks.h"
#include "server/session/output.h"
#include "server/store/chunk_writer.h"
#include "server/store/start_list.h"
#include "server/worker/park.h"
#include "server/worker/worker_part.h"
#include "util/process/fd.h"
#include "util/log.h"
#include "util/process/machine.h"
#include "util/until.h"

CK_LOG_DEFINE("server");

#define CK_BUSY_TICK_MS 50 /* interval of checks for kernel output while commands arrive */
/* Number of vain checks before they become rarer: longer than a report may be held back
 * (park.c). */
#define CK_QUIET 30
#define LAST_MS 300	     /* for the commands that came before the client went */
#define CK_IDLE_TICK_MS 2000 /* a kernel may print long after the last command */

struct worker worker = {.watch = -1, .wake_fd = -1};

void worker_verdict(const char *reason)
{
	if (atomic_load(&worker.judged))
		return;
	snprintf(worker.verdict, sizeof(worker.verdict), "%s", reason);
	atomic_store(&worker.judged, true);
}

/* End the process, from any thread. Run no exit handlers, since the driver may hang in another
 * thread. */
_Noreturn void worker_end(const char *reason)
{
	struct cks_session *s = atomic_load(&worker.session);

	if (atomic_flag_test_and_set(&worker.ended))
		for (;;)
			pause(); /* another thread is ending the process */
	if (atomic_load(&worker.judged))
		reason = worker.verdict;
	if (atomic_load(&worker.keep))
		cks_reconnect_bye(worker.keep);
	ck_log_report_dropped(true);
	cks_park_end(s, reason);
	if (s) {
		cks_chunk_writer_wait(s->writer);
		cks_start_list_end(s->start);
		ck_info("session of %s pid %u ended: %s; %llu calls, %llu commands, "
			"%llu bytes in, %llu out",
			worker.client.application, worker.client.pid, reason,
			(unsigned long long)s->calls, (unsigned long long)s->executed,
			(unsigned long long)(s->bytes_in + s->command_bytes),
			(unsigned long long)s->bytes_out);
	} else {
		ck_info("%s: no session: %s", worker.peer, reason);
	}
	_exit(0);
}

/* End a session that has no command connection: it occupies a process. */
static void end_without_commands(void)
{
	char reason[80];

	snprintf(reason, sizeof(reason), "no command connection in %u s (--%s)",
		 worker.command_wait, cks_limit_texts(CK_LIMIT_COMMANDS).name);
	worker_end(reason);
}

/* Milliseconds left to wait for the command connection; -1: it exists. */
static int64_t commands_in(void)
{
	if (!atomic_load(&worker.session) || atomic_load(&worker.command_taken))
		return -1;
	return ck_max(worker.commands_by - ck_now_ms(), (int64_t)0);
}

/*
 * The client has gone. The thread of the command connection ends the session when it has carried
 * out what has come; it gets a moment for that, because it may wait for a function that does not
 * end.
 */
static _Noreturn void end_soon(const char *reason)
{
	if (atomic_load(&worker.session))
		usleep(LAST_MS * 1000);
	worker_end(reason);
}

/* The supervisor knows which sessions wait for their clients. */
static void report_cut(int64_t left)
{
	static bool reported;
	struct cks_worker_note note = {.kind = CK_NOTE_CUT,
				       .number = left < 0 ? 0 : (uint64_t)ck_max(left, (int64_t)1)};

	if (reported == (left >= 0))
		return;
	reported = left >= 0;
	ck_fd_write_full(CK_WORKER_CONTROL, &note, sizeof(note));
}

/* The process of the program, which the kernel reports. */
static struct {
	struct ck_mutex lock;
	int fd; /* watched; -1: none */
	/* there was none when the session came back: it may come, with its connections */
	bool missing;
} program = {.lock = CK_MUTEX(CK_RANK_PROGRAM), .fd = -1};

static int watch_fd(int fd, uint32_t events)
{
	struct epoll_event event = {.events = events, .data.fd = fd};

	return epoll_ctl(worker.watch, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

static void drop_program(void)
{
	if (program.fd < 0)
		return;
	worker_watch_drop(program.fd);
	close(program.fd);
	program.fd = -1;
}

/* -ESRCH: there is no such process on this machine, where it should be. */
static int watch_program(void)
{
	unsigned char here[CK_MACHINE_ID];

	if (program.fd >= 0 || !ck_machine_id(here) ||
	    memcmp(here, worker.client.machine, sizeof(here)) != 0)
		return 0;
	program.fd = ck_machine_watch((pid_t)worker.client.pid);
	if (program.fd < 0)
		return program.fd;
	if (watch_fd(program.fd, EPOLLIN) < 0)
		drop_program();
	return 0;
}

/* The client has connections, so its process is there. */
static void watch_missing_program(void)
{
	ck_lock(&program.lock);
	if (program.missing)
		watch_program();
	program.missing = false;
	ck_unlock(&program.lock);
}

/* End a session that has lost its connections, or wait for others: milliseconds at most; -1: it has
 * one. */
static int64_t handle_cuts(void)
{
	struct cks_reconnect *keep = atomic_load(&worker.keep);
	const char *reason;
	int64_t left = -1;

	if (!keep)
		return -1;
	cks_reconnect_handle(keep);
	reason = cks_reconnect_verdict(keep, &left);
	if (reason)
		end_soon(reason);
	report_cut(left);
	if (left < 0)
		watch_missing_program();
	return left;
}

static bool is_cut(int fd)
{
	struct cks_reconnect *keep = atomic_load(&worker.keep);

	return keep && fd == cks_reconnect_fd(keep);
}

/* Wait once; @quiet counts checks without result. False: the client has gone. */
static bool watch_client(unsigned int *quiet)
{
	int64_t left = commands_in(), cut = handle_cuts();
	int n, tick = *quiet < CK_QUIET ? CK_BUSY_TICK_MS : CK_IDLE_TICK_MS;
	struct cks_session *s = atomic_load(&worker.session);
	struct epoll_event event;
	eventfd_t count;

	ck_poll_sooner(&tick, left);
	ck_poll_sooner(&tick, cut);
	n = epoll_wait(worker.watch, &event, 1, tick);
	if (left == 0 && commands_in() == 0)
		end_without_commands();
	if (n < 0)
		return errno == EINTR;
	if (n > 0 && event.data.fd != worker.wake_fd && !is_cut(event.data.fd))
		return false;
	if (n > 0 && event.data.fd == worker.wake_fd)
		eventfd_read(worker.wake_fd, &count);
	if (!s)
		return true;
	cks_park_report(s);
	++*quiet;
	if (n > 0 || cks_output_check(s->output) || atomic_exchange(&s->used, false))
		*quiet = 0;
	return true;
}

/*
 * Wake when a watched connection ends, not on its data. Also limits kernel output while the client
 * makes no call that fetches it.
 */
static void *watch_thread(void *unused)
{
	unsigned int quiet = CK_QUIET;

	(void)unused;
	while (watch_client(&quiet))
		ck_log_report_dropped(false);
	end_soon("the client has ended");
}

int worker_watch_add(int fd)
{
	return watch_fd(fd, EPOLLRDHUP | EPOLLHUP | EPOLLERR);
}

void worker_watch_drop(int fd)
{
	epoll_ctl(worker.watch, EPOLL_CTL_DEL, fd, NULL);
}

int worker_watch_cuts(int fd)
{
	return watch_fd(fd, EPOLLIN);
}

void worker_watch_program(bool runs)
{
	ck_lock(&program.lock);
	program.missing = watch_program() == -ESRCH;
	if (program.missing && runs)
		end_soon("the program has ended");
	ck_unlock(&program.lock);
}

void worker_watch_no_program(void)
{
	ck_lock(&program.lock);
	program.missing = false;
	drop_program();
	ck_unlock(&program.lock);
}

int worker_watch_begin(int fd)
{
	int ret;

	worker.watch = epoll_create1(EPOLL_CLOEXEC);
	worker.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (worker.watch < 0 || worker.wake_fd < 0)
		return -errno;
	ret = watch_fd(worker.wake_fd, EPOLLIN);
	if (ret == 0)
		ret = worker_watch_add(fd);
	return ret < 0 ? ret : worker_thread(watch_thread, NULL);
}
