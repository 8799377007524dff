/*
 * server/delivery.h - copies from the device to the client's memory that no call waits for.
 *
 * They go into pinned slots in the order of their streams; when one is there, a lane of the client
 * that waits here takes it along. What the client may have learned to be done, by whatever reply,
 * has a rank by then, which the reply tells: the client waits until the bytes of that rank and all
 * before it have come.
 */
#ifndef CK_SERVER_DELIVERY_H
#define CK_SERVER_DELIVERY_H

#include <stdbool.h>
#include <stdint.h>

struct ck_session;
struct ck_deliveries;

#define CK_DELIVERY_NEWS ((uint64_t)1 << 63) /* in a copy's number: it is the end of a watch */

int ck_deliveries_create(struct ck_deliveries **deliveries);
void ck_deliveries_destroy(struct ck_deliveries *deliveries); /* no thread uses them any more */

/* The rank that a reply tells: give one to all copies, and tell of all watches, that are done. For
 * calls in context @ctx. */
uint32_t ck_deliveries_settle(struct ck_session *session, uint64_t ctx);

/*
 * The client is to hear that watch @number (server/status.h) has ended in @state: it goes along as a
 * copy without bytes, with a rank as any.
 */
void ck_deliveries_tell(struct ck_deliveries *deliveries, uint64_t number, unsigned int state);

/* Have there been any? */
bool ck_deliveries_any(struct ck_deliveries *deliveries);

/* Context @ctx is about to go: what is under way in it is waited for. */
void ck_deliveries_drop_context(struct ck_deliveries *deliveries, uint64_t ctx);

#endif
