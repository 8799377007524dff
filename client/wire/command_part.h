/*
 * client/wire/command_part.h - a message on its way, for command.c and command_buffer.c alone.
 *
 * Call its functions with the lock of the command stream held, except at the start and at the end.
 */
#ifndef CK_CLIENT_WIRE_COMMAND_PART_H
#define CK_CLIENT_WIRE_COMMAND_PART_H

#include <endian.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "client/link/client.h"
#include "rpc/record.h"

/* One message; the payload is the caller's. */
struct ckc_outgoing {
	unsigned char *bytes;
	size_t size;
	const void *bulk;
	size_t bulk_size;
	bool quiet;  /* see rpc/proc.h */
	bool legacy; /* in a legacy stream, maybe */
};

static const unsigned char ckc_padding[4]; /* behind payloads */

/* Give @m the next number, in the xid and in the head that begins the arguments. */
static inline void ckc_command_give_number(struct ckc_command *cmd, struct ckc_outgoing *m)
{
	uint64_t seq = cmd->seq + 1;
	uint64_t wide = htobe64(seq);
	uint32_t xid = htobe32((uint32_t)seq);
	uint64_t counted = seq + atomic_load(&cmd->calls);

	memcpy(m->bytes + CK_CALL_XID, &xid, sizeof(xid));
	memcpy(m->bytes + CK_CALL_HEADER, &wide, sizeof(wide));
	if (!m->quiet) /* before others can see its number */
		atomic_store_explicit(&cmd->loud, counted, memory_order_relaxed);
	if (m->legacy)
		atomic_store_explicit(&cmd->legacy, counted, memory_order_relaxed);
	atomic_store_explicit(&cmd->seq, seq, memory_order_release);
}

/* Make the buffers and start the thread that writes them out; @failed runs when a write has failed
 * with @ret. 0 or -errno, logged. Free the buffers, in a forked child. */
int ckc_command_buffer_start(struct ckc_client *c, void (*failed)(struct ckc_client *c, int ret));
void ckc_command_buffer_free(struct ckc_client *c);

/* Append the encoded message @m to the buffer, and arrange for it to leave soon. True: signal
 * `work` when the lock is released, because the thread that wakes up takes it. */
bool ckc_command_buffer(struct ckc_client *c, struct ckc_outgoing *m);

/* Write the buffer out, unless another thread does. */
void ckc_command_write_all(struct ckc_client *c);

#endif
