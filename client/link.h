/*
 * client/link.h - a link under way.
 */
#ifndef CK_CLIENT_LINK_H
#define CK_CLIENT_LINK_H

#include "client/object.h"

/* Free it with its handle: its context has gone. */
void ck_link_forget(struct ck_link *link);

#endif
