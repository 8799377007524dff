/*
 * server/worker/park.c - see park.h.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "server/evacuation/evacuation.h"
#include "server/memory/lease.h"
#include "server/memory/memory.h"
#include "server/nccl/nccl.h"
#include "server/processes/gpu_room.h"
#include "server/processes/messages.h"
#include "server/processes/pool_table.h"
#include "server/session/locks.h"
#include "server/session/session.h"
#include "server/store/chunk_writer.h"
#include "server/store/held_chunks.h"
#include "server/worker/park.h"
#include "util/process/fd.h"
#include "util/until.h"
#include "util/util.h"

#define CK_REPORT_MS 1000
#define CK_CAPTURE_MS 2	    /* between two looks whether captures have ended */
#define CK_POOL_SECONDS 60u /* at least, for which host memory is kept for the next time */

static struct {
	unsigned int wait_ms;
	struct ck_mutex lock;	      /* held on the way off the GPU, and on the way back */
	uint64_t room;		      /* of the next way off, in bytes */
	bool saves;		      /* it is for a checkpoint, and the session goes on */
	_Atomic unsigned int pool_s;  /* for which host memory is kept after it */
	_Atomic unsigned int room_ms; /* to wait for room on the next way back */
	_Atomic uint64_t leaving;     /* bytes that another session gives back meanwhile */
	_Atomic uint64_t requests;    /* to park, */
	_Atomic uint64_t returns;     /* and how many of them have been ended */
	_Atomic uint64_t rounds;      /* beside the program */
	_Atomic uint64_t round_room;  /* of the last one */
	atomic_bool trims;	      /* a thread does */
	atomic_bool asked;	      /* report now */
	/* of the thread that reports */
	uint64_t turns, uses;
	struct cks_worker_note told;
	int64_t again;
} park = {.lock = CK_MUTEX(CK_RANK_PARK)};

static void send_note(const struct cks_worker_note *note)
{
	ck_fd_write_full(CK_WORKER_CONTROL, note, sizeof(*note));
}

static void request_resume(void)
{
	send_note(&(struct cks_worker_note){.kind = CK_NOTE_WANTED});
}

void cks_park_prepare(struct cks_session *s, uint64_t seconds)
{
	park.wait_ms = (unsigned int)(seconds * 1000);
	s->gate.knock = request_resume;
}

void cks_park_gpus(const struct cks_session *s, uint32_t gpus[CK_NOTE_GPUS])
{
	_Static_assert(CK_NOTE_GPUS == CK_NOTED_GPUS, "a note has a mark for each noted device");
	for (size_t i = 0; i < CK_NOTE_GPUS; i++)
		gpus[i] = atomic_load_explicit(&s->gpus[i], memory_order_relaxed);
}

static const char captures[] = "a stream is still being captured into a graph (--suspend-wait)";

/* Why the driver cannot move the session out, in words; NULL: it can. */
static const char *find_obstacle(struct cks_session *s)
{
	/* kernels of other processes wait for this one's; and threads inside of the gate may wait
	 * for their ranks */
	if (cks_nccl_any(s->nccl))
		return "it has NCCL communicators, whose other ranks wait for it";
	if (atomic_load(&s->shares))
		return "it shares GPU memory or events with other processes";
	return cks_handles_marked(s->handles) > 0 ? captures : NULL;
}

/* NULL: no thread calls the driver any more, and it can move the session out. */
static const char *close_gate(struct cks_session *s, int64_t until)
{
	const char *why;

	cks_lease_trim(s);
	if (!cks_gate_close(&s->gate, (unsigned int)ck_max(until - ck_now_ms(), (int64_t)0))) {
		cks_lease_open_gate(s);
		return "a call is still running (--suspend-wait)";
	}
	why = find_obstacle(s);
	if (why)
		cks_lease_open_gate(s);
	return why;
}

/* The same, when the program has ended its captures: it goes on until then, and may begin a next
 * one before the gate is closed. */
static const char *close_gate_between_captures(struct cks_session *s, int64_t until)
{
	const struct timespec step = {.tv_nsec = CK_CAPTURE_MS * CK_NS_PER_MS};

	for (;;) {
		const char *why = find_obstacle(s);

		if (!why)
			why = close_gate(s, until);
		if (why != captures || ck_now_ms() >= until)
			return why;
		nanosleep(&step, NULL);
	}
}

static void report_leaving(uint64_t bytes)
{
	send_note(&(struct cks_worker_note){.kind = CK_NOTE_LEAVING, .number = bytes});
}

