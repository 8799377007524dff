/*
 * server/worker/worker_supervisor.c - the supervisor's messages to the process of a session, and
 * its reports.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cuda/mps.h"
#include "m3/message.h"
#include "server/direct/direct.h"
#include "server/evacuation/evacuation.h"
#include "server/memory/lease.h"
#include "server/memory/memory.h"
#include "server/objects/context.h"
#include "server/options/options.h"
#include "server/policy/meter.h"
#include "server/processes/messages.h"
#include "server/processes/pool_table.h"
#include "server/processes/session_info.h"
#include "server/processes/state.h"
#include "server/session/device_map.h"
#include "server/session/session.h"
#include "server/session/user_messages.h"
#include "server/worker/gpu_turn.h"
#include "server/worker/orphan_reconnect.h"
#include "server/worker/park.h"
#include "server/worker/reconnect.h"
#include "server/worker/worker_part.h"
#include "util/process/fd.h"
#include "util/log.h"

CK_LOG_DEFINE("server");

#define CK_LEAVE_STEP_MS 1

/* Which this process has become; 0: none. */
static uint32_t user_of_process(void)
{
	return worker.options->worker_users.first ? (uint32_t)geteuid() : 0;
}

/* This session, as its next supervisor will know it. */
static void describe_session(struct cks_state_worker *self)
{
	struct cks_session *s = worker.session;

	memcpy(self->session, s->id, sizeof(self->session));
	self->info.pid = getpid();
	self->info.client_pid = worker.client.pid;
	memcpy(self->info.machine, worker.client.machine, sizeof(self->info.machine));
	self->info.memory = cks_memory_total(s->memory);
	self->info.owner.identity = worker.client.identity;
	self->info.owner.peer = worker.owner;
	self->info.user = user_of_process();
	snprintf(self->info.program, sizeof(self->info.program), "%.*s", CK_NOTE_TEXT - 1,
		 worker.client.application);
	if (atomic_load(&s->gate.closed) & CK_GATE_PARKED) {
		self->info.suspension.state = CK_SUSPENDED;
		self->info.suspension.bytes = self->info.memory;
		self->info.suspension.away = cks_evacuation_away(s);
		cks_park_gpus(s, self->info.gpus);
	}
}

/* The session ends because of @reason, as the log has it; its user reads @line. With the last line
 * the client leaves, and another thread may end the process. */
static _Noreturn void end_session(const char *reason, const char *line)
{
	worker_verdict(reason);
	cks_user_messages_end(line);
	worker_end(reason);
}

/* A message of the supervisor: why the session ends. */
static struct {
	bool begun;
	const char *reason; /* for the log */
	char line[CK_NOTE_TEXT];
} ending;

static void *end_session_aside(void *unused)
{
	(void)unused;
	end_session(ending.reason, ending.line);
}

/* End the session in a thread of its own: a client that does not listen for the reason yet needs a
 * lane for that, which this thread takes. @reason: NULL for @line. */
static void begin_end(const char *reason, const char *line)
{
	pthread_t thread;

	if (ending.begun)
		return;
	ending.begun = true;
	snprintf(ending.line, sizeof(ending.line), "%s", line);
	ending.reason = reason ? reason : ending.line;
	if (pthread_create(&thread, NULL, end_session_aside, NULL) != 0)
		end_session(ending.reason, ending.line);
	pthread_detach(thread);
}

int worker_announce(const struct cks_session *session)
{
	struct cks_worker_note note = {.kind = CK_NOTE_SESSION, .number = worker.client.pid};

	memcpy(note.session, session->id, sizeof(note.session));
	snprintf(note.text, sizeof(note.text), "%.*s", CK_NOTE_TEXT - 1, worker.client.application);
	snprintf(note.host, sizeof(note.host), "%.*s", CK_NOTE_HOST - 1, worker.client.host);
	note.peer = worker.owner;
	note.identity = worker.client.identity;
	note.user = user_of_process();
	memcpy(note.machine, worker.client.machine, sizeof(note.machine));
	note.away = cks_evacuation_away(session);
	note.pool = cks_evacuation_pool(session);
	cks_park_gpus(session, note.gpus);
	return ck_fd_write_full(CK_WORKER_CONTROL, &note, sizeof(note));
}

