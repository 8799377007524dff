/*
 * client/wire/compression.h - whether bytes to the server travel compressed (rpc/compress.h), and
 * the packers of a session.
 *
 * Compressing pays if it is faster than the network, because a block is compressed while the one
 * before it is sent. Both rates are measured: the network's with copies that travel as they are,
 * the packer's with the blocks that it shortens.
 */
#ifndef CK_CLIENT_WIRE_COMPRESSION_H
#define CK_CLIENT_WIRE_COMPRESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rpc/compress.h"

struct ckc_client;

/*
 * Can @threads threads compress at least @times as fast as the network carries bytes? @proc is the
 * message that would carry the blocks. False while the network's rate is not known.
 */
bool ckc_compression_pays(struct ckc_client *c, uint32_t proc, unsigned int threads,
			  unsigned int times);

/* The same before the rate is known: a server that is not near is taken to be behind a slow
 * network. */
bool ckc_compression_pays_unmeasured(struct ckc_client *c, uint32_t proc);

/* The next step of a large copy: how many of its @size bytes to send, and whether compressed. Call
 * ckc_compression_stepped after it, with the time that it took. */
struct ckc_compression_step {
	size_t size;
	bool packed;
	uint64_t began;
};
struct ckc_compression_step ckc_compression_step(struct ckc_client *c, uint32_t proc, size_t size,
						 unsigned int threads);
void ckc_compression_stepped(struct ckc_client *c, const struct ckc_compression_step *step);

/*
 * Would a wait for @size bytes in parts be mostly one for the round trip? Then one message is
 * better: it has one connection, but nothing waits for it.
 */
bool ckc_compression_hides(const struct ckc_client *c, size_t size);

/* The network's rate in bytes per second, 0: not measured; and another measurement: @size bytes
 * that were not compressed took @ns. */
uint64_t ckc_compression_link(struct ckc_client *c);
void ckc_compression_assume(struct ckc_client *c, uint64_t rate); /* until it is measured */
void ckc_compression_measured(struct ckc_client *c, size_t size, uint64_t ns);

/* Blocks that one thread compresses in turn. */
struct ckc_pack_run {
	struct ckc_client *client;
	struct ck_packer *packer;
	unsigned int skip, skipped; /* blocks not to try; the last number of them */
	uint64_t bytes, ns;	    /* of blocks that became shorter */
};

/* False: there is no packer. */
bool ckc_pack_begin(struct ckc_pack_run *run, struct ckc_client *c);
/* The length of the compressed block at *@packed, valid until the next call; 0: send the bytes as
 * they are. */
size_t ckc_pack_next(struct ckc_pack_run *run, const void *bytes, size_t size, const void **packed);
void ckc_pack_end(struct ckc_pack_run *run);

#endif