/* Move memory out, as soon as no work uses it. NULL, or why the session goes on instead. */
static const char *move_memory(struct cks_session *s, int64_t until)
{
	int ret;

	cks_chunk_writer_wait(s->writer); /* no file of this server is open when it moves */
	cks_held_trim(s->held);		  /* other memory is to have its place */
	if (park.room == 0)
		return NULL;
	ret = cks_work_wait(s, (unsigned int)ck_max(until - ck_now_ms(), (int64_t)0));
	if (ret == -ETIMEDOUT) {
		cks_lease_open_gate(s);
		return "its work on the GPU is still running (--suspend-wait)";
	}
	if (ret == 0) /* else the driver moves as much as it can */
		cks_evacuate(s, park.room, park.saves, report_leaving);
	return NULL;
}

static void fill_memory(struct cks_session *s, struct cks_worker_note *note)
{
	note->number = cks_memory_total(s->memory);
	note->away = cks_evacuation_away(s);
	note->pool = cks_evacuation_pool(s);
}

/* Copy changed memory, beside the program. NULL: there are no records of the copies. */
static const struct cks_pool_saved *run_round(struct cks_session *s, uint64_t room)
{
	if (cks_evacuation_away(s) > 0 || atomic_load(&s->gate.closed) > 0)
		return NULL;
	cks_lease_trim(s);
	return cks_evacuation_round(s, room);
}

static void *come_to_rest(void *session)
{
	struct cks_worker_note note = {.kind = CK_NOTE_PARKED};
	struct cks_session *s = session;
	const char *why = NULL;
	int64_t begin;

	ck_lock(&park.lock);
	if (park.saves)
		run_round(s, park.room);
	begin = ck_now_ms();
	if (cks_evacuation_away(s) == 0) { /* else it has not returned since the last time */
		why = close_gate_between_captures(s, begin + park.wait_ms);
		if (!why)
			why = move_memory(s, begin + park.wait_ms);
	}
	if (why) {
		note.kind = CK_NOTE_BUSY;
		snprintf(note.text, sizeof(note.text), "%s", why);
	}
	note.move_ms = (uint32_t)(ck_now_ms() - begin);
	fill_memory(s, &note);
	cks_evacuation_by_device(s, note.away_on);
	cks_park_gpus(s, note.gpus);
	send_note(&note);
	ck_unlock(&park.lock);
	return NULL;
}

static bool run_aside(void *(*run)(void *), struct cks_session *s)
{
	pthread_t thread;
	bool ok = pthread_create(&thread, NULL, run, s) == 0;

	if (ok)
		pthread_detach(thread);
	return ok;
}

void cks_park(struct cks_session *s, const struct cks_control_park *message)
{
	struct cks_worker_note note = {.kind = CK_NOTE_BUSY, .text = "no thread for it"};

	atomic_fetch_add(&park.requests, 1);
	park.room = message->room;
	park.saves = message->saves;
	atomic_store(&park.pool_s, message->pool_s);
	if (!run_aside(come_to_rest, s))
		send_note(&note);
}

/* Host memory waits a while for the next way off the GPU. */
static void *trim_pool(void *session)
{
	struct timespec time = {.tv_sec = 0};
	struct cks_session *s = session;
	struct cks_pass pass = {.turns = 0};
	uint64_t requests;

	do {
		requests = atomic_load(&park.requests) + atomic_load(&park.rounds);
		time.tv_sec = ck_max(atomic_load(&park.pool_s), CK_POOL_SECONDS);
		nanosleep(&time, NULL);
	} while (requests != atomic_load(&park.requests) + atomic_load(&park.rounds) ||
		 ck_trylock(&park.lock) != 0);
	atomic_store(&park.trims, false);
	cks_gate_join(&s->gate, &pass);
	if (cks_gate_try_uncounted(&s->gate, &pass)) {
		cks_evacuation_trim(s);
		cks_gate_leave_uncounted(&pass);
	}
	cks_gate_part(&s->gate, &pass);
	ck_unlock(&park.lock);
	return NULL;
}

static void begin_trim(struct cks_session *s)
{
	if (!atomic_exchange(&park.trims, true) && !run_aside(trim_pool, s))
		atomic_store(&park.trims, false);
}

static void *report_round(void *session)
{
	struct cks_worker_note note = {.kind = CK_NOTE_ROUND};
	const struct cks_pool_saved *saved;

	ck_lock(&park.lock);
	saved = run_round(session, atomic_load(&park.round_room));
	note.known = (uintptr_t)saved;
	note.pool_fd = saved ? saved->fd : 0;
	note.pool = cks_evacuation_pool(session);
	send_note(&note);
	ck_unlock(&park.lock);
	begin_trim(session);
	return NULL;
}

void cks_park_round(struct cks_session *s, const struct cks_control_park *message)
{
	atomic_fetch_add(&park.rounds, 1);
	atomic_store(&park.round_room, message->room);
	if (!run_aside(report_round, s))
		send_note(&(struct cks_worker_note){.kind = CK_NOTE_ROUND});
}

