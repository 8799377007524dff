/*
 * command/servers/fleet.c - see fleet.h.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "command/config/command.h"
#include "command/servers/fleet.h"
#include "util/address/server_addresses.h"

bool ckx_fleet_is(const char *address)
{
	return strchr(address, ',') || ck_address_has(address, CK_ADDRESS_SEVERAL);
}

/* Those with one token and one trust can be in one program. */
static unsigned int keys_of(const struct ckx_fleet *f, const struct ckx_server *server)
{
	for (size_t i = 0; i < f->count; i++) {
		const struct ckx_server *other = &f->list[i]->server;

		if (strcmp(other->token, server->token) == 0 &&
		    memcmp(&other->tls, &server->tls, sizeof(server->tls)) == 0)
			return f->list[i]->keys;
	}
	return (unsigned int)f->count;
}

static int add_candidate(struct ckx_fleet *f, const struct ckx_server *server,
			 const struct ck_server_entry *entry, unsigned int priority)
{
	struct ckx_candidate *c;

	if (f->count == CKX_FLEET) {
		ckx_error("more than %d servers to choose from", CKX_FLEET);
		return -E2BIG;
	}
	c = calloc(1, sizeof(*c));
	if (!c)
		return -ENOMEM;
	c->server = *server;
	c->priority = priority;
	c->keys = keys_of(f, server);
	if (entry) {
		memcpy(c->devices, entry->devices, sizeof(c->devices));
		c->count = entry->count;
	}
	f->list[f->count++] = c;
	return 0;
}

int ckx_fleet_add(struct ckx_fleet *f, const struct ckx_server *server)
{
	return add_candidate(f, server, NULL, 0);
}

/* The server at @address, with the keys of @whole, or else with its own. */
static int own_keys(const struct ckx_server *whole, const char *address, struct ckx_server *out)
{
	*out = *whole;
	if (strlen(address) >= sizeof(out->address)) {
		ckx_error("the address is too long: %s", address);
		return -EINVAL;
	}
	if (address[0] && !whole->token[0] && !whole->name[0])
		return ckx_server_find(address, out);
	strcpy(out->address, address);
	return 0;
}

static int by_priority(const void *a, const void *b)
{
	const struct ck_place *one = a, *other = b;

	if (one->priority != other->priority)
		return one->priority < other->priority ? -1 : 1;
	return strcmp(one->address, other->address);
}

/* An entry of the list: one server, or those of a name or a file. */
static int add_entry(struct ckx_fleet *f, const struct ckx_server *whole,
		     const struct ck_server_entry *entry)
{
	struct ck_server_addresses *places = malloc(sizeof(*places));
	char why[CK_SERVER_ADDRESSES_WHY] = "out of memory";
	struct ckx_server one;
	int ret = places ? ck_server_addresses_find(entry->address, places, why) : -ENOMEM;

	if (ret < 0)
		ckx_error("%s: %s", entry->address, why);
	if (ret == 0 && ck_address_kind_of(entry->address) == CK_ADDRESS_SRV)
		qsort(places->list, places->count, sizeof(places->list[0]), by_priority);
	for (unsigned int i = 0; ret == 0 && i < places->count; i++) {
		ret = own_keys(whole, places->list[i].address, &one);
		if (ret == 0)
			ret = add_candidate(f, &one, entry, places->list[i].priority);
	}
	explicit_bzero(one.token, sizeof(one.token));
	free(places);
	return ret;
}

int ckx_fleet_find(const struct ckx_server *server, struct ckx_fleet *f)
{
	struct ck_server_list *list = malloc(sizeof(*list));
	char why[CK_ADDRESS_WHY] = "out of memory";
	int ret = list ? ck_servers_parse(server->address, list, why) : -ENOMEM;

	if (ret < 0)
		ckx_error("%s: %s", server->address, why);
	for (unsigned int i = 0; ret == 0 && i < list->count; i++)
		ret = add_entry(f, server, &list->entries[i]);
	free(list);
	return ret;
}

void ckx_fleet_free(struct ckx_fleet *f)
{
	while (f->count > 0) {
		struct ckx_candidate *c = f->list[--f->count];

		explicit_bzero(c->server.token, sizeof(c->server.token));
		free(c);
	}
}

void ckx_fleet_ask(struct ckx_fleet *f)
{
	struct ckx_offer *offers = calloc(f->count + 1, sizeof(*offers));
	const struct ckx_server *servers[CKX_FLEET];

	for (size_t i = 0; i < f->count; i++)
		servers[i] = &f->list[i]->server;
	if (offers)
		ckx_offers_ask(servers, offers, f->count);
	for (size_t i = 0; i < f->count; i++) {
		if (offers)
			f->list[i]->offer = offers[i];
	}
	free(offers);
}
