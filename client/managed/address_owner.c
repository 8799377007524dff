/*
 * client/managed/address_owner.c - which session may track an address; for signal handlers and
 * system calls, so without a lock.
 */
#include "client/managed/managed.h"

bool ckc_managed_foreign(const struct ckc_managed_state *s, uint64_t address)
{
	for (size_t i = 0; i < CK_VARIABLE_PLACES; i++) {
		if (address >= s->variables.places[i].lo && address < s->variables.places[i].hi)
			return true;
	}
	return false;
}

struct ckc_client *ckc_managed_session(uint64_t address)
{
	for (unsigned int i = 0; i < ckc_servers_count(); i++) {
		struct ckc_client *c = ckc_server_session(i);

		if (ckc_managed_has(c->managed, address))
			return c;
	}
	return NULL;
}
