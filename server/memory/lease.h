/*
 * server/memory/lease.h - device memory that the session may take without asking.
 *
 * A lease is physical memory that is mapped at addresses of the client's choice. The client lays
 * out allocations in it by itself. It is there before the client learns of it, so no other process
 * can take it in the meantime. Each unit of a lease is a physical allocation of its own, and can be
 * given back alone.
 */
#ifndef CK_SERVER_MEMORY_LEASE_H
#define CK_SERVER_MEMORY_LEASE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cricket.h"
#include "cuda/types.h"
#include "util/lock.h"

struct cks_host_call;
struct cks_late_end;
struct cks_ended_stream;
struct cks_lease_opened;
struct cks_request;
struct cks_session;
struct cks_ticket;

#define CK_OFFER_SECONDS 6 /* twice as long as a client may take an offer */

/* The arena, and the lease at its beginning, that the reply to hello offers. */
struct cks_lease_offer {
	CUdeviceptr arena; /* 0: none */
	size_t arena_size, size;
	CUdevice device;
	bool kept, expired;
};

struct cks_leases {
	struct ck_mutex lock; /* held over the driver's calls, so that access is set for all */
	bool frozen;	      /* another session returns to the GPU: take no memory, until */
	struct ck_cond thawed;
	uint64_t access[CK_MAX_DEVICES]; /* per device: a bit per device that may use its memory */
	uint64_t met; /* a bit per device on which the session has had a context */
	struct cks_lease_opened *opened; /* memory of other sessions */
	struct cks_lease_offer offer;
	struct cks_host_call
		*client;	   /* asks the client for free memory; NULL: it cannot be asked */
	struct cks_late_end *late; /* ends that wait for the return of the session */
	struct cks_ended_stream *ended; /* streams that were destroyed before their work was over */
	bool unsure;			/* some are not in the list */
	/* the server's answer to a request for memory */
	_Atomic enum {
		CK_ROOM_ASKED,
		CK_ROOM_ALONE,
		CK_ROOM_NONE,
		CK_ROOM_COMING,
		CK_ROOM_MADE
	} room;
	_Atomic unsigned int askers; /* threads that wait for it */
};

#define CK_LEASE_CHUNK ((size_t)2 << 20) /* units are whole chunks */

/* --- lease_quiet.c: work that may still use memory which the client has freed, and other waits of
 * the server's own */

/* Wait for the work of the context with id @id, the current one, but end no capture. */
CUresult cks_context_wait(struct cks_session *session, uint64_t id);

/* The stream of @q's context is about to be destroyed, perhaps before its work is over. */
void cks_lease_note_stream(struct cks_request *q, CUstream stream);
/* Make @after wait for the work of all such streams. */
CUresult cks_lease_order_ended(struct cks_leases *leases, CUstream after);
/* @context has ended, and its events with it; 0: the session has. */
void cks_lease_forget_ended(struct cks_leases *leases, uint64_t context);

/* --- */

int cks_leases_create(struct cks_leases **leases);
void cks_leases_destroy(struct cks_leases *leases); /* frees no device memory */

/*
 * Lease @size bytes of @device at @at, in units of @unit bytes. INVALID_VALUE: not whole chunks, or
 * something is there; else the driver's error. After an error nothing is leased.
 */
CUresult cks_lease(struct cks_session *session, CUdevice device, CUdeviceptr at, size_t size,
		   size_t unit);

/* Can leases begin? Not if two of the worker's devices cannot reach each other's memory. Asks the
 * driver for each pair. */
bool cks_lease_possible(void);
/* The driver's part of cks_lease(): map and grant access to @devices, a bit each. */
CUresult cks_lease_map(CUdevice device, CUdeviceptr at, size_t size, size_t unit, uint64_t devices,
		       CUmemGenericAllocationHandle *handles);
/* The properties of a unit. */
CUmemAllocationProp cks_lease_prop(CUdevice device);
/* End the units in [at, at+size), which are all leased and no longer used. Call with the lock
 * held. */
void cks_lease_drop(struct cks_session *session, CUdeviceptr at, size_t size);

/*
 * A context of @device has been made. The driver lets copies in any context use memory of
 * cuMemAlloc, but mapped memory only where its device has access. So devices with a context have
 * access to each other's leases.
 */
void cks_lease_meet(struct cks_session *session, CUdevice device);

/* lease_share.c: the ticket of a cuIpc handle for [at, at+size), an allocation in leases. */
CUresult cks_lease_handle(struct cks_session *session, CUdeviceptr at, size_t size,
			  struct cks_ticket *ticket);
/* Open the memory of @ticket, whose deposit is the list of units @fd, in the current context. */
CUresult cks_lease_open(struct cks_request *q, const struct cks_ticket *ticket, int fd, size_t size,
			CUdeviceptr *at);
/* Close it once; false: it is not open. */
bool cks_lease_close(struct cks_request *q, CUdeviceptr at);

/* The session is back on the GPU, or has not left it: end what the client has returned meanwhile,
 * and open the gate. */
void cks_lease_open_gate(struct cks_session *session);

/* --- allocation_freeze.c */

/* Another session returns to the GPU, or no longer does. */
void cks_lease_freeze(struct cks_session *session, bool frozen);
/* Wait until none does, at most a minute, outside of the gate. Call before each allocation of
 * device memory, without locks. */
void cks_lease_await_thaw(struct cks_request *q);

/* --- lease_ahead.c */

/* Make the arena and a lease of at most @size bytes, for the session to come; and end that
 * lease. */
void cks_lease_prepare(CUdevice device, size_t size);
void cks_lease_cancel(void);
/* Make it again, as large as is due now: it was made before the meter ran. */
void cks_lease_renew(void);
/* They belong to @session from now on. */
void cks_lease_offer(struct cks_session *session, struct cks_lease_offer *offer);
/* Release the lease if the client has not taken it; do so after CK_OFFER_SECONDS. -errno. */
void cks_lease_expire(struct cks_session *session);
int cks_lease_watch_offer(struct cks_session *session);

/* --- lease_reclaim.c */

/* Another session needs memory: return free memory. */
void cks_lease_return_free(struct cks_session *session);
/* The session is about to leave the GPU: have the client return free memory, and wait for that a
 * little. */
void cks_lease_trim(struct cks_session *session);
/* The server's answers: there is no other session to ask; there are others, and none leaves the
 * GPU; one leaves; it has left. */
void cks_lease_alone(struct cks_session *session);
void cks_lease_refused(struct cks_session *session);
void cks_lease_coming(struct cks_session *session);
void cks_lease_made(struct cks_session *session);
/* After OUT_OF_MEMORY for a call that does not allocate, number @round from 0 on: have other
 * sessions give room, and wait for it outside of the gate. True: try again. */
bool cks_lease_make_room(struct cks_request *q, unsigned int round);

#endif
