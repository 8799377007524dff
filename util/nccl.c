/*
 * util/nccl.c - see nccl.h.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "util/nccl.h"
#include "util/address/servers.h"

int ck_nccl_in_workers(const char *word, const char *address)
{
	struct ck_server_list *list;
	char why[CK_ADDRESS_WHY];
	int several;

	if (word && strcmp(word, "workers") == 0)
		return 1;
	if (word && strcmp(word, "program") == 0)
		return 0;
	if (word && *word && strcmp(word, "auto") != 0)
		return -EINVAL;
	list = malloc(sizeof(*list));
	several = list && ck_servers_parse(address, list, why) == 0 && list->count > 1;
	free(list);
	return several;
}
