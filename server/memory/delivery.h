/*
 * server/memory/delivery.h - copies from the device to the client's memory that no call waits for.
 *
 * They go into pinned slots in the order of their streams; when one is there, a lane of the client
 * that waits here takes it along. What the client may have learned to be done, by whatever reply,
 * has a rank by then, which the reply tells: the client waits until the bytes of that rank and all
 * before it have come.
 */
#ifndef CK_SERVER_MEMORY_DELIVERY_H
#define CK_SERVER_MEMORY_DELIVERY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "cuda/types.h"

struct ck_session;
struct ck_deliveries;

#define CK_ALONG_PARTS 8		/* that go in front of one reply, at most */
#define CK_ALONG_HEAD 128		/* bytes that the head of a bulk reply may take */

int ck_deliveries_create(struct ck_deliveries **deliveries);
void ck_deliveries_destroy(struct ck_deliveries *deliveries); /* no thread uses them any more */

/* The rank that a reply reports: give one to all copies, and report all watches, that are done. */
uint32_t ck_deliveries_settle(struct ck_session *session);

/*
 * The same, for a reply that takes small copies along: the thread that waits for it then has them
 * without another one. On the wire each is a reply to ck_delivery_next, with xid 0, before the true
 * reply. @along is what goes; send its iov first and then call ck_along_sent. Without @watches nothing
 * calls the driver.
 */
struct ck_along {
	unsigned int count;
	struct ck_part *part[CK_ALONG_PARTS];
	unsigned char head[CK_ALONG_PARTS][CK_ALONG_HEAD];
	struct iovec iov[3 * CK_ALONG_PARTS + 1]; /* 3 a part; the last one is for the reply */
};

uint32_t ck_deliveries_take(struct ck_session *session, bool watches, struct ck_along *along);
void ck_along_sent(struct ck_session *session, struct ck_along *along);

/*
 * The client is to hear of the end of watch @number, @what as rpc/status.h has it: it goes along as a
 * copy without bytes, with a rank as any, behind all copies that are done. @by_reply:
 * ck_deliveries_take is next, and takes it.
 */
void ck_deliveries_tell(struct ck_session *session, uint64_t number, uint64_t what, bool by_reply);

/* Have there been any? */
bool ck_deliveries_any(struct ck_deliveries *deliveries);

/* A call has ended with an error that stays with context @ctx: what is under way in it will not come. */
void ck_deliveries_fail(struct ck_deliveries *deliveries, uint64_t ctx);

/* Context @ctx is about to go: wait for what is under way in it. */
void ck_deliveries_drop_context(struct ck_deliveries *deliveries, uint64_t ctx, CUcontext context);

#endif
