/*
 * server/worker/worker.c - the process of one session.
 *
 * Threads: the main thread takes further connections from the supervisor (worker_supervisor.c) and
 * starts a thread for each (worker_lanes.c); another thread watches whether the client is alive
 * (worker_watch.c). When the session ends, for any reason, the process exits at once, and the
 * driver frees everything the client held.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "cuda/mps.h"
#include "server/memory/lease.h"
#include "server/memory/memory.h"
#include "server/memory/share.h"
#include "server/nvml/nvml.h"
#include "server/objects/warm.h"
#include "server/options/confine.h"
#include "server/options/options.h"
#include "server/policy/users.h"
#include "server/processes/child.h"
#include "server/processes/messages.h"
#include "server/processes/sandbox.h"
#include "server/session/output.h"
#include "server/session/session.h"
#include "server/session/user_messages.h"
#include "server/worker/gpu_turn.h"
#include "server/worker/hello.h"
#include "server/worker/orphan_reconnect.h"
#include "server/worker/park.h"
#include "server/worker/worker.h"
#include "server/worker/worker_part.h"
#include "util/env.h"
#include "util/process/fd.h"
#include "util/log.h"
#include "util/until.h"

CK_LOG_DEFINE("server");

/* Before the reply to the hello. After it, a session that is kept waits if its connection is cut,
 * even if worker_outlive has not been called yet. */
static int begin_session(const struct cks_session *session)
{
	if (worker.client.keep > 0)
		worker_watch_drop(worker.hello_fd);
	return worker_announce(session);
}

static int request_memory(bool waits)
{
	struct cks_worker_note note = {.kind = waits ? CK_NOTE_PRESS : CK_NOTE_FOUND,
				       .number = cks_memory_total(worker.session->memory)};

	return ck_fd_write_full(CK_WORKER_CONTROL, &note, sizeof(note));
}

/* Prepare a fresh process before it communicates. */
static int prepare_process(const struct cks_options *options, struct ck_output **output)
{
	struct rlimit files;
	int ret;

	/* the parent is the server, or a prefix (docs/policy.md), whose threads may start this
	 * process and end */
	if (!ck_env_string("CRICKET_SESSION"))
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_NAME, "cricket-worker");
	setsid(); /* CRIU dumps no process whose session is led from outside of its namespace */
	signal(SIGPIPE, SIG_IGN);
	signal(SIGINT, SIG_IGN); /* SIGINT from a terminal: the supervisor decides */
	ck_fd_set_cloexec(CK_WORKER_CONNECTION, true);
	ck_fd_set_cloexec(CK_WORKER_CONTROL, true);
	if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
		files.rlim_cur = files.rlim_max;
		setrlimit(RLIMIT_NOFILE, &files);
	}
	ret = cks_confine(options);
	if (ret == 0)
		ret = cks_sandbox_enter(CK_SANDBOX_WORKER);
	return ret < 0 ? ret : cks_output_redirect(options->limits.value[CK_LIMIT_OUTPUT], output);
}

/* The hello has made @session: connect it with this process. */
static void take_session(struct cks_session *session, const struct cks_options *options)
{
	cks_broker_set_account(&worker.client.identity.key);
	cks_nvml_client(worker.client.pid, worker.client.application);
	cks_user_messages_begin();
	session->wake_fd = worker.wake_fd;
	session->press = request_memory;
	session->listens = worker_listens;
	session->pace.rate = worker.bandwidth;
	cks_gpu_turn_prepare(session);
	cks_park_prepare(session, options->limits.value[CK_LIMIT_PARK]);
	worker.command_wait = (unsigned int)options->limits.value[CK_LIMIT_COMMANDS];
	worker.commands_by = ck_now_ms() + worker.command_wait * 1000LL;
	atomic_store(&worker.session, session);
	/* the daemon of NVIDIA MPS ends with the supervisor */
	if (cks_orphans_allowed(options) && !ck_cuda_mps_folder())
		prctl(PR_SET_PDEATHSIG, 0);
}

/* Start all threads of the session except those of further connections. 0 or -errno. */
static int start_serving(struct first_lane *first, struct cks_session *session)
{
	int ret = cks_session_tls_create(session, &worker.tls);

	if (ret == 0)
		ret = worker_outlive(first, worker.client.keep);
	if (ret == 0)
		ret = worker_serve_first(first);
	if (ret == 0)
		ret = cks_warm_expire(&session->gate);
	return ret < 0 ? ret : cks_lease_watch_offer(session);
}

int cks_worker_main(const struct cks_options *options, char **spare_argv)
{
	static struct first_lane first;
	struct cks_session *session = NULL;
	struct ck_output *output = NULL;
	int ret = prepare_process(options, &output);

	if (ret == 0 && spare_argv)
		cks_spare_wait(options, spare_argv);
	if (ret == 0)
		ret = cks_client_identity_apply(&options, output);
	worker.options = options;
	if (ret == 0)
		ret = worker_open_first(&first);
	if (ret < 0) {
		ck_err("worker: %s", strerror(-ret));
		return 1;
	}
	cks_broker_link(options->m3_path, worker.hello_fd, cks_users_server());
	ret = cks_hello(options, first.chan, first.reader, output, begin_session, &worker.client,
			&session);
	if (ret == -ECONNREFUSED)
		_exit(0);
	if (ret < 0 || cks_sandbox_enter(CK_SANDBOX_SESSION) < 0)
		_exit(1);
	take_session(session, options);
	ck_info("session of %s pid %u on %s (%s), client %s, for %s", worker.client.application,
		worker.client.pid, worker.client.host, ck_chan_peer(first.chan),
		worker.client.release, worker.client.identity.name);
	cks_title_set("cricket-worker: %s %s", worker.client.identity.name,
		      worker.client.application);
	ret = start_serving(&first, session);
	if (ret < 0)
		worker_end(strerror(-ret));
	if (worker.client.keep > 0)
		worker_watch_program(true);
	worker_obey();
}
