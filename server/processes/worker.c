/*
 * server/processes/worker.c - the process of one session.
 *
 * Threads: the main thread takes further connections from the supervisor and starts a thread for
 * each; another thread watches whether the client is alive. When the session ends, for any reason,
 * the process exits at once, and the driver frees everything the client held.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "cricket.h"
#include "server/processes/dispatch.h"
#include "server/processes/hello.h"
#include "server/memory/lease.h"
#include "server/session/nvml.h"
#include "server/processes/options.h"
#include "server/session/output.h"
#include "server/session/session.h"
#include "server/memory/share.h"
#include "server/processes/spare.h"
#include "server/processes/token.h"
#include "server/objects/warm.h"
#include "server/processes/worker.h"
#include "util/fd.h"
#include "util/log.h"
#include "util/until.h"

CK_LOG_DEFINE("server");

#define CK_DRAIN_MS 1000 /* after a bye: for commands still arriving */
#define CK_DRAIN_STEP_MS 2
#define CK_BUSY_TICK_MS 50   /* interval of checks for kernel output while commands arrive */
#define CK_QUIET 20	     /* number of vain checks before they become rarer */
#define CK_IDLE_TICK_MS 2000 /* a kernel may print long after the last command */
#define CK_LONG_MESSAGES 32  /* per session, received at a time by its lanes; others wait */

/* State of the process's one session, shared by its threads. */
static struct {
	struct cks_session *_Atomic session; /* set last: once set, the rest is valid */
	struct cks_client client;
	char peer[160];
	int watch;			  /* epoll: connections whose end is the session's */
	int stir_fd;			  /* also watched: wakes the watch */
	int hello_fd;			  /* watched until the command connection exists */
	struct ck_chan *_Atomic commands; /* NULL before it has joined */
	atomic_bool command_taken;
	atomic_uint lanes;	     /* connections with a thread */
	unsigned int max_lanes;	     /* limit for call lanes */
	int64_t commands_by;	     /* deadline for the command connection; in ms */
	unsigned int command_wait;   /* seconds until then */
	struct ck_reader_room *room; /* for their long messages */
	atomic_flag ended;
} worker = {.watch = -1, .stir_fd = -1};

/* End the process, from any thread. Run no exit handlers, since the driver may hang in another
 * thread. */
static _Noreturn void end_session(const char *reason)
{
	struct cks_session *s = atomic_load(&worker.session);

	if (atomic_flag_test_and_set(&worker.ended))
		for (;;)
			pause(); /* another thread is ending the process */
	ck_log_tend(true);
	if (s)
		ck_info("session of %s pid %u ended: %s; %llu calls, %llu commands, "
			"%llu bytes in, %llu out",
			worker.client.application, worker.client.pid, reason,
			(unsigned long long)s->calls, (unsigned long long)s->executed,
			(unsigned long long)(s->bytes_in + s->command_bytes),
			(unsigned long long)s->bytes_out);
	else
		ck_info("%s: no session: %s", worker.peer, reason);
	_exit(0);
}

/* End a session that has no command connection: it occupies a process. */
static void end_without_commands(void)
{
	char reason[80];

	snprintf(reason, sizeof(reason), "no command connection in %u s (--%s)",
		 worker.command_wait, cks_limit_name(CK_LIMIT_COMMANDS));
	end_session(reason);
}

/* Milliseconds left to wait for the command connection; -1: it exists. */
static int64_t commands_in(void)
{
	if (!atomic_load(&worker.session) || atomic_load(&worker.command_taken))
		return -1;
	return ck_max(worker.commands_by - ck_now_ms(), (int64_t)0);
}

