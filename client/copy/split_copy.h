/*
 * client/copy/split_copy.h - copies between host and device in parts, over several connections if
 * that helps.
 */
#ifndef CK_CLIENT_COPY_SPLIT_COPY_H
#define CK_CLIENT_COPY_SPLIT_COPY_H

#include "client/copy/staging.h"

#define CK_PART_MOST ((size_t)1 << 30) /* payload of one message; lengths on the wire are 32 bits */

/* Returns when the bytes have been taken over, or have arrived. */
CUresult ckc_split_copy_upload(const struct ckc_staged *copy);
CUresult ckc_split_copy_download(const struct ckc_staged *copy);

/*
 * stored_upload.c: upload by chunks that the server has or keeps for the next start of the program,
 * if that is faster than to send them. True: the bytes have been taken over, or *@err is set.
 * False: nothing was done.
 */
bool ckc_stored_upload(const struct ckc_staged *copy, CUresult *err);

#endif