/* Why the session cannot leave this server; NULL: it can. */
static const char *find_tie(void)
{
	if (!atomic_load(&worker.keep))
		return "its program does not connect again after a cut (CRICKET_RESUME)";
	if (strncmp(worker.peer, "tcp ", 4) != 0)
		return "its program is connected through a unix socket";
	if (worker.copy) /* CRIU finds no socket that is of another network namespace */
		return "it is a copy of a snapshot";
	return NULL;
}

/* Close all connections of the client. Nothing may reach the session from here on. */
static void disconnect_client(void)
{
	const struct timespec step = {.tv_nsec = CK_LEAVE_STEP_MS * 1000000L};
	const struct cks_pool_saved *saved = cks_evacuation_saved(worker.session);
	struct cks_worker_note note = {.kind = CK_NOTE_LEFT,
				       .table = (uintptr_t)cks_evacuation_table(worker.session),
				       .known = (uintptr_t)saved,
				       .pool_fd = saved ? ck_max(saved->fd, 0) : 0};
	struct cks_reconnect *keep = atomic_load(&worker.keep);
	const char *tie = find_tie();

	cks_direct_leave(worker.session->direct);
	if (!tie) {
		cks_session_tls_leave(worker.tls);
		while (atomic_load(&worker.joining) > 0) /* none waits for its client now */
			nanosleep(&step, NULL);
		cks_reconnect_leave(keep);
		worker_watch_no_program(); /* its process may be another one later */
		worker.left = true;
	} else {
		snprintf(note.text, sizeof(note.text), "%s", tie);
	}
	ck_fd_write_full(CK_WORKER_CONTROL, &note, sizeof(note));
}

/* Let the client connect again. */
static void admit_client(void)
{
	struct cks_reconnect *keep = atomic_load(&worker.keep);

	worker.left = false;
	if (!keep)
		return;
	cks_session_tls_return(worker.tls);
	cks_reconnect_return(keep);
	worker_watch_program(false); /* it may be restored after its session */
}

/* The supervisor may be another one than before. @pool: the file of the memory that was dropped;
 * -1: there is none. */
static void come_back(int pool)
{
	if (pool >= 0)
		cks_evacuation_take(worker.session, pool, worker.copy);
	admit_client();
	cks_gpu_turn_free(worker.session);
	worker_announce(atomic_load(&worker.session));
}

/* The session is a copy of one that was written into files. It has no connections yet. */
static void take_names(const struct cks_session_names *names)
{
	struct cks_session *s = worker.session;

	memcpy(s->id, names->id, sizeof(s->id));
	memcpy(s->key, names->key, sizeof(s->key));
	memcpy(s->secret, names->secret, sizeof(s->secret));
	cks_session_tls_rename(worker.tls);
	memset(worker.client.machine, 0, sizeof(worker.client.machine));
	worker.copy = true;
}

/* The supervisor has gone: find the next one, or end. */
static void find_server(void)
{
	struct cks_state_worker self = {.control = -1, .serving = true, .named = true};

	cks_gpu_turn_free(worker.session);
	cks_lease_freeze(worker.session, false);
	describe_session(&self);
	if (ck_cuda_mps_folder()) /* its daemon has ended with the supervisor */
		end_session("the server is stopping", "the server has ended");
	if (cks_orphan_control(worker.options, &self) < 0)
		end_session(cks_orphans_allowed(worker.options) ? "the server has not come back"
								: "the server is stopping",
			    "the server has ended");
	/* repeat a knock that the old one may not have heard, and answer a question that got
	 * lost */
	cks_gate_knock(&worker.session->gate);
	cks_lease_alone(worker.session);
	if (worker.left) /* the old one has ended before the session was in files */
		admit_client();
}