/* Wait once; @quiet counts checks without result. False: the client has gone. */
static bool watch(unsigned int *quiet)
{
	int64_t left = commands_in();
	int tick = (int)ck_min((int64_t)(*quiet < CK_QUIET ? CK_BUSY_TICK_MS : CK_IDLE_TICK_MS),
			       left < 0 ? INT64_MAX : left);
	struct cks_session *s = atomic_load(&worker.session);
	struct epoll_event event;
	int n = epoll_wait(worker.watch, &event, 1, tick);
	eventfd_t count;

	if (left == 0 && commands_in() == 0)
		end_without_commands();
	if (n < 0)
		return errno == EINTR;
	if (n > 0 && event.data.fd != worker.stir_fd)
		return false;
	if (n > 0)
		eventfd_read(worker.stir_fd, &count);
	if (!s)
		return true;
	++*quiet;
	if (n > 0 || cks_output_check(s->output) || atomic_exchange(&s->stirred, false))
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
	while (watch(&quiet))
		ck_log_tend(false);
	end_session("the client has gone");
}

static int watch_fd(int fd)
{
	struct epoll_event event = {.events = EPOLLRDHUP | EPOLLHUP | EPOLLERR, .data.fd = fd};

	return epoll_ctl(worker.watch, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

static int watch_stirs(void)
{
	struct epoll_event event = {.events = EPOLLIN};

	worker.stir_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	event.data.fd = worker.stir_fd;
	if (worker.stir_fd < 0 ||
	    epoll_ctl(worker.watch, EPOLL_CTL_ADD, worker.stir_fd, &event) < 0)
		return -errno;
	return 0;
}

static int start_thread(void *(*run)(void *), void *data)
{
	pthread_attr_t attributes;
	pthread_t thread;
	int ret;

	pthread_attr_init(&attributes);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	ret = -pthread_create(&thread, &attributes, run, data);
	pthread_attr_destroy(&attributes);
	return ret;
}

/* After a bye: let earlier commands execute, if they arrive in time. */
static void drain(void)
{
	const struct timespec step = {.tv_nsec = CK_DRAIN_STEP_MS * 1000000L};
	struct ck_chan *commands = atomic_load(&worker.commands);
	uint64_t executed = atomic_load(&worker.session->executed);
	int quiet = 0;

	if (!commands)
		return;
	/* idle twice, with nothing executed in between: the command thread sleeps */
	for (int ms = 0; ms < CK_DRAIN_MS && quiet < 2; ms += CK_DRAIN_STEP_MS) {
		uint64_t now = atomic_load(&worker.session->executed);

		quiet = ck_chan_pending(commands) == 0 && now == executed ? quiet + 1 : 0;
		executed = now;
		nanosleep(&step, NULL);
	}
}

static void run_lane(struct ck_chan *chan, struct ck_reader *reader)
{
	int ret = cks_dispatch_calls(worker.session, chan, reader);

	if (ret == CK_DISPATCH_BYE) {
		drain();
		end_session("bye");
	}
	if (ret == -EPROTO)
		end_session("the client broke the protocol");
	if (ret == -ENOBUFS)
		ck_warn("%s: more than %d long messages that do not come to an end: a lane is "
			"closed",
			ck_chan_peer(chan), CK_LONG_MESSAGES);
	else if (ret < 0)
		ck_debug("%s: %s", ck_chan_peer(chan), strerror(-ret));
}

static _Noreturn void run_commands(struct ck_chan *chan, struct ck_reader *reader)
{
	int ret;

	atomic_store(&worker.commands, chan);
	ret = cks_dispatch_commands(worker.session, chan, reader);

	if (ret == -EPROTO)
		end_session("the client broke the protocol");
	end_session(ret == 0 ? "the client has gone" : strerror(-ret));
}

/* From now on, the session lives as long as its command connection. */
static void claim_commands(struct ck_chan *chan)
{
	int ret = watch_fd(ck_chan_fd(chan));

	if (ret < 0)
		end_session(strerror(-ret));
	epoll_ctl(worker.watch, EPOLL_CTL_DEL, worker.hello_fd, NULL);
}

/* Decode and check a join; returns the requested lane, or -errno. Sends the reply. */
static int take_join(struct ck_chan *chan, struct ck_reader *reader)
{
	ck_join_args args = {0};
	ck_join_res res = {.status = 1};
	struct ck_call_header header;
	struct ck_record record;
	XDR xdrs;
	int ret = ck_reader_next(reader, &record);

	if (ret < 0)
		return ret;
	if (ck_call_decode(record.body, record.body_size, &header) < 0 ||
	    header.program != CK_PROGRAM || header.version != CK_VERSION || header.proc != CK_JOIN)
		return -EPROTO;
	xdrmem_create(&xdrs, (char *)record.body + header.size,
		      (u_int)(record.body_size - header.size), XDR_DECODE);
	if (!xdr_ck_join_args(&xdrs, &args))
		return -EPROTO;
	if (cks_secret_equal(args.session, worker.session->id, sizeof(worker.session->id)) &&
	    cks_secret_equal(args.key, worker.session->key, sizeof(worker.session->key)) &&
	    (args.lane == CK_LANE_CALL ||
	     (args.lane == CK_LANE_COMMAND && !atomic_exchange(&worker.command_taken, true))))
		res.status = 0;
	if (res.status == 0 && ck_chan_take_rings(chan) == -EPROTO)
		ck_warn("%s: offers shared memory that is not as it should be", ck_chan_peer(chan));
	if (res.status == 0 && args.lane == CK_LANE_COMMAND)
		claim_commands(chan);
	ret = cks_dispatch_reply(chan, header.xid, (xdrproc_t)xdr_ck_join_res, &res);
	ck_chan_enter_rings(chan);
	if (ret < 0 && res.status == 0 && args.lane == CK_LANE_COMMAND)
		end_session(strerror(-ret));
	if (ret == 0 && res.status != 0) {
		ck_warn("%s: a join that was refused", ck_chan_peer(chan));
		ret = -EACCES;
	}
	return ret < 0 ? ret : (int)args.lane;
}

/* Serve a connection that joins; the supervisor has checked that its first record is complete. */
static void *join_thread(void *data)
{
	struct ck_reader *reader = NULL;
	struct ck_chan *chan;
	int fd = (int)(intptr_t)data;
	int lane = ck_chan_adopt(fd, &chan);

	if (lane < 0) {
		close(fd);
		goto leave;
	}
	lane = ck_reader_create_small(chan, worker.room, &reader);
	if (lane == 0)
		lane = take_join(chan, reader);
	if (lane == CK_LANE_COMMAND && ck_reader_widen(reader) < 0)
		end_session(strerror(ENOMEM));
	if (lane == CK_LANE_COMMAND)
		run_commands(chan, reader);
	if (lane == CK_LANE_CALL)
		run_lane(chan, reader);
	ck_reader_destroy(reader);
	ck_chan_close(chan);
leave:
	atomic_fetch_sub(&worker.lanes, 1);
	return NULL;
}

/* The connection of the hello becomes the first call lane. */
struct first_lane {
	struct ck_chan *chan;
	struct ck_reader *reader;
};

/* Its descriptor stays open: while it may still be watched, another connection must not get the
 * same number. */
static void *first_thread(void *data)
{
	struct first_lane *first = data;

	run_lane(first->chan, first->reader);
	ck_chan_shutdown(first->chan); /* the lane answers no further calls */
	atomic_fetch_sub(&worker.lanes, 1);
	return NULL;
}

/* Take connections until the supervisor exits, which ends this process too. */
static _Noreturn void take_connections(void)
{
	for (;;) {
		char kind;
		int fd = -1;
		int ret = ck_fd_recv(CK_WORKER_CONTROL, &kind, 1, &fd);

		if (ret < 0)
			end_session("the server is stopping");
		if (kind == CK_CONTROL_PRESS)
			cks_lease_pressed(worker.session);
		else if (kind == CK_CONTROL_ALONE)
			cks_lease_alone(worker.session);
		if (kind != CK_CONTROL_JOIN || fd < 0)
			continue;
		/* one more than call lanes: the command connection */
		if (atomic_fetch_add(&worker.lanes, 1) > worker.max_lanes) {
			ck_warn("a session wants more than %u connections for calls: refused "
				"(--max-lanes)",
				worker.max_lanes);
			ret = -EMFILE;
		} else {
			ret = start_thread(join_thread, (void *)(intptr_t)fd);
		}
		if (ret < 0) {
			atomic_fetch_sub(&worker.lanes, 1);
			close(fd);
		}
	}
}

static int announce(const struct cks_session *session)
{
	struct cks_worker_note note = {.kind = CK_NOTE_SESSION};

	memcpy(note.session, session->id, sizeof(note.session));
	return ck_fd_write_full(CK_WORKER_CONTROL, &note, sizeof(note));
}

static int press(void)
{
	struct cks_worker_note note = {.kind = CK_NOTE_PRESS};

	return ck_fd_write_full(CK_WORKER_CONTROL, &note, sizeof(note));
}

/* Prepare a fresh process before it communicates. */
static int prepare_process(const struct cks_options *options, struct ck_output **output)
{
	struct rlimit files;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_NAME, "cricket-worker");
	signal(SIGPIPE, SIG_IGN);
	signal(SIGINT, SIG_IGN); /* SIGINT from a terminal: the supervisor decides */
	ck_fd_set_cloexec(CK_WORKER_CONNECTION, true);
	ck_fd_set_cloexec(CK_WORKER_CONTROL, true);
	if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
		files.rlim_cur = files.rlim_max;
		setrlimit(RLIMIT_NOFILE, &files);
	}
	return cks_output_redirect(options->limits.value[CK_LIMIT_OUTPUT], output);
}

