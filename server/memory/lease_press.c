/*
 * server/memory/lease_press.c - a session that runs out of memory asks the others for theirs.
 *
 * Only a client knows what of its leases is free. So the supervisor passes the request on to all
 * workers, and each passes it on to its client, which returns free memory in the command stream.
 */
#include <pthread.h>
#include <time.h>

#include "gen/handlers.h"
#include "server/memory/lease.h"
#include "server/session/callback.h"
#include "server/session/session.h"
#include "util/until.h"

#define PATIENCE_MS 300
#define PAUSE_MS 2

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

void cks_lease_pressed(struct cks_session *s)
{
	struct cks_host_call *client;

	cks_lease_expire(s);
	ck_lock(&s->leases->lock);
	client = s->leases->client;
	ck_unlock(&s->leases->lock);
	if (client)
		cks_host_call_tell(client, 0, 0);
}

void cks_lease_alone(struct cks_session *s)
{
	s->leases->alone = true;
}

static size_t free_memory(void)
{
	size_t free = 0, total;

	return ck_driver.cuMemGetInfo_v2 && ck_driver.cuMemGetInfo_v2(&free, &total) == CUDA_SUCCESS
		       ? free
		       : 0;
}

/* Wait until there is enough free memory, or at least more than before. */
CUresult ck_serve_lease_press(struct cks_request *q, ck_lease_press_args *a,
			      ck_lease_press_res *res)
{
	struct cks_session *s = q->session;
	const struct timespec pause = {.tv_nsec = PAUSE_MS * CK_NS_PER_MS};
	size_t before = free_memory(), now = before;

	s->leases->alone = false;
	if (!s->press || s->press() < 0)
		return CUDA_SUCCESS;
	for (int ms = 0; ms < PATIENCE_MS && now < a->size && !s->leases->alone; ms += PAUSE_MS) {
		nanosleep(&pause, NULL);
		now = free_memory();
	}
	res->more = now > before || now >= a->size;
	return CUDA_SUCCESS;
}
