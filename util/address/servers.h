/*
 * util/address/servers.h - the list of servers in REMOTE_GPU_ADDRESS.
 *
 *     CHOICES = LIST *( "|" LIST ) the next one if a server of one has no session; of `cricket run`
 *     LIST = ENTRY *( "," ENTRY ) ENTRY = HOST-ENTRY | LOCAL-ENTRY | PATH-ENTRY | NAME-ENTRY
 *     addresses as in address.h HOST-ENTRY = [ "tcp://" | "ssh://" [ USER "@" ] ] HOST [ ":" PORT ]
 *     [ "/" DEVICES ] LOCAL-ENTRY = "local" [ "/" DEVICES ] the GPUs of this host PATH-ENTRY = (
 *     "unix:" | "shm:" | "file:" ) "/" PATH [ "//" DEVICES ] NAME-ENTRY = "srv:" NAME [ "/" DEVICES
 *     ] one of the servers that DNS names, see server_addresses.h DEVICES = NUMBER *( "," NUMBER )
 *
 * A number behind a comma continues the list of devices before it. So a host whose name is a number
 * needs its port, or "tcp://" in front of it.
 */
#ifndef CK_UTIL_ADDRESS_SERVERS_H
#define CK_UTIL_ADDRESS_SERVERS_H

#include <stdbool.h>
#include <stddef.h>

#include "util/address/address.h"

#define CK_SERVERS_MAX 16
#define CK_SERVERS_OR '|'
#define CK_SERVER_DEVICES 64
#define CK_SERVER_ADDRESS CK_ADDRESS_MAX

struct ck_server_entry {
	char address
		[CK_SERVER_ADDRESS]; /* without the devices; empty: the usual socket of this host */
	unsigned int devices[CK_SERVER_DEVICES];
	unsigned int count; /* 0: all devices */
};

struct ck_server_list {
	struct ck_server_entry entries[CK_SERVERS_MAX];
	unsigned int count;
};

/* Parse @text; NULL or empty: one entry with an empty address. -EINVAL: @why says what is wrong
 * with it. */
int ck_servers_parse(const char *text, struct ck_server_list *list, char why[CK_ADDRESS_WHY]);

/* Does @text name several servers, or devices? A single address can be used as it is. */
bool ck_servers_is_list(const char *text);

#endif