/* Open the connection of the hello, and watch it from the start: a client may disconnect while the
 * driver loads. */
static int open_first(struct first_lane *first)
{
	int ret = ck_chan_adopt(CK_WORKER_CONNECTION, &first->chan);

	if (ret == 0)
		ret = ck_reader_room_create(CK_LONG_MESSAGES, &worker.room);
	if (ret == 0)
		ret = ck_reader_create_small(first->chan, worker.room, &first->reader);
	if (ret < 0)
		return ret;
	snprintf(worker.peer, sizeof(worker.peer), "%s", ck_chan_peer(first->chan));
	worker.hello_fd = ck_chan_fd(first->chan);
	worker.watch = epoll_create1(EPOLL_CLOEXEC);
	if (worker.watch < 0)
		return -errno;
	ret = watch_stirs();
	if (ret == 0)
		ret = watch_fd(worker.hello_fd);
	return ret < 0 ? ret : start_thread(watch_thread, NULL);
}

int cks_worker_main(const struct cks_options *options, char **spare_argv)
{
	static struct first_lane first;
	struct cks_session *session = NULL;
	struct ck_output *output = NULL;
	int ret = prepare_process(options, &output);

	worker.max_lanes = (unsigned int)options->limits.value[CK_LIMIT_LANES];
	if (ret == 0 && spare_argv)
		cks_spare_wait(options, spare_argv);
	if (ret == 0)
		ret = open_first(&first);
	if (ret < 0) {
		ck_err("worker: %s", strerror(-ret));
		return 1;
	}
	cks_broker_link(options->m3_path, worker.hello_fd);
	ret = cks_hello(options, first.chan, first.reader, output, announce, &worker.client,
			&session);
	if (ret == -ECONNREFUSED)
		_exit(0);
	if (ret < 0)
		_exit(1);
	cks_nvml_client(worker.client.pid, worker.client.application);
	session->stir_fd = worker.stir_fd;
	session->press = press;
	worker.command_wait = (unsigned int)options->limits.value[CK_LIMIT_COMMANDS];
	worker.commands_by = ck_now_ms() + worker.command_wait * 1000LL;
	atomic_store(&worker.session, session);
	ck_info("session of %s pid %u on %s (%s), client %s, for %s", worker.client.application,
		worker.client.pid, worker.client.host, ck_chan_peer(first.chan),
		worker.client.release, worker.client.identity.name);
	atomic_fetch_add(&worker.lanes, 1);
	ret = start_thread(first_thread, &first);
	if (ret == 0)
		ret = cks_warm_expire();
	if (ret == 0)
		ret = cks_lease_watch_offer(session);
	if (ret < 0)
		end_session(strerror(-ret));
	take_connections();
}
