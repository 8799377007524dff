/*
 * rpc/fragments.h - the fragments of records (RFC 5531, section 11), and short records that are
 * read before a connection has a reader.
 */
#ifndef CK_RPC_FRAGMENTS_H
#define CK_RPC_FRAGMENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rpc/chan.h"

#define CK_MARK 4 /* bytes ahead of each fragment: its length, and whether it is the last one */
#define CK_LAST_FRAGMENT 0x80000000u

/* The mark at @at, in the byte order of the host. */
uint32_t ck_mark_at(const unsigned char *at);

/*
 * May a record with @got bytes in its fragments so far continue with @mark? An empty fragment may
 * end a record (libtirpc does that when a record just fills its buffer), but it cannot be the whole
 * record or come before the end. The caller limits a single fragment; several have at most
 * CK_RECORD_MAX bytes.
 */
bool ck_mark_allowed(uint32_t mark, size_t got);

/* A record in memory, of which a part may be missing. */
struct ck_joined {
	size_t body; /* bytes of the record, at data + CK_MARK; those that have arrived */
	size_t wire; /* bytes of it that were in data, with all marks */
	bool complete;
};

/*
 * Join the fragments of the record that begins at @data, of which @size bytes have arrived. Its
 * body follows the first mark. -EPROTO: bad framing, or more than @max bytes with all marks.
 */
int ck_fragments_join(unsigned char *data, size_t size, size_t max, struct ck_joined *joined);

/*
 * Read one record of at most @room bytes to @body, and nothing behind it. -EPROTO: bad framing, or
 * a longer record; otherwise as ck_chan_read.
 */
int ck_fragments_read(struct ck_chan *chan, unsigned char *body, size_t room, size_t *size);

#endif
