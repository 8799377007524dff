/*
 * server/memory/delivery.h - asynchronous copies from the device to the client's memory.
 *
 * A copy goes into a pinned slot, in the order of its stream. When it is done, a lane of the client
 * that waits here carries it to the client. Any reply that may tell the client that work is done
 * has a rank: all copies done by then have this rank or a lower one. The client waits until the
 * bytes up to that rank have arrived.
 */
#ifndef CK_SERVER_MEMORY_DELIVERY_H
#define CK_SERVER_MEMORY_DELIVERY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "cuda/types.h"

struct cks_session;
struct cks_deliveries;

#define CK_ALONG_PARTS 8  /* parts sent ahead of one reply, at most */
#define CK_ALONG_HEAD 128 /* upper bound for the head of a bulk reply */

int cks_deliveries_create(struct cks_deliveries **deliveries);
void cks_deliveries_destroy(
	struct cks_deliveries *deliveries); /* no thread may use them any more */

/* Rank all finished copies, and report all finished watches. Returns the rank for a reply. */
uint32_t cks_deliveries_report(struct cks_session *session);

/*
 * The same for a reply that carries small copies: its waiting thread then receives them without
 * another thread. On the wire, each is a reply to ck_delivery_next with xid 0, ahead of the true
 * reply. @along lists them: send its iov first, then call cks_along_sent. Without @watches, nothing
 * here calls the driver.
 */
struct cks_along {
	unsigned int count;
	struct cks_part *part[CK_ALONG_PARTS];
	unsigned char head[CK_ALONG_PARTS][CK_ALONG_HEAD];
	struct iovec iov[3 * CK_ALONG_PARTS + 1]; /* 3 per part; the last one is for the reply */
};

uint32_t cks_deliveries_take(struct cks_session *session, bool watches, struct cks_along *along);
void cks_along_sent(struct cks_session *session, struct cks_along *along);

/*
 * Report the end of watch @number to the client; @what: see rpc/status.h. It is sent like a copy
 * without bytes, ranked after all finished copies. @by_reply: cks_deliveries_take is called next,
 * and takes it.
 */
void cks_deliveries_send_watch(struct cks_session *session, uint64_t number, uint64_t what,
			       bool by_reply);

/*
 * Send @list, changes of shadowed memory (rpc/pinned.h), as a delivery that is ranked after all
 * finished copies. Takes ownership, unless it returns -errno. @by_reply: as above.
 */
int cks_deliveries_send_changes(struct cks_session *session, void *list, size_t size,
				bool by_reply);

/* The client understands lists of news (rpc/status.h). */
void cks_deliveries_list(struct cks_deliveries *deliveries);

/* Has the session had any? */
bool cks_deliveries_any(struct cks_deliveries *deliveries);

/* A call failed with an error that stays with context @ctx: give up the copies in progress in
 * it. */
void cks_deliveries_fail(struct cks_deliveries *deliveries, uint64_t ctx);

/* Context @ctx is about to end: wait for the copies in progress in it. */
void cks_deliveries_drop_context(struct cks_deliveries *deliveries, uint64_t ctx,
				 CUcontext context);

/* It has ended, and its registrations with it. */
void cks_deliveries_forget_context(struct cks_deliveries *deliveries, uint64_t ctx);

#endif
