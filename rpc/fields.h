/*
 * rpc/fields.h - encode and decode messages by a table of their fields, in XDR's format.
 *
 * For the most frequent messages. The coders of rpcgen call a function per word and allocate memory
 * for anything with a length. Here, words are swapped in place and bytes stay in the record.
 */
#ifndef CK_RPC_FIELDS_H
#define CK_RPC_FIELDS_H

#include <stddef.h>
#include <stdint.h>

/* Like ck_call_encode for message @proc of ck_procs: by its fields if possible, else by XDR. */
long ck_message_encode(void *buf, size_t size, uint32_t xid, uint32_t proc, const void *args,
		       size_t bulk);

/*
 * Decode the arguments of message @proc at @from into @args, setting all fields. Byte arrays are
 * not copied: they point into @from, aligned to at most 4, and must not be freed. Returns the bytes
 * used, -EBADMSG, or -EOPNOTSUPP for a message that only XDR can decode.
 */
long ck_message_decode(const unsigned char *from, size_t size, uint32_t proc, void *args);

#endif