/* All memory is back, or none. The others take none meanwhile, and may return some. */
static CUresult await_return(struct cks_session *s)
{
	const struct timespec pause = {.tv_nsec = CK_ROOM_PAUSE_MS * CK_NS_PER_MS};
	int64_t until = ck_now_ms() + park.room_ms;
	CUresult err;

	while ((err = cks_evacuation_return(s, park.leaving)) == CUDA_ERROR_OUT_OF_MEMORY &&
	       ck_now_ms() < until)
		nanosleep(&pause, NULL);
	return err;
}

static void return_memory(struct cks_session *s, struct cks_worker_note *note)
{
	int64_t begin = ck_now_ms();
	CUresult err = await_return(s);

	note->move_ms = (uint32_t)(ck_now_ms() - begin);
	if (err) {
		note->kind = err == CUDA_ERROR_OUT_OF_MEMORY ? CK_NOTE_NO_ROOM : CK_NOTE_LOST;
		snprintf(note->text, sizeof(note->text), "%s", cks_error_name(err));
		return;
	}
	begin_trim(s);
}

/* Call with the lock held. */
static void end_rest(struct cks_session *s)
{
	struct cks_worker_note note = {.kind = CK_NOTE_RETURNED};

	if (cks_evacuation_away(s) > 0)
		return_memory(s, &note);
	fill_memory(s, &note);
	if (note.kind == CK_NOTE_RETURNED)
		cks_lease_open_gate(s);
	send_note(&note);
}

static void *go_on(void *session)
{
	ck_lock(&park.lock);
	if (park.returns == atomic_load(&park.requests)) /* else it is to park again */
		end_rest(session);
	ck_unlock(&park.lock);
	return NULL;
}

/* Without memory to move it is done when this returns: a request to park may follow at once. */
void cks_unpark(struct cks_session *s, const struct cks_control_unpark *message)
{
	struct cks_worker_note note = {.kind = CK_NOTE_NO_ROOM, .text = "no thread for it"};
	bool rests = ck_trylock(&park.lock) == 0;

	atomic_store(&park.room_ms, message->room_ms);
	atomic_store(&park.leaving, message->leaving);
	atomic_store(&park.returns, park.requests);
	if (rests && cks_evacuation_away(s) == 0)
		end_rest(s);
	else if (!run_aside(go_on, s))
		send_note(&note);
	if (rests)
		ck_unlock(&park.lock);
}

/* The session's counters so far. */
static void fill_usage(struct cks_session *s, struct cks_worker_note *note)
{
	note->calls = atomic_load_explicit(&s->calls, memory_order_relaxed);
	note->commands = atomic_load_explicit(&s->executed, memory_order_relaxed);
	note->received = atomic_load_explicit(&s->bytes_in, memory_order_relaxed) +
			 atomic_load_explicit(&s->command_bytes, memory_order_relaxed);
	note->sent = atomic_load_explicit(&s->bytes_out, memory_order_relaxed);
	cks_histogram_read_shared(&s->call_times, &note->call_times);
	cks_histogram_read_shared(&s->round_trips, &note->round_trips);
}

/* The same, and its present use, for CK_NOTE_USE. */
static void take_stock(struct cks_session *s, struct cks_worker_note *note)
{
	bool inside;
	uint64_t turns = cks_gate_turns(&s->gate, &inside);

	if (inside || turns != park.turns)
		park.uses++;
	park.turns = turns;
	note->uses = park.uses;
	fill_memory(s, note);
	fill_usage(s, note);
	cks_park_gpus(s, note->gpus);
}

/* Counters may change after the use that they count: a report on use alone would miss the last
 * bytes. */
void cks_park_report(struct cks_session *s)
{
	struct cks_worker_note note;
	int64_t now = ck_now_ms();
	bool asked = atomic_exchange(&park.asked, false);

	if (now < park.again && !asked)
		return;
	memset(&note, 0, sizeof(note)); /* padding is compared too */
	note.kind = CK_NOTE_USE;
	take_stock(s, &note);
	if (memcmp(&note, &park.told, sizeof(note)) == 0 && !asked)
		return;
	memcpy(&park.told, &note, sizeof(note));
	park.again = now + CK_REPORT_MS;
	send_note(&note);
}

void cks_park_report_now(struct cks_session *s)
{
	atomic_store(&park.asked, true);
	cks_session_wake_watch(s);
}

/* The supervisor may be gone, or busy: it would not wait for this process either. */
void cks_park_end(struct cks_session *s, const char *reason)
{
	struct cks_worker_note note = {.kind = CK_NOTE_END};

	snprintf(note.text, sizeof(note.text), "%s", reason);
	if (s) {
		note.number = cks_memory_peak(s->memory);
		fill_usage(s, &note);
	}
	send(CK_WORKER_CONTROL, &note, sizeof(note), MSG_DONTWAIT | MSG_NOSIGNAL);
}
