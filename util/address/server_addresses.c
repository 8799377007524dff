/*
 * util/address/server_addresses.c - see server_addresses.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/address/server_addresses.h"

#define FILE_MAX (1 << 20) /* bytes of a list of servers */

static uint32_t draw_number(uint32_t most)
{
	uint32_t number = 0;

	if (getrandom(&number, sizeof(number), GRND_NONBLOCK) != sizeof(number))
		return 0;
	return (uint32_t)((uint64_t)number * ((uint64_t)most + 1) >> 32);
}

static int find_in_dns(const char *name, struct ck_server_addresses *p,
		       char why[CK_SERVER_ADDRESSES_WHY])
{
	struct ck_srv_list *list = malloc(sizeof(*list));
	char reason[CK_SRV_WHY] = "out of memory";
	int ret = list ? ck_srv_lookup(name, list, reason) : -ENOMEM;

	if (ret < 0) {
		snprintf(why, CK_SERVER_ADDRESSES_WHY, "%s", reason);
	} else {
		ck_srv_order(list, draw_number);
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

static bool is_regular(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
}

/* Read the whole of @path, to be freed. -EINVAL: no regular file; a device or a pipe may have no
 * end. */
static int read_list(const char *path, char **text)
{
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	size_t size = 0;
	ssize_t n;

	if (fd < 0)
		return -errno;
	*text = is_regular(fd) ? malloc(FILE_MAX + 1) : NULL;
	n = is_regular(fd) ? -ENOMEM : -EINVAL;
	while (*text && size <= FILE_MAX && (n = read(fd, *text + size, FILE_MAX + 1 - size)) > 0)
		size += (size_t)n;
	if (*text)
		n = n < 0 ? -errno : size > FILE_MAX ? -EFBIG : 0;
	if (n == 0)
		(*text)[size] = '\0';
	close(fd);
	return (int)n;
}

static int find_in_file(const char *path, struct ck_server_addresses *p,
			char why[CK_SERVER_ADDRESSES_WHY])
{
	char *text = NULL, *line, *rest;
	const char *address;
	int ret = read_list(path, &text);

	for (rest = text;
	     ret == 0 && p->count < CK_SERVER_ADDRESSES_MAX && (line = strsep(&rest, "\n"));) {
		address = address_in(line);
		if (!address || strlen(address) >= CK_SERVER_ADDRESS ||
		    ck_address_has(address, CK_ADDRESS_SEVERAL))
			continue;
		strcpy(p->list[p->count].address, address);
		p->list[p->count++].priority = 0;
	}
	free(text);
	if (ret == 0 && p->count == 0)
		ret = -ENOENT;
	if (ret < 0)
		snprintf(why, CK_SERVER_ADDRESSES_WHY, "no address in this file: %s",
			 ret == -EINVAL ? "not a regular file" : strerror(-ret));
	return ret;
}

int ck_server_addresses_find(const char *address, struct ck_server_addresses *p,
			     char why[CK_SERVER_ADDRESSES_WHY])
{
	struct ck_address one;

	p->count = 0;
	if (ck_address_has(address, CK_ADDRESS_SEVERAL)) {
		if (ck_address_parse(address, &one, why) < 0)
			return -EINVAL;
		return one.kind == CK_ADDRESS_SRV ? find_in_dns(one.path, p, why)
						  : find_in_file(one.path, p, why);
	}
	if (strlen(address) >= CK_SERVER_ADDRESS) {
		snprintf(why, CK_SERVER_ADDRESSES_WHY, "the address is too long");
		return -EINVAL;
	}
	strcpy(p->list[0].address, address);
	p->list[0].priority = 0;
	p->count = 1;
	return 0;
}

bool ck_server_addresses_has(const struct ck_server_addresses *p, const char *address)
{
	for (unsigned int i = 0; i < p->count; i++) {
		if (strcmp(p->list[i].address, address) == 0)
			return true;
	}
	return false;
}
