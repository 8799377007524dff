/*
 * server/worker/park.c - see park.h.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "server/memory/lease.h"
#include "server/memory/memory.h"
#include "server/nccl/nccl.h"
#include "server/processes/messages.h"
#include "server/session/session.h"
#include "server/worker/park.h"
#include "util/fd.h"
#include "util/until.h"
#include "util/util.h"

#define CK_REPORT_MS 1000

static struct {
	unsigned int wait_ms;
	/* of the thread that reports */
	uint64_t turns, uses;
	struct cks_worker_note told;
	int64_t again;
} park;

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

/* Why the driver could not move the session out, in words; NULL: it can. No thread is inside of the
 * gate. */
static const char *find_obstacle(struct cks_session *s)
{
	if (cks_handles_marked(s->handles) > 0)
		return "a stream is being captured into a graph";
	if (atomic_load(&s->shares))
		return "it shares GPU memory or events with other processes";
	return NULL;
}

/* NULL: no thread calls the driver any more, and it can move the session out. */
static const char *close_gate(struct cks_session *s)
{
	const char *why;

	/* kernels of other processes wait for this one's; and threads inside of the gate may wait
	 * for their ranks */
	if (cks_nccl_any(s->nccl))
		return "it has NCCL communicators, whose other ranks wait for it";
	cks_lease_trim(s);
	if (!cks_gate_close(&s->gate, park.wait_ms))
		return "a call is still running (--suspend-wait)";
	why = find_obstacle(s);
	if (why)
		cks_gate_open(&s->gate);
	return why;
}

static void *come_to_rest(void *session)
{
	struct cks_worker_note note = {.kind = CK_NOTE_PARKED};
	struct cks_session *s = session;
	const char *why = close_gate(s);

	if (why) {
		note.kind = CK_NOTE_BUSY;
		snprintf(note.text, sizeof(note.text), "%s", why);
	}
	note.number = cks_memory_total(s->memory);
	cks_park_gpus(s, note.gpus);
	send_note(&note);
	return NULL;
}

void cks_park(struct cks_session *s)
{
	struct cks_worker_note note = {.kind = CK_NOTE_BUSY, .text = "no thread for it"};
	pthread_t thread;

	if (pthread_create(&thread, NULL, come_to_rest, s) == 0)
		pthread_detach(thread);
	else
		send_note(&note);
}

/* What the session has done so far. */
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

/* The same, and what it has now, for CK_NOTE_USE. */
static void take_stock(struct cks_session *s, struct cks_worker_note *note)
{
	bool inside;
	uint64_t turns = cks_gate_turns(&s->gate, &inside);

	if (inside || turns != park.turns)
		park.uses++;
	park.turns = turns;
	note->uses = park.uses;
	note->number = cks_memory_total(s->memory);
	fill_usage(s, note);
	cks_park_gpus(s, note->gpus);
}

/* Counters may change after the use that they count: a report on use alone would miss the last
 * bytes. */
void cks_park_report(struct cks_session *s)
{
	struct cks_worker_note note;
	int64_t now = ck_now_ms();

	if (now < park.again)
		return;
	memset(&note, 0, sizeof(note)); /* padding is compared too */
	note.kind = CK_NOTE_USE;
	take_stock(s, &note);
	if (memcmp(&note, &park.told, sizeof(note)) == 0)
		return;
	memcpy(&park.told, &note, sizeof(note));
	park.again = now + CK_REPORT_MS;
	send_note(&note);
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
