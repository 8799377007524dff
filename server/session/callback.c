/*
 * server/session/callback.c - tickets for the client's callbacks. The driver's threads make them;
 * lanes of the client wait here and fetch them; the driver's threads wait until the client has
 * finished.
 */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "gen/handlers.h"
#include "server/session/callback.h"
#include "server/session/locks.h"
#include "server/session/session.h"
#include "util/map.h"
#include "util/until.h"
#include "util/util.h"
#include "util/wait.h"

struct cks_host_call {
	struct cks_callbacks *callbacks;
	struct cks_stream_holds *holds; /* of the session */
	uint64_t id;
};

struct ticket {
	uint64_t number, id, value;
	int status;
	bool waited; /* a thread waits for its end and owns it */
	bool done;
	struct ck_cond end;
	struct ticket *next;
};

struct cks_callbacks {
	struct ck_mutex lock;
	struct ck_cond work;	      /* a ticket has come */
	struct ticket *first, **last; /* not fetched yet */
	struct ticket *running;	      /* fetched tickets that a thread waits for */
	uint64_t numbers;
	struct ck_map *kept; /* calls of graphs, by id */
	bool ended;
};

int cks_callbacks_create(struct cks_callbacks **out)
{
	struct cks_callbacks *c = calloc(1, sizeof(*c));

	if (!c)
		return -ENOMEM;
	c->lock = (struct ck_mutex)CK_MUTEX(CK_RANK_CALLBACKS);
	c->last = &c->first;
	*out = c;
	return 0;
}

static void let_go(struct ticket *t)
{
	struct ticket *next;

	for (; t; t = next) {
		next = t->next;
		if (t->waited)
			ck_cond_signal(&t->end);
		else
			free(t);
	}
}

void cks_callbacks_end(struct cks_callbacks *c)
{
	ck_lock(&c->lock);
	c->ended = true;
	let_go(c->first);
	let_go(c->running);
	c->first = c->running = NULL;
	c->last = &c->first;
	ck_cond_broadcast(&c->work);
	ck_unlock(&c->lock);
}

void cks_callbacks_destroy(struct cks_callbacks *c)
{
	struct ck_map_iter it = CK_MAP_ITER_INIT;

	if (!c)
		return;
	cks_callbacks_end(c);
	while (c->kept && ck_map_next(c->kept, &it))
		free(it.value);
	ck_map_destroy(c->kept);
	ck_cond_destroy(&c->work);
	ck_mutex_destroy(&c->lock);
	free(c);
}

struct cks_host_call *cks_host_call_create(struct cks_session *session, uint64_t id)
{
	struct cks_host_call *call = malloc(sizeof(*call));

	if (call)
		*call = (struct cks_host_call){session->callbacks, &session->holds, id};
	return call;
}

struct cks_host_call *cks_host_call_keep(struct cks_session *session, uint64_t id)
{
	struct cks_callbacks *c = session->callbacks;
	struct cks_host_call *call = NULL;

	ck_lock(&c->lock);
	if (!c->kept)
		c->kept = ck_map_create();
	if (c->kept)
		call = ck_map_find(c->kept, &id, sizeof(id));
	if (c->kept && !call) {
		call = cks_host_call_create(session, id);
		if (call && ck_map_insert(c->kept, &id, sizeof(id), call) < 0) {
			free(call);
			call = NULL;
		}
	}
	ck_unlock(&c->lock);
	return call;
}

uint64_t cks_host_call_id(const struct cks_host_call *call)
{
	return call->id;
}

void cks_host_call_destroy(struct cks_host_call *call)
{
	free(call);
}

static void queue_ticket(struct cks_callbacks *c, struct ticket *t)
{
	t->number = ++c->numbers;
	*c->last = t;
	c->last = &t->next;
	ck_cond_signal(&c->work);
}

static void unlink_from(struct ticket **at, const struct ticket *t)
{
	for (; *at; at = &(*at)->next) {
		if (*at == t) {
			*at = t->next;
			return;
		}
	}
}

