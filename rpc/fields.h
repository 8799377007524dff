/*
 * rpc/fields.h - messages coded by their table of fields, in the form that XDR gives them.
 *
 * For what is sent most. The coders that rpcgen makes go through a function for each word and
 * allocate what has a length; here words are swapped where they lie, and bytes stay in the record.
 */
#ifndef CK_RPC_FIELDS_H
#define CK_RPC_FIELDS_H

#include <stddef.h>
#include <stdint.h>

/*
 * As ck_call_encode, of message @proc of ck_procs; by its fields where they do, else by XDR.
 */
long ck_message_encode(void *buf, size_t size, uint32_t xid, uint32_t proc, const void *args,
		       size_t bulk);

/*
 * Decode the arguments of message @proc at @from into @args, all of which is set. Bytes are not
 * copied: they point into @from, are aligned to 4 at best, and nothing is to be freed. The bytes
 * used, -EBADMSG, or -EOPNOTSUPP for a message that only XDR can decode.
 */
long ck_message_decode(const unsigned char *from, size_t size, uint32_t proc, void *args);

#endif
