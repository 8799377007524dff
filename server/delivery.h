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

#include <stdint.h>

struct ck_session;
struct ck_deliveries;

int ck_deliveries_create(struct ck_deliveries **deliveries);
void ck_deliveries_destroy(struct ck_deliveries *deliveries); /* no thread uses them any more */

/* The rank that a reply tells: give one to all copies that are done. For calls in context @ctx. */
uint32_t ck_deliveries_settle(struct ck_session *session, uint64_t ctx);

/* Context @ctx is about to go: what is under way in it is waited for. */
void ck_deliveries_drop_context(struct ck_deliveries *deliveries, uint64_t ctx);

#endif
