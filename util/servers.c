/*
 * util/servers.c - see servers.h.
 */
#include <errno.h>
#include <string.h>

#include "util/servers.h"
#include "util/util.h"

static const char *const paths[] = {"unix:", "shm:", "file:"};

static bool is_path(const char *entry)
{
	for (size_t i = 0; i < CK_ARRAY_SIZE(paths); i++) {
		if (strncmp(entry, paths[i], strlen(paths[i])) == 0)
			return true;
	}
	return false;
}

/* Where the devices of an entry of @length characters begin; NULL: it names none. */
static const char *devices_of(const char *entry, size_t length)
{
	const char *from = entry, *end = entry + length;

	if (is_path(entry)) {
		from = strchr(entry, ':') + 1;
		for (const char *at = from + strspn(from, "/"); at + 1 < end; at++) {
			if (at[0] == '/' && at[1] == '/')
				return at + 2;
		}
		return NULL;
	}
	if (length >= 6 && (strncmp(entry, "tcp://", 6) == 0 || strncmp(entry, "ssh://", 6) == 0))
		from += 6;
	from = memchr(from, '/', (size_t)(end - from));
	return from ? from + 1 : NULL;
}

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

static int add_device(struct ck_server_entry *e, const char *text, size_t length, const char **why)
{
	unsigned int device;

	*why = "a device is a number from 0 to 63";
	if (read_device(text, length, &device) < 0)
		return -EINVAL;
	*why = "a device is named twice";
	for (unsigned int i = 0; i < e->count; i++) {
		if (e->devices[i] == device)
			return -EINVAL;
	}
	e->devices[e->count++] = device;
	return 0;
}

static int add_entry(struct ck_server_list *list, const char *text, size_t length, const char **why)
{
	const char *devices = devices_of(text, length);
	struct ck_server_entry *e = &list->entries[list->count];
	size_t address = length;

	if (devices)
		address = (size_t)(devices - text) - (is_path(text) ? 2 : 1);
	*why = "an entry has no address";
	if (address == 0)
		return -EINVAL;
	*why = "there are more than 16 servers, or an address is too long";
	if (list->count == CK_SERVERS_MAX || address >= sizeof(e->address))
		return -EINVAL;
	*e = (struct ck_server_entry){.count = 0};
	memcpy(e->address, text, address);
	list->count++;
	return devices ? add_device(e, devices, length - (size_t)(devices - text), why) : 0;
}

static bool is_number(const char *text, size_t length)
{
	return length > 0 && strspn(text, "0123456789") >= length;
}

int ck_servers_parse(const char *text, struct ck_server_list *list, const char **why)
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
	return text && (strchr(text, ',') || devices_of(text, strlen(text)));
}
