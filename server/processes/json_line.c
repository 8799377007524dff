/*
 * server/processes/json_line.c - see json_line.h.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "server/processes/json_line.h"
#include "util/process/fd.h"

int cks_json_line_write(int fd, const json_t *json)
{
	char *text = json_dumps(json, JSON_COMPACT);
	int ret = text ? ck_fd_write_full(fd, text, strlen(text)) : -ENOMEM;

	free(text);
	return ret < 0 ? ret : ck_fd_write_full(fd, "\n", 1);
}
