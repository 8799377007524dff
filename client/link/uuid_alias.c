/*
 * client/link/uuid_alias.c - see client/link/uuid_alias.h.
 */
#define _GNU_SOURCE /* asprintf */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/link/session_list.h"
#include "client/link/uuid_alias.h"
#include "util/uuid.h"

#define DOMAINS 0x1000	/* of each server */
#define CHANGED 10	/* byte of a UUID, the first of its last group */
#define CHANGED_TEXT 24 /* where its two digits are in the text */

unsigned int ckc_uuid_alias_domain(const struct ckc_client *c, unsigned int domain)
{
	return domain < DOMAINS ? domain + c->index * DOMAINS : domain;
}

/* domain:bus:device.function */
static void change_bus_id(const struct ckc_client *c, ck_device *d)
{
	unsigned int domain;
	char *text = NULL;
	int rest = 0;

	if (sscanf(d->pci_bus_id, "%x%n:", &domain, &rest) < 1 || d->pci_bus_id[rest] != ':' ||
	    asprintf(&text, "%04x%s", ckc_uuid_alias_domain(c, domain), d->pci_bus_id + rest) < 0)
		return;
	free(d->pci_bus_id);
	d->pci_bus_id = text;
}

static void change_address(const struct ckc_client *c, ck_device *d)
{
	change_bus_id(c, d);
	for (u_int i = 0; i < d->attributes.attributes_len; i++) {
		ck_attribute *a = &d->attributes.attributes_val[i];

		if (a->id == CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID && a->value >= 0)
			a->value = (int)ckc_uuid_alias_domain(c, (unsigned int)a->value);
	}
}

static bool has_uuid(const struct ckc_client *c, const void *uuid)
{
	for (u_int i = 0; i < c->hello.devices.devices_len; i++) {
		if (memcmp(c->hello.devices.devices_val[i].uuid, uuid, 16) == 0)
			return true;
	}
	return false;
}

/* Has an earlier server's device this UUID? The first one that has it keeps it. */
static bool is_taken(const struct ckc_client *c, const void *uuid)
{
	bool taken = false;

	for (unsigned int i = 0; i < c->index && !taken; i++)
		taken = has_uuid(ckc_sessions.list[i], uuid);
	return taken;
}

void ckc_uuid_alias_make(void)
{
	for (unsigned int i = 1; i < ckc_servers_count(); i++) {
		struct ckc_client *c = ckc_sessions.list[i];

		for (u_int k = 0; k < c->hello.devices.devices_len; k++) {
			ck_device *d = &c->hello.devices.devices_val[k];

			change_address(c, d);
			if (!is_taken(c, d->uuid))
				continue;
			d->uuid[CHANGED] = (char)(d->uuid[CHANGED] ^ (int)c->index);
			d->uuid_v2[CHANGED] = (char)(d->uuid_v2[CHANGED] ^ (int)c->index);
		}
	}
}

/* Change the one byte, if it has been changed for the list. @listed: @text is the UUID of the list,
 * not the server's. */
static void exchange_uuid_byte(const struct ckc_client *c, char *text, bool listed)
{
	char *plain = strchr(text, '-'), digits[3];
	unsigned char uuid[16], other[16];

	if (c->index == 0 || !plain || !ck_uuid_parse_digits(plain + 1, uuid))
		return;
	memcpy(other, uuid, sizeof(other));
	uuid[CHANGED] ^= (unsigned char)c->index;
	if (!has_uuid(c, listed ? other : uuid) || !is_taken(c, listed ? uuid : other))
		return;
	snprintf(digits, sizeof(digits), "%02x", uuid[CHANGED]);
	memcpy(plain + 1 + CHANGED_TEXT, digits, 2);
}

void ckc_uuid_alias_uuid(const struct ckc_client *c, char *text)
{
	exchange_uuid_byte(c, text, false);
}

void ckc_uuid_alias_uuid_back(const struct ckc_client *c, char *text)
{
	exchange_uuid_byte(c, text, true);
}
