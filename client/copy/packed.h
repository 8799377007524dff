/*
 * client/copy/packed.h - uploads that travel compressed, where that is faster (client/wire/packing.h).
 */
#ifndef CK_CLIENT_COPY_PACKED_H
#define CK_CLIENT_COPY_PACKED_H

#include <stdbool.h>
#include <stddef.h>

#include "client/copy/stage.h"

/*
 * Send the bytes of @copy, a part of an upload, by calls; or by one-way messages, if it pays. True: @copy's bytes may be
 * written again, or *@err is set. False: nothing was sent.
 */
bool ckc_packed_part(const struct ckc_staged *copy, CUresult *err);
bool ckc_packed_message(const struct ckc_staged *copy, CUresult *err);

#endif
