/*
 * util/places.c - see places.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "util/places.h"

#define IN_FILE "file:"
#define IN_DNS "srv:"

bool ck_places_several(const char *address)
{
	return strncmp(address, IN_FILE, strlen(IN_FILE)) == 0 ||
	       strncmp(address, IN_DNS, strlen(IN_DNS)) == 0;
}

static uint32_t draw(uint32_t most)
{
	uint32_t number = 0;

	if (getrandom(&number, sizeof(number), GRND_NONBLOCK) != sizeof(number))
		return 0;
	return (uint32_t)((uint64_t)number * ((uint64_t)most + 1) >> 32);
}

static int find_in_dns(const char *name, struct ck_places *p, char why[CK_PLACES_WHY])
{
	struct ck_srv_list *list = malloc(sizeof(*list));
	char reason[CK_SRV_WHY] = "out of memory";
	int ret = list ? ck_srv_lookup(name, list, reason) : -ENOMEM;

	if (ret < 0) {
		snprintf(why, CK_PLACES_WHY, "%s", reason);
	} else {
		ck_srv_order(list, draw);
		for (unsigned int i = 0; i < list->count; i++) {
			const struct ck_srv_target *t = &list->targets[i];

			snprintf(p->list[i].address, sizeof(p->list[i].address), "%s:%u", t->host,
				 t->port);
			p->list[i].priority = t->priority;
		}
		p->count = list->count;
	}
	free(list);
	return ret;
}

/* The address in @line, which loses all else; NULL: there is none. */
static char *address_in(char *line)
{
	line += strspn(line, " \t\r\n");
	line[strcspn(line, " \t\r\n")] = '\0';
	return *line && *line != '#' ? line : NULL;
}

static int find_in_file(const char *path, struct ck_places *p, char why[CK_PLACES_WHY])
{
	FILE *f = fopen(path, "re");
	char *line = NULL;
	const char *address;
	size_t room = 0;

	if (!f) {
		int error = errno;

		snprintf(why, CK_PLACES_WHY, "no address in this file: %s", strerror(error));
		return -error;
	}
	while (p->count < CK_PLACES_MAX && getline(&line, &room, f) > 0) {
		address = address_in(line);
		if (!address || strlen(address) >= CK_SERVER_ADDRESS || ck_places_several(address))
			continue;
		strcpy(p->list[p->count].address, address);
		p->list[p->count++].priority = 0;
	}
	free(line);
	fclose(f);
	if (p->count == 0)
		snprintf(why, CK_PLACES_WHY, "no address in this file: %s", strerror(ENOENT));
	return p->count > 0 ? 0 : -ENOENT;
}

int ck_places_find(const char *address, struct ck_places *p, char why[CK_PLACES_WHY])
{
	p->count = 0;
	if (strncmp(address, IN_DNS, strlen(IN_DNS)) == 0)
		return find_in_dns(address + strlen(IN_DNS), p, why);
	if (strncmp(address, IN_FILE, strlen(IN_FILE)) == 0)
		return find_in_file(address + strlen(IN_FILE), p, why);
	if (strlen(address) >= CK_SERVER_ADDRESS) {
		snprintf(why, CK_PLACES_WHY, "the address is too long");
		return -EINVAL;
	}
	strcpy(p->list[0].address, address);
	p->list[0].priority = 0;
	p->count = 1;
	return 0;
}

bool ck_places_has(const struct ck_places *p, const char *address)
{
	for (unsigned int i = 0; i < p->count; i++) {
		if (strcmp(p->list[i].address, address) == 0)
			return true;
	}
	return false;
}
