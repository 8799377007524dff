/*
 * client/wire/delivery.h - copies from the device to pinned memory that do not wait, with a server that
 * does not share that memory: the bytes come when they are there, and whatever tells the program
 * that they are waits for them.
 */
#ifndef CK_CLIENT_WIRE_DELIVERY_H
#define CK_CLIENT_WIRE_DELIVERY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/wire/client.h"

/* Have @size bytes at @src copied to @to, in the order of @stream. */
CUresult ck_delivery_copy(struct ck_client *c, uint64_t ctx, uint64_t stream, void *to,
			  CUdeviceptr src, size_t size);

/* Has a copy bytes to come; is one of them into [base, base+size)? */
static inline bool ck_delivery_any(const struct ck_client *c)
{
	return c->deliveries.count != 0;
}
bool ck_delivery_expects(struct ck_client *c, uint64_t base, size_t size);

/* See to it that a thread receives what the server has to tell; false: there is none. */
bool ck_delivery_listen(struct ck_client *c);

/* The memory is about to go, or to be used in another way: nothing comes to it any more. */
void ck_delivery_forget(struct ck_client *c, uint64_t base, size_t size);

/*
 * A part of a copy, or news, has come: where its @size bytes belong, given the results that precede
 * them (NULL: it is not as the protocol has it); and then, that they are there.
 */
struct ck_arrival {
	struct ck_client *client;
	struct ck_copy *copy;
	void *scratch;		/* for what nobody wants */
	bool news;
};

void *ck_delivery_place(void *arrival, const void *results, size_t size);
void ck_delivery_arrived(const void *arrival, const void *results);

/* The connection broke while the part came: its memory is not written any more. */
void ck_delivery_broken(const void *arrival);

/*
 * Wait until parts up to @rank are here. An error means that the session has ended and that they
 * will not come: the caller must not report that work in front of them is done.
 */
__attribute__((warn_unused_result)) CUresult ck_delivery_wait(struct ck_client *c, uint32_t rank);

#endif
