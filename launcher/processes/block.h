/*
 * launcher/processes/block.h - memory that a session and its worker share: a message and its reply.
 *
 * Large data is therefore copied only twice: from the client's pipe to the block, and from the
 * block to the device. The layout is: defaults (JSON text), then the message and, in its place, the
 * reply, at a multiple of 64.
 */
#ifndef CK_LAUNCHER_PROCESSES_BLOCK_H
#define CK_LAUNCHER_PROCESSES_BLOCK_H

#include <stddef.h>
#include <stdint.h>

#include "util/util.h"

#define CK_BLOCK_ALIGN(size) CK_ALIGN_UP((size_t)(size), (size_t)64)

struct ckl_block {
	uint32_t number; /* by which both sides know it */
	int fd;		 /* a memfd */
	char *map;
	size_t capacity; /* bytes that are mapped */
};

/* A new one without memory. -errno. */
int ckl_block_make(struct ckl_block *block, uint32_t number);

/* Have at least @capacity bytes mapped; the map may move. Extends the file only if @extend. */
int ckl_block_map(struct ckl_block *block, size_t capacity, int extend);

/* Give the memory of a large one back to the system; its content is gone. */
void ckl_block_trim(struct ckl_block *block);

void ckl_block_free(struct ckl_block *block);

/* A message between session and worker. The first one for a block carries its descriptor. */
enum ckl_ticket_what {
	CK_TICKET_READY, /* worker: has a driver, or an error for each request */
	CK_TICKET_RUN,	 /* session: here is a message */
	CK_TICKET_DONE,	 /* worker: and here the reply */
};

struct ckl_ticket {
	uint32_t what, number;		   /* of the block */
	uint64_t id;			   /* of an asynchronous launch, else 0 */
	uint64_t capacity;		   /* of the block now */
	uint64_t defaults, message, reply; /* bytes of each part */
	uint64_t reply_at;
	uint32_t exit, lost; /* exit code; whether the worker ends now */
};

/* Send or receive one; @fd is -1 without a descriptor. -errno; -ENODATA: the other side closed. */
int ckl_ticket_send(int sock, const struct ckl_ticket *ticket, int fd);
int ckl_ticket_receive(int sock, struct ckl_ticket *ticket, int *fd);

#endif
