/*
 * tests/unit/rpc_memory_chan.h - a channel that reads from memory, in steps of a chosen size.
 *
 * For what a socket does not let a test choose: where reads are cut, and how many there are.
 */
#ifndef CK_TEST_RPC_MEMORY_CHAN_H
#define CK_TEST_RPC_MEMORY_CHAN_H

#include <errno.h>
#include <string.h>

#include "rpc/transport/transport.h"

struct memory_chan {
	struct ck_chan chan;
	const unsigned char *data;
	size_t size, at;
	size_t step; /* bytes of one read at most */
	int reads;   /* "system calls" so far */
};

static long memory_read(struct ck_chan *chan, void *buf, size_t size, size_t least)
{
	struct memory_chan *memory = (struct memory_chan *)chan;
	size_t n = memory->size - memory->at;

	(void)least;
	memory->reads++;
	if (n == 0)
		return -EPIPE;
	if (n > size)
		n = size;
	if (n > memory->step)
		n = memory->step;
	memcpy(buf, memory->data + memory->at, n);
	memory->at += n;
	return (long)n;
}

static const struct ck_transport_ops memory_ops = {.name = "memory", .read = memory_read};

static void memory_chan_init(struct memory_chan *memory, const void *data, size_t size, size_t step)
{
	memset(memory, 0, sizeof(*memory));
	memory->chan.ops = &memory_ops;
	memory->data = data;
	memory->size = size;
	memory->step = step;
}

#endif
