/*
 * server/processes/new_token.c - see new_token.h.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "server/processes/new_token.h"
#include "util/hash.h"
#include "util/holders.h"

#define CK_RANDOM 32 /* bytes of a new token */

int cks_new_token(const char *name)
{
	struct ck_hash bytes, hash;
	char token[CK_HASH_TEXT], hex[CK_HASH_TEXT];

	if (!ck_holders_is_name(name, strlen(name))) {
		fprintf(stderr,
			"cricket-rpc-server: --new-token: not a name of 1 to %d letters, digits "
			"and "
			".-_@: %s\n",
			CK_HOLDER_NAME - 1, name);
		return -EINVAL;
	}
	if (getrandom(bytes.bytes, CK_RANDOM, 0) != CK_RANDOM) {
		fprintf(stderr, "cricket-rpc-server: no random bytes: %m\n");
		return -EIO;
	}
	ck_hash_print(&bytes, token);
	ck_hash(token, strlen(token), &hash);
	ck_hash_print(&hash, hex);
	printf("token: %s\nline:  %s:%s\n", token, name, hex);
	return 0;
}
