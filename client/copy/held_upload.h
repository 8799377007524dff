/*
 * client/copy/held_upload.h - uploads of chunks that the server has in memory, as one-way commands.
 *
 * A call that offers chunks waits for the reply, because the server may lack some: with a long
 * round trip, that takes most of the time of a start. So the client asks for many chunks at once:
 * those that it needs, and those that follow in the file. The server reads them, and answers with
 * promises for chunks in its memory, which may be others: those that the program took next at its
 * last start. An upload for which the client has promises is a command like any other, and nothing
 * waits for it.
 *
 * A promise lasts for a few seconds, and for as many bytes as the chunk has.
 */
#ifndef CK_CLIENT_COPY_HELD_UPLOAD_H
#define CK_CLIENT_COPY_HELD_UPLOAD_H

#include <stdbool.h>
#include <stddef.h>

#include "cuda/types.h"

struct ckc_chunk_lookup;
struct ckc_staged;

/* Upload the first @size bytes of @copy, which are at @start of the source. True: it is on its way,
 * or *@err is set. False: the server does not have all of it in memory, and nothing was done. */
bool ckc_held_upload(const struct ckc_staged *copy, size_t size, size_t start,
		     const struct ckc_chunk_lookup *lookup, CUresult *err);

#endif
