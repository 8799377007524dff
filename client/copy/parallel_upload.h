/*
 * client/copy/parallel_upload.h - one-way uploads over several connections, on a long link.
 *
 * The connection for commands carries at most one window per round trip. So the bytes of an upload
 * travel on lanes, as calls that come after the commands before the upload. A command after them
 * (ck_upload_joined) waits on the server for their end, so all later commands and calls find the
 * bytes in place, as after ck_upload. The client waits for none of this.
 */
#ifndef CK_CLIENT_COPY_PARALLEL_UPLOAD_H
#define CK_CLIENT_COPY_PARALLEL_UPLOAD_H

#include <stdbool.h>

#include "client/copy/staging.h"

/* Is @copy large enough, the link long, and does the server know the messages? */
bool ckc_parallel_upload_suits(const struct ckc_staged *copy);

/* Upload @copy, which suits: on lanes, while several are faster, else by ck_upload. Its bytes are
 * the program's again on return. */
CUresult ckc_parallel_upload(const struct ckc_staged *copy);

#endif
