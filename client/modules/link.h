/*
 * client/modules/link.h - a link under way.
 */
#ifndef CK_CLIENT_MODULES_LINK_H
#define CK_CLIENT_MODULES_LINK_H

#include "client/wire/object.h"

/* Free it with its handle: its context has gone. */
void ck_link_forget(struct ck_link *link);

#endif
