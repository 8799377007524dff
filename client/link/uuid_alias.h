/*
 * client/link/uuid_alias.h - names of GPUs that are unique in a pool of servers.
 *
 * GPUs of two hosts often have the same PCI address, so those of each further server get a PCI
 * domain of their own. Emulated GPUs, and those that two servers of one host share, have the same
 * UUID: the later one's is changed.
 */
#ifndef CK_CLIENT_LINK_UUID_ALIAS_H
#define CK_CLIENT_LINK_UUID_ALIAS_H

#include <stdbool.h>

#include "client/link/client.h"

/* Change the servers' answers about their devices. Call once, when all sessions are open. */
void ckc_uuid_alias_make(void);

/* The PCI domain that a device of session @c has in the pool. */
unsigned int ckc_uuid_alias_domain(const struct ckc_client *c, unsigned int domain);

/* Change @text, a UUID as its server writes it, to that of the pool; and back, if it is one of
 * @c. */
void ckc_uuid_alias_uuid(const struct ckc_client *c, char *text);
void ckc_uuid_alias_uuid_back(const struct ckc_client *c, char *text);

#endif
