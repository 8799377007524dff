/*
 * util/address/servers.c - see servers.h.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "util/address/servers.h"
#include "util/util.h"

/* A number of at most two digits, and nothing else. */
static int read_device(const char *text, size_t length, unsigned int *device)
{
	*device = 0;
	if (length == 0 || length > 2)
		return -EINVAL;
	for (size_t i = 0; i < length; i++) {
		if (text[i] < '0' || text[i] > '9')
			return -EINVAL;
		*device = *device * 10 + (unsigned int)(text[i] - '0');
	}
	return *device < CK_SERVER_DEVICES ? 0 : -EINVAL;
}

static int servers_refuse(char why[CK_ADDRESS_WHY], const char *reason)
{
	snprintf(why, CK_ADDRESS_WHY, "%s", reason);
	return -EINVAL;
}

static int add_device(struct ck_server_entry *e, const char *text, size_t length,
		      char why[CK_ADDRESS_WHY])
{
	unsigned int device;

	if (length == 0)
		return servers_refuse(why, "no device follows the / at the end");
	if (read_device(text, length, &device) < 0)
		return servers_refuse(why, "a device is a number from 0 to 63");
	for (unsigned int i = 0; i < e->count; i++) {
		if (e->devices[i] == device)
			return servers_refuse(why, "a device is named twice");
	}
	e->devices[e->count++] = device;
	return 0;
}

/* Is the address of @e one? If it is one of several, @why says which. */
static int check_address(const struct ck_server_entry *e, bool alone, char why[CK_ADDRESS_WHY])
{
	char reason[CK_ADDRESS_WHY];
	struct ck_address address;
	int ret = ck_address_parse(e->address, &address, reason);

	if (ret < 0)
		snprintf(why, CK_ADDRESS_WHY, "%.80s%s%.160s", alone ? "" : e->address,
			 alone ? "" : ": ", reason);
	return ret;
}

static int add_entry(struct ck_server_list *list, const char *text, size_t length,
		     char why[CK_ADDRESS_WHY])
{
	size_t address;
	const char *devices = ck_address_devices(text, length, &address);
	struct ck_server_entry *e = &list->entries[list->count];
	bool alone = list->count == 0 && !text[length];

	if (length == 0)
		return servers_refuse(why, "an entry has no address");
	if (address == 0)
		return servers_refuse(why, "not an address; a socket is unix:/PATH");
	if (devices && strspn(text, ".~") >= address) /* ./PATH, ~/PATH */
		return servers_refuse(why,
				      "not an address; a socket is unix: and an absolute path");
	if (list->count == CK_SERVERS_MAX || address >= sizeof(e->address))
		return servers_refuse(why,
				      "there are more than 16 servers, or an address is too long");
	*e = (struct ck_server_entry){.count = 0};
	memcpy(e->address, text, address);
	list->count++;
	if (check_address(e, alone, why) < 0)
		return -EINVAL;
	return devices ? add_device(e, devices, length - (size_t)(devices - text), why) : 0;
}

static bool is_number(const char *text, size_t length)
{
	return length > 0 && strspn(text, "0123456789") >= length;
}

int ck_servers_parse(const char *text, struct ck_server_list *list, char why[CK_ADDRESS_WHY])
{
	int ret = 0;

	list->count = 0;
	if (!text || !*text) {
		list->entries[0] = (struct ck_server_entry){.count = 0};
		list->count = 1;
		return 0;
	}
	for (;;) {
		size_t length = strcspn(text, ",");
		struct ck_server_entry *last =
			list->count > 0 ? &list->entries[list->count - 1] : NULL;

		if (last && last->count > 0 && is_number(text, length))
			ret = add_device(last, text, length, why);
		else
			ret = add_entry(list, text, length, why);
		if (ret < 0 || text[length] == '\0')
			return ret;
		text += length + 1;
	}
}

bool ck_servers_is_list(const char *text)
{
	size_t address;

	return text && (strchr(text, ',') || ck_address_devices(text, strlen(text), &address));
}
