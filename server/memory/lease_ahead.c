/*
 * server/memory/lease_ahead.c - the arena and the first lease, made before the client asks.
 *
 * A worker reserves the addresses and leases a little memory while it is a spare, or before it
 * answers the hello. The reply offers both, so that a client's first allocation needs no message.
 * A client that does not take the lease within CK_OFFER_SECONDS may only query the GPU: its memory
 * is released.
 */
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "gen/handlers.h"
#include "server/memory/lease.h"
#include "server/memory/memory.h"
#include "server/memory/virtual.h"
#include "server/session/session.h"
#include "util/log.h"
#include "util/util.h"

CK_LOG_DEFINE("server");

#define ARENA_SIZE ((size_t)4 << 40)
#define SHARE 64 /* lease at most this part of a device's memory */

/* Of the process, which has one session. */
static struct cks_lease_offer ahead;
static CUmemGenericAllocationHandle *handles;

/* Where neither Linux nor a driver places anything by itself. */
static CUdeviceptr reserve_arena(void)
{
	static const CUdeviceptr places[] = {0x240000000000, 0x340000000000, 0x440000000000};

	for (size_t i = 0; i < CK_ARRAY_SIZE(places); i++) {
		if (cks_virtual_reserve(places[i], ARENA_SIZE))
			return places[i];
	}
	return 0;
}

static size_t get_lease_size(CUdevice device, size_t size)
{
	size_t total = 0;

	if (!ck_driver.cuDeviceTotalMem_v2 || ck_driver.cuDeviceTotalMem_v2(&total, device))
		return 0;
	return ck_min(size, total / SHARE) & ~(CK_LEASE_CHUNK - 1);
}

void cks_lease_prepare(CUdevice device, size_t size)
{
	size_t count;

	if (ahead.arena || !cks_lease_possible())
		return;
	ahead.arena = reserve_arena();
	ahead.arena_size = ahead.arena ? ARENA_SIZE : 0;
	size = ahead.arena ? get_lease_size(device, size) : 0;
	count = size / CK_LEASE_CHUNK;
	handles = count ? calloc(count, sizeof(*handles)) : NULL;
	if (!handles)
		return;
	ahead.device = device;
	if (cks_lease_map(device, ahead.arena, size, CK_LEASE_CHUNK, (uint64_t)1 << device,
			  handles) == CUDA_SUCCESS)
		ahead.size = size;
}

void cks_lease_renew(void)
{
	size_t size = ahead.size;

	if (size == 0)
		return;
	cks_lease_cancel();
	size = ck_min(size, get_lease_size(ahead.device, size));
	if (size > 0 && cks_lease_map(ahead.device, ahead.arena, size, CK_LEASE_CHUNK,
				      (uint64_t)1 << ahead.device, handles) == CUDA_SUCCESS)
		ahead.size = size;
}

void cks_lease_cancel(void)
{
	size_t count = ahead.size / CK_LEASE_CHUNK;

	for (size_t i = 0; i < count; i++) {
		ck_driver.cuMemUnmap(ahead.arena + i * CK_LEASE_CHUNK, CK_LEASE_CHUNK);
		ck_driver.cuMemRelease(handles[i]);
	}
	ahead.size = 0;
}

void cks_lease_offer(struct cks_session *s, struct cks_lease_offer *offer)
{
	size_t count = ahead.size / CK_LEASE_CHUNK;

	for (size_t i = 0; i < count; i++) {
		CUdeviceptr at = ahead.arena + i * CK_LEASE_CHUNK;

		if (cks_memory_lease(s->memory, ahead.device, at, CK_LEASE_CHUNK, handles[i]))
			ahead.size = ck_min(ahead.size, i * CK_LEASE_CHUNK);
	}
	free(handles);
	handles = NULL;
	*offer = ahead;
	s->leases->offer = ahead;
}

/* The client has taken the lease. It may be late; then the memory is leased again. */
CUresult ck_serve_lease_keep(struct cks_request *q, ck_lease_keep_args *a, void *res)
{
	struct cks_session *s = q->session;
	struct cks_lease_offer *offer = &s->leases->offer;
	bool late;

	(void)a;
	(void)res;
	cks_lease_await_thaw(q);
	ck_lock(&s->leases->lock);
	late = offer->expired;
	offer->kept = true;
	ck_unlock(&s->leases->lock);
	return late ? cks_lease(s, offer->device, offer->arena, offer->size, CK_LEASE_CHUNK)
		    : CUDA_SUCCESS;
}

void cks_lease_expire(struct cks_session *s)
{
	struct cks_lease_offer *offer = &s->leases->offer;

	ck_lock(&s->leases->lock);
	if (!offer->kept && !offer->expired && offer->size > 0) {
		offer->expired = true;
		cks_lease_drop(s, offer->arena, offer->size);
		ck_debug("the client has not taken its lease: released");
	}
	ck_unlock(&s->leases->lock);
}

static void *expire_lease(void *session)
{
	const struct timespec time = {.tv_sec = CK_OFFER_SECONDS};
	struct cks_session *s = session;
	struct cks_pass pass = {.turns = 0};

	nanosleep(&time, NULL);
	cks_gate_join(&s->gate, &pass);
	cks_gate_uncount(&pass);
	cks_gate_enter_silently(&s->gate, &pass);
	cks_lease_expire(s);
	cks_gate_leave_uncounted(&pass);
	cks_gate_part(&s->gate, &pass);
	return NULL;
}

int cks_lease_watch_offer(struct cks_session *s)
{
	pthread_t thread;
	int ret;

	if (s->leases->offer.size == 0)
		return 0;
	ret = -pthread_create(&thread, NULL, expire_lease, s);
	if (ret == 0)
		pthread_detach(thread);
	return ret;
}
