/*
 * client/managed/shadow.h - small pinned memory that kernels use, with the server on another host
 * (rpc/pinned.h, server/memory/shadow.h).
 *
 * Its pages are always valid here. Before a launch or a copy, the changes of the program are sent,
 * one-way; changes by the device arrive with the reply to a wait. A page that the program has
 * written stays writable, and is compared at each launch. After IDLE_MOST launches without a
 * change it is protected, and not compared until it is written again.
 */
#ifndef CK_CLIENT_MANAGED_SHADOW_H
#define CK_CLIENT_MANAGED_SHADOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/link/client.h"

struct ckc_managed;
struct ckc_shadow;

/* Make @m, a range in the window's part for it, such memory, before it is inserted. OUT_OF_MEMORY:
 * also if the session has too much; then @m is fetched as other managed memory. */
CUresult ckc_shadow_create(struct ckc_managed *m);
/* Forget it. ckc_window_unback informs the server. */
void ckc_shadow_destroy(struct ckc_managed *m);
uint64_t ckc_shadow_number(const struct ckc_shadow *s);

/* Send the program's changes in pages [first, last) of @m. Call with the lock of the pages held. */
void ckc_shadow_send(struct ckc_managed *m, size_t first, size_t last);

/* Is all of [p, p+size) such memory of the current session? */
bool ckc_shadow_holds(const void *p, size_t size);

#endif
