/*
 * m3/tool.h - the parts of the command m3 for each other.
 */
#ifndef CK_M3_TOOL_H
#define CK_M3_TOOL_H

#include "m3/m3.h"

/* The shell of the first M3 on @client, reading stdin; the exit status. */
int ck_m3_tool_shell(m3_client *client);

#endif