/* Take back a ticket that is not finished, fetched or not. Call with the lock held. */
static void withdraw_ticket(struct cks_callbacks *c, const struct ticket *t)
{
	unlink_from(&c->first, t);
	unlink_from(&c->running, t);
	for (c->last = &c->first; *c->last;)
		c->last = &(*c->last)->next;
}

/* Run it and wait for its end, or until @until (NULL: as long as it takes). Returns whether it has
 * ended. */
static bool run_call(const struct cks_host_call *call, int status, const struct timespec *until)
{
	struct cks_callbacks *c = call->callbacks;
	struct ticket t = {.id = call->id, .status = status, .waited = true};
	int err = 0;

	ck_lock(&c->lock);
	if (!c->ended)
		queue_ticket(c, &t);
	while (!t.done && !c->ended && err != ETIMEDOUT) {
		if (until)
			err = ck_cond_timedwait(&t.end, &c->lock, until);
		else
			ck_cond_wait(&t.end, &c->lock);
	}
	if (!t.done)
		withdraw_ticket(c, &t);
	ck_unlock(&c->lock);
	ck_cond_destroy(&t.end);
	return t.done;
}

void cks_host_call_run(void *call)
{
	run_call(call, CUDA_SUCCESS, NULL);
}

bool cks_host_call_run_within(const struct cks_host_call *call, unsigned int ms)
{
	const struct timespec until = ck_until(ms * CK_NS_PER_MS);

	return run_call(call, CUDA_SUCCESS, &until);
}

void cks_host_call_run_once(void *call)
{
	run_call(call, CUDA_SUCCESS, NULL);
	cks_host_call_destroy(call);
}

void cks_host_call_run_held(void *data)
{
	struct cks_host_call *call = data;

	run_call(call, CUDA_SUCCESS, NULL);
	cks_stream_holds_over(call->holds);
	cks_host_call_destroy(call);
}

void cks_host_call_run_status(CUstream stream, CUresult status, void *call)
{
	(void)stream; /* the client has its own handle of it */
	run_call(call, (int)status, NULL);
	cks_host_call_destroy(call);
}

void cks_host_call_send(struct cks_host_call *call, int status, uint64_t value)
{
	struct cks_callbacks *c = call->callbacks;
	struct ticket *t = calloc(1, sizeof(*t));

	if (!t)
		return;
	t->id = call->id;
	t->status = status;
	t->value = value;
	ck_lock(&c->lock);
	queue_ticket(c, t);
	ck_unlock(&c->lock);
}

/* The client has finished a ticket; ignore a number that no thread waits for. */
static void finish_ticket(struct cks_callbacks *c, uint64_t number)
{
	for (struct ticket **at = &c->running; *at; at = &(*at)->next) {
		struct ticket *t = *at;

		if (t->number == number) {
			*at = t->next;
			t->done = true;
			ck_cond_signal(&t->end);
			return;
		}
	}
}

static void wait_for_work(struct cks_callbacks *c, unsigned int milliseconds)
{
	struct timespec until = ck_until(milliseconds * CK_NS_PER_MS);

	while (!c->first && !c->ended && ck_cond_timedwait(&c->work, &c->lock, &until) != ETIMEDOUT)
		;
}

static struct ticket *take_ticket(struct cks_callbacks *c)
{
	struct ticket *t = c->first;

	if (!t)
		return NULL;
	c->first = t->next;
	if (!c->first)
		c->last = &c->first;
	if (t->waited) {
		t->next = c->running;
		c->running = t;
	}
	return t;
}

/* A client thread has finished a ticket (0: none) and waits for the next one. */
CUresult ck_serve_callback_next(struct cks_request *q, ck_callback_next_args *a,
				ck_callback_next_res *res)
{
	struct cks_callbacks *c = q->session->callbacks;
	struct ticket *t;

	ck_lock(&c->lock);
	finish_ticket(c, a->done);
	wait_for_work(c, ck_min(a->milliseconds, q->session->wait_max_ms));
	t = take_ticket(c);
	if (t) {
		res->ticket = t->number;
		res->callback = t->id;
		res->status = t->status;
		res->value = t->value;
		if (!t->waited)
			free(t);
	}
	ck_unlock(&c->lock);
	return CUDA_SUCCESS;
}
