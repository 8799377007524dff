/*
 * server/nccl/comms.c - communicators by the client's numbers, with their operators and registered
 * buffers.
 *
 * Several threads may use a communicator: one carries out its operations, another asks for its
 * error, revokes or aborts it, as NCCL allows. So a communicator is freed when the last of them has
 * put it. Two batches of operations at a time are an error: a client may send them, and NCCL and
 * the tables below would not bear it.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/nccl/nccl.h"
#include "server/session/locks.h"
#include "util/log.h"
#include "util/until.h"

CK_LOG_DEFINE("server");

#define GROW 64 /* operators */
#define OVERTAKE_MS 10000

int cks_nccl_create(struct cks_nccl **out)
{
	struct cks_nccl *n = calloc(1, sizeof(*n));

	if (!n)
		return -ENOMEM;
	n->lock = (struct ck_mutex)CK_MUTEX(CK_RANK_NCCL);
	*out = n;
	return 0;
}

static void free_comm(struct cks_nccl_comm *c)
{
	free(c->redops);
	free(c->buffers);
	free(c->windows);
	free(c);
}

void cks_nccl_destroy(struct cks_nccl *n)
{
	if (!n)
		return;
	for (unsigned int i = 0; i < CK_NCCL_COMMS; i++) {
		if (n->comms[i])
			free_comm(n->comms[i]);
	}
	ck_cond_destroy(&n->done);
	ck_mutex_destroy(&n->lock);
	free(n);
}

struct cks_nccl_comm *cks_nccl_comm_new(struct cks_nccl *n, unsigned int number, uint64_t context,
					bool nonblocking)
{
	struct cks_nccl_comm *c;

	if (number == 0 || number >= CK_NCCL_COMMS)
		return NULL;
	c = calloc(1, sizeof(*c));
	if (!c)
		return NULL;
	c->number = number;
	c->context = context;
	c->nonblocking = nonblocking;
	c->making = true;
	c->users = 2; /* the table, and the caller */
	ck_lock(&n->lock);
	if (n->comms[number]) {
		free(c);
		c = NULL;
	} else {
		n->comms[number] = c;
		n->count++;
		ck_cond_broadcast(&n->done);
	}
	ck_unlock(&n->lock);
	return c;
}

/* With the lock. */
static struct cks_nccl_comm *get_comm(struct cks_nccl *n, unsigned int number)
{
	struct cks_nccl_comm *c = NULL;

	if (number > 0 && number < CK_NCCL_COMMS)
		c = n->comms[number];
	if (c && c->ended)
		c = NULL;
	if (c)
		c->users++;
	return c;
}

struct cks_nccl_comm *cks_nccl_comm_get(struct cks_nccl *n, unsigned int number)
{
	struct cks_nccl_comm *c;

	ck_lock(&n->lock);
	c = get_comm(n, number);
	ck_unlock(&n->lock);
	return c;
}

/* The call of NCCL that makes it has not returned, but will soon. */
static bool is_coming(const struct cks_nccl_comm *c)
{
	return !c || (c->making && c->nonblocking && !c->handle);
}

struct cks_nccl_comm *cks_nccl_comm_await(struct cks_nccl *n, unsigned int number)
{
	struct timespec until = ck_until(OVERTAKE_MS * CK_NS_PER_MS);
	struct cks_nccl_comm *c;
	int ret = 0;

	ck_lock(&n->lock);
	while (is_coming(number < CK_NCCL_COMMS ? n->comms[number] : NULL) && ret == 0)
		ret = ck_cond_timedwait(&n->done, &n->lock, &until);
	c = get_comm(n, number);
	ck_unlock(&n->lock);
	return c;
}

/* With the lock. */
static bool let_go(struct cks_nccl_comm *c)
{
	return --c->users == 0;
}

void cks_nccl_comm_put(struct cks_nccl *n, struct cks_nccl_comm *c)
{
	bool last;

	ck_lock(&n->lock);
	last = let_go(c);
	ck_unlock(&n->lock);
	if (last)
		free_comm(c);
}

bool cks_nccl_comm_claim(struct cks_nccl *n, struct cks_nccl_comm *c, const void *batch)
{
	bool free;

	ck_lock(&n->lock);
	free = !c->batch || c->batch == batch;
	if (free)
		c->batch = batch;
	ck_unlock(&n->lock);
	return free;
}

void cks_nccl_comm_give_back(struct cks_nccl *n, struct cks_nccl_comm *c, const void *batch)
{
	ck_lock(&n->lock);
	if (c->batch == batch)
		c->batch = NULL;
	ck_unlock(&n->lock);
}

void cks_nccl_comm_remove(struct cks_nccl *n, struct cks_nccl_comm *c)
{
	bool last = false;

	ck_lock(&n->lock);
	c->ended = true;
	if (n->comms[c->number] == c) {
		n->comms[c->number] = NULL;
		n->count--;
		last = let_go(c);
	}
	ck_unlock(&n->lock);
	if (last)
		free_comm(c);
}

ncclComm_t cks_nccl_comm_handle(struct cks_nccl *n, const struct cks_nccl_comm *c)
{
	ncclComm_t handle;

	ck_lock(&n->lock);
	handle = c->handle;
	ck_unlock(&n->lock);
	return handle;
}

void cks_nccl_comm_begun(struct cks_nccl *n, struct cks_nccl_comm *c, ncclComm_t handle)
{
	ck_lock(&n->lock);
	c->handle = handle;
	ck_cond_broadcast(&n->done);
	ck_unlock(&n->lock);
}

bool cks_nccl_comm_made(struct cks_nccl *n, struct cks_nccl_comm *c, ncclComm_t handle)
{
	bool wanted;

	ck_lock(&n->lock);
	c->making = false;
	wanted = !c->ended;
	if (wanted)
		c->handle = handle;
	ck_cond_broadcast(&n->done);
	ck_unlock(&n->lock);
	return wanted;
}

