/*
 * server/options/new_token.c - see new_token.h.
 */
#include <errno.h>
#include <stdio.h>

#include "server/options/setup.h"
#include "util/address/token_file_edit.h"

int cks_new_token(const char *name)
{
	char token[CK_HOLDER_TOKEN], line[CK_HOLDER_LINE];
	int ret = ck_token_file_new(name, NULL, token, line);

	if (ret == -EINVAL)
		fprintf(stderr,
			"cricket-rpc-server: --new-token: not a name of 1 to %d letters, digits "
			"and .-_@: %s\n",
			CK_HOLDER_NAME - 1, name);
	else if (ret < 0)
		fprintf(stderr, "cricket-rpc-server: no random bytes: %m\n");
	else
		printf("token: %s\nline:  %s\n", token, line);
	return ret;
}