/* The supervisor is another one, or this process comes from files: count in its account. */
static void change_account(int fd, uint32_t seat)
{
	int ret = fd >= 0 ? cks_meter_account(fd, seat) : -EBADF;

	if (ret < 0)
		ck_warn("the session's account: %s", strerror(-ret));
}

static void relay_message(const struct cks_control_words *message)
{
	if (message->last)
		begin_end(NULL, message->text);
	else
		cks_user_messages_say(message->text);
}

/* The session is suspended, and returns to other GPUs. */
static void remap_devices(const struct cks_control_map *message)
{
	cks_device_map_move(&message->map);
	cks_context_moved(worker.session);
	cks_meter_moved();
}

union message {
	char kind;
	struct cks_control_map map;
	struct cks_control_account account;
	struct cks_control_turn turn;
	struct cks_control_words words;
	struct cks_control_park park;
	struct cks_control_unpark unpark;
	struct cks_control_names names;
};

/* A message that needs nothing but itself. In a switch two kinds cannot have the same value. */
static void handle_message(union message *message)
{
	switch (message->kind) {
	case CK_CONTROL_PRESS:
		cks_lease_return_free(worker.session);
		cks_park_report_now(worker.session);
		break;
	case CK_CONTROL_ALONE:
		cks_lease_alone(worker.session);
		break;
	case CK_CONTROL_NONE:
		cks_lease_refused(worker.session);
		break;
	case CK_CONTROL_COMING:
		cks_lease_coming(worker.session);
		break;
	case CK_CONTROL_MADE:
		cks_lease_made(worker.session);
		break;
	case CK_CONTROL_PARK:
		cks_park(worker.session, &message->park);
		break;
	case CK_CONTROL_ROUND:
		cks_park_round(worker.session, &message->park);
		break;
	case CK_CONTROL_UNPARK:
		cks_unpark(worker.session, &message->unpark);
		break;
	case CK_CONTROL_MAP:
		remap_devices(&message->map);
		break;
	case CK_CONTROL_FREEZE:
	case CK_CONTROL_THAW:
		cks_lease_freeze(worker.session, message->kind == CK_CONTROL_FREEZE);
		break;
	case CK_CONTROL_STOP:
		begin_end(NULL, message->words.text);
		break;
	case CK_CONTROL_END:
		begin_end("a command has ended it", message->words.text);
		break;
	case CK_CONTROL_GONE:
		worker_end(message->words.text);
	case CK_CONTROL_LEAVE:
		disconnect_client();
		break;
	case CK_CONTROL_NAMES:
		take_names(&message->names.names);
		break;
	case CK_CONTROL_DROP:
		cks_evacuation_drop(worker.session);
		break;
	case CK_CONTROL_WORDS:
		relay_message(&message->words);
		break;
	case CK_CONTROL_REFUSAL:
		cks_user_messages_refuse(message->words.text);
		break;
	case CK_CONTROL_HOLD:
	case CK_CONTROL_TURN:
	case CK_CONTROL_FREE:
		cks_gpu_turn_control(worker.session, &message->turn);
		break;
	}
}

_Noreturn void worker_obey(void)
{
	for (;;) {
		union message message;
		int fd = -1;
		long n;

		memset(&message, 0, sizeof(message)); /* an older supervisor sends less */
		n = ck_m3_receive(CK_WORKER_CONTROL, &message, sizeof(message), &fd, 0);
		if (n <= 0) {
			find_server();
			continue;
		}
		message.words.text[sizeof(message.words.text) - 1] = '\0';
		handle_message(&message);
		if (message.kind == CK_CONTROL_ACCOUNT)
			change_account(fd, message.account.seat);
		else if (message.kind == CK_CONTROL_RETURN)
			come_back(fd);
		else if (message.kind == CK_CONTROL_JOIN && fd >= 0)
			worker_join(fd);
		else if (fd >= 0)
			close(fd); /* of a newer supervisor */
	}
}