ncclComm_t cks_nccl_comm_end(struct cks_nccl *n, struct cks_nccl_comm *c)
{
	ncclComm_t handle;

	ck_lock(&n->lock);
	c->ended = true;
	handle = c->handle;
	c->handle = NULL;
	ck_unlock(&n->lock);
	return handle;
}

void cks_nccl_comm_fail(struct cks_nccl *n, struct cks_nccl_comm *c, ncclResult_t result,
			const char *text)
{
	ck_lock(&n->lock);
	if (!c->failed) {
		c->failed = result;
		snprintf(c->text, sizeof(c->text), "%s", text);
	}
	ck_unlock(&n->lock);
}

/* Under the lock: NCCL answers at once, and an abort in another thread frees what it looks at. */
ncclResult_t cks_nccl_comm_state(struct cks_nccl *n, const struct cks_nccl_comm *c)
{
	ncclResult_t state = ncclSuccess, ret = ncclInvalidArgument;

	ck_lock(&n->lock);
	if (c->failed)
		ret = c->failed;
	else if (c->handle)
		ret = cks_nccl.ncclCommGetAsyncError(c->handle, &state);
	ck_unlock(&n->lock);
	return ret ? ret : state;
}

void cks_nccl_comm_text(struct cks_nccl *n, const struct cks_nccl_comm *c, char *text)
{
	ck_lock(&n->lock);
	memcpy(text, c->text, CK_NCCL_TEXT);
	ck_unlock(&n->lock);
}

/* --- operators: the batch that has the communicator to itself has them too */

bool cks_nccl_redop_find(const struct cks_nccl_comm *c, int number, ncclRedOp_t *op)
{
	unsigned int at = (unsigned int)(number - ncclNumOps);

	if (number >= 0 && number < ncclNumOps) {
		*op = number;
		return true;
	}
	if (number < 0 || at >= c->redop_count || c->redops[at] < 0)
		return false;
	*op = c->redops[at];
	return true;
}

bool cks_nccl_redop_put(struct cks_nccl_comm *c, int number, ncclRedOp_t op)
{
	unsigned int at = (unsigned int)(number - ncclNumOps), count;
	ncclRedOp_t *more;

	if (number < ncclNumOps || at >= CK_NCCL_REDOPS)
		return false;
	if (at >= c->redop_count) {
		count = (at / GROW + 1) * GROW;
		more = realloc(c->redops, count * sizeof(*more));
		if (!more)
			return false;
		for (unsigned int i = c->redop_count; i < count; i++)
			more[i] = -1;
		c->redops = more;
		c->redop_count = count;
	}
	if (c->redops[at] >= 0)
		return false;
	c->redops[at] = op;
	return true;
}

void cks_nccl_redop_remove(struct cks_nccl_comm *c, int number)
{
	unsigned int at = (unsigned int)(number - ncclNumOps);

	if (number >= ncclNumOps && at < c->redop_count)
		c->redops[at] = -1;
}

/* --- registered buffers: the same */

/* NCCL keeps the address of a place until a group ends: the array does not move. */
static bool make_places(struct cks_nccl_comm *c)
{
	c->buffers = calloc(CK_NCCL_BUFFERS, sizeof(*c->buffers));
	c->windows = calloc(CK_NCCL_BUFFERS, sizeof(*c->windows));
	if (!c->buffers || !c->windows) {
		free(c->buffers);
		free(c->windows);
		c->buffers = NULL;
		c->windows = NULL;
		return false;
	}
	c->buffer_count = CK_NCCL_BUFFERS;
	return true;
}

/* A place that is taken, and has no handle yet. */
static char reserved;

unsigned int cks_nccl_buffer_new(struct cks_nccl_comm *c, bool window)
{
	unsigned int place = 1;

	if (!c->buffers && !make_places(c))
		return 0;
	while (place < c->buffer_count && c->buffers[place])
		place++;
	if (place >= c->buffer_count)
		return 0;
	c->buffers[place] = &reserved;
	c->windows[place] = window;
	return place;
}

uint64_t cks_nccl_buffer_value(const struct cks_nccl_comm *c, unsigned int place)
{
	/* kernels of the program may be given a window, which is an address on the device */
	return c->windows[place] ? (uintptr_t)c->buffers[place] : place;
}

unsigned int cks_nccl_buffer_find(const struct cks_nccl_comm *c, bool window, uint64_t value)
{
	for (unsigned int i = 1; i < c->buffer_count; i++) {
		if (c->buffers[i] && c->buffers[i] != &reserved && c->windows[i] == window &&
		    cks_nccl_buffer_value(c, i) == value)
			return i;
	}
	return 0;
}

/* --- all of them */

bool cks_nccl_any(struct cks_nccl *n)
{
	bool any;

	ck_lock(&n->lock);
	any = n->count > 0 || n->threads > 0;
	ck_unlock(&n->lock);
	return any;
}

void cks_nccl_drop_context(struct cks_session *s, uint64_t id)
{
	struct cks_nccl *n = s->nccl;

	if (!cks_nccl_any(n))
		return;
	for (unsigned int i = 1; i < CK_NCCL_COMMS; i++) {
		struct cks_nccl_comm *c = cks_nccl_comm_get(n, i);
		ncclComm_t handle;

		if (!c)
			continue;
		if (c->context == id) {
			ck_info("a context ends with a communicator in it, which is aborted");
			handle = cks_nccl_comm_end(n, c);
			if (handle)
				cks_nccl.ncclCommAbort(handle);
			cks_nccl_comm_remove(n, c);
		}
		cks_nccl_comm_put(n, c);
	}
}
