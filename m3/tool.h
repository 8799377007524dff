/*
 * m3/tool.h - the m3 command's parts for each other.
 */
#ifndef CK_M3_TOOL_H
#define CK_M3_TOOL_H

#include <stdint.h>

#include "m3/m3.h"

/* Say on stderr what failed and why; 1, the exit status. */
int ck_m3_tool_failed(const char *what, int status);
/* "2G", "512m", "4096": bytes. -EINVAL. */
int ck_m3_tool_size(const char *text, uint64_t *bytes);
/* The shell of the first M3 on @client, reading stdin; the exit status. */
int ck_m3_tool_shell(m3_client *client);

#endif
