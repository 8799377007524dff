/*
 * client/wire/delivery.h - asynchronous copies from the device to pinned memory that the server
 * does not share. The bytes arrive when they are ready. Any function that reports them as done
 * waits for them first.
 */
#ifndef CK_CLIENT_WIRE_DELIVERY_H
#define CK_CLIENT_WIRE_DELIVERY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/link/client.h"

/* Copy @size bytes at @src to @to, in the order of @stream. */
CUresult ckc_delivery_copy(struct ckc_client *c, uint64_t ctx, uint64_t stream, void *to,
			   CUdeviceptr src, size_t size);

/* Is any copy outstanding? Is any outstanding into [base, base+size)? */
static inline bool ckc_delivery_any(const struct ckc_client *c)
{
	return c->deliveries.count != 0;
}
bool ckc_delivery_expects(struct ckc_client *c, uint64_t base, size_t size);

/* Make sure that a thread receives the server's news; false: there is none. */
bool ckc_delivery_listen(struct ckc_client *c);

/* The memory is about to be freed or reused: cancel the copies into it. */
void ckc_delivery_forget(struct ckc_client *c, uint64_t base, size_t size);

/*
 * Wait until the parts up to @rank have arrived. An error means that the session has ended and they
 * never will: the caller must not report the work ahead of them as done.
 */
__attribute__((warn_unused_result)) CUresult ckc_delivery_wait(struct ckc_client *c, uint32_t rank);

#endif
