/*
 * server/memory/lease_reclaim.c - a session that runs out of memory asks the others for theirs.
 *
 * Only a client knows which parts of its leases are free. So the supervisor passes the request on
 * to all workers, and each passes it on to its client, which returns free memory in the command
 * stream.
 */
#include <pthread.h>
#include <time.h>

#include "gen/handlers.h"
#include "server/memory/lease.h"
#include "server/policy/meter.h"
#include "server/session/callback.h"
#include "server/session/session.h"
#include "util/log.h"
#include "util/until.h"

CK_LOG_DEFINE("server");

#define ANSWER_MS 10000 /* for the server's answer */
#define PATIENCE_MS 300 /* for memory that others return, if none leaves the GPU */
#define PAUSE_MS 2
#define GRACE_MS 500
#define ROUNDS 64     /* in each, one session may leave */
#define RETURN_MS 500 /* for a client at the end of a slow link */

CUresult ck_serve_lease_watch(struct cks_request *q, ck_lease_watch_args *a, void *res)
{
	struct cks_leases *l = q->session->leases;
	struct cks_host_call *call = cks_host_call_keep(q->session, a->callback);

	(void)res;
	if (!call)
		return CUDA_ERROR_OUT_OF_MEMORY;
	ck_lock(&l->lock);
	l->client = call;
	ck_unlock(&l->lock);
	return CUDA_SUCCESS;
}

static struct cks_host_call *client_of(struct cks_session *s)
{
	struct cks_host_call *client;

	ck_lock(&s->leases->lock);
	client = s->leases->client;
	ck_unlock(&s->leases->lock);
	return client;
}

void cks_lease_return_free(struct cks_session *s)
{
	struct cks_host_call *client;
	struct cks_pass pass = {.turns = 0};
	bool running;

	cks_gate_join(&s->gate, &pass);
	running = cks_gate_try_uncounted(&s->gate, &pass);
	if (running)
		cks_gate_leave_uncounted(&pass);
	cks_gate_part(&s->gate, &pass);
	if (!running)
		return; /* suspended: it holds no device memory, and its client would resume it */
	client = client_of(s);
	if (client)
		cks_host_call_send(client, 0, 0);
}

void cks_lease_trim(struct cks_session *s)
{
	struct cks_host_call *client = client_of(s);

	if (client && !cks_host_call_run_within(client, RETURN_MS))
		ck_debug("the client has not returned its free memory: it moves too");
}

/* The commands before this call have been carried out: returns are among them. */
CUresult ck_serve_lease_returned(struct cks_request *q, ck_lease_returned_args *a,
				 ck_lease_returned_res *res)
{
	(void)q;
	(void)a;
	(void)res;
	return CUDA_SUCCESS;
}

void cks_lease_alone(struct cks_session *s)
{
	s->leases->room = CK_ROOM_ALONE;
}

void cks_lease_refused(struct cks_session *s)
{
	s->leases->room = CK_ROOM_NONE;
}

void cks_lease_coming(struct cks_session *s)
{
	s->leases->room = CK_ROOM_COMING;
}

void cks_lease_made(struct cks_session *s)
{
	s->leases->room = CK_ROOM_MADE;
}

/* Look at the free memory from outside of the gate, which may be closed: then *@free stays. @pass
 * NULL: the thread is inside. */
static void look_at_free(struct cks_session *s, struct cks_pass *pass, size_t *free)
{
	if (pass && !cks_gate_try_uncounted(&s->gate, pass))
		return;
	*free = cks_meter_free();
	if (pass)
		cks_gate_leave_uncounted(pass);
}

/* How long to wait on, after @left ms, for the server's word, or memory that others return. */
static int patience(const struct cks_session *s, int left)
{
	switch ((int)s->leases->room) {
	case CK_ROOM_ASKED:
		return left;
	case CK_ROOM_NONE:
		return ck_min(left, PATIENCE_MS);
	case CK_ROOM_COMING: /* it has more to say */
		return ANSWER_MS;
	default:
		return 0;
	}
}

/* Memory was found without the server. It need not make room for this session any more, unless
 * another thread waits. */
static void end_request(struct cks_session *s)
{
	if (s->leases->askers == 1)
		s->press(false);
	/* another session that returns may take it first: then ask again */
	s->leases->room = CK_ROOM_MADE;
}

/*
 * Wait until @size bytes are free, the server has no more to say, or some time has passed. While
 * another session leaves the GPU, the server has more to say. False: the session itself leaves.
 */
static bool await_memory(struct cks_session *s, struct cks_pass *pass, size_t size)
{
	const struct timespec pause = {.tv_nsec = PAUSE_MS * CK_NS_PER_MS};
	size_t free = 0;
	int free_ms = 0;

	for (int left = ANSWER_MS; left > 0; left = patience(s, left - PAUSE_MS)) {
		if (pass && cks_gate_is_parked(&s->gate))
			return false;
		look_at_free(s, pass, &free);
		free_ms = free >= size ? free_ms + PAUSE_MS : 0;
		/* while another session moves, free memory may be for that one */
		if (free_ms > (s->leases->room == CK_ROOM_COMING ? GRACE_MS : 0)) {
			end_request(s);
			break;
		}
		nanosleep(&pause, NULL);
	}
	return true;
}

/*
 * Ask the others, and wait. The thread is outside of the gate meanwhile: the session does not use
 * the GPU, and may leave it for another one. Then it asks again when it is back. Returns the free
 * memory.
 */
static size_t request_memory(struct cks_session *s, struct cks_pass *pass, size_t size)
{
	bool answered = false;

	s->leases->askers++;
	while (!answered) {
		s->leases->room = CK_ROOM_ASKED;
		if (!s->press || s->press(true) < 0)
			break;
		if (pass)
			cks_gate_leave(pass);
		answered = await_memory(s, pass, size);
		if (pass)
			cks_gate_enter(&s->gate, pass);
	}
	s->leases->askers--;
	return cks_meter_free();
}

/* Wait until there is enough free memory, or at least more than before: a client that does not know
 * how much is enough tries that first. */
CUresult ck_serve_lease_press(struct cks_request *q, ck_lease_press_args *a,
			      ck_lease_press_res *res)
{
	struct cks_session *s = q->session;
	size_t before = cks_meter_free(), now = before;
	unsigned int round = 0;

	cks_lease_expire(s); /* the client does not take it any more */
	do
		now = request_memory(s, q->pass, a->size);
	while (now < (a->size < SIZE_MAX ? a->size : before + 1) &&
	       s->leases->room == CK_ROOM_MADE && ++round < ROUNDS);
	res->more = now > before || now >= a->size;
	return CUDA_SUCCESS;
}

/* Before a client looks for memory: was the OUT_OF_MEMORY of its call that of a command? */
CUresult ck_serve_command_failed(struct cks_request *q, ck_command_failed_args *a,
				 ck_command_failed_res *res)
{
	struct ck_chan *chan = q->chan;

	(void)a;
	res->failed = atomic_compare_exchange_strong(&q->session->failed_to, &chan, NULL);
	return CUDA_SUCCESS;
}

bool cks_lease_make_room(struct cks_request *q, unsigned int round)
{
	struct cks_session *s = q->session;

	if (!s->press || q->bounded)
		return false;
	request_memory(s, q->pass, SIZE_MAX);
	return s->leases->room == CK_ROOM_MADE ? round < ROUNDS
					       : s->leases->room != CK_ROOM_ALONE && round == 0;
}
