/*
 * m3/tool.h - the parts of the command m3 for each other.
 */
#ifndef CK_M3_TOOL_H
#define CK_M3_TOOL_H

#include <stdbool.h>

#include "m3/m3.h"

/* Print on stderr the failed step and the reason; 1, the exit status. */
int ck_m3_tool_failed(const char *what, int status);

/* tool_words.c: arguments. 0; or 2, the exit status, printed. */
int ck_m3_tool_number(const char *text, uint64_t *number); /* "2G", "512m", "4096" */
int ck_m3_tool_byte(const char *text, unsigned char *byte);
int ck_m3_tool_mode(const char *text, unsigned int *mode); /* octal; the owner may read */
int ck_m3_tool_principal(const char *text);		   /* "uid:1000" */
int ck_m3_tool_access(const char *text, int *access);	   /* "r", "rw"; "none": 0 */

/* Open the region of that name, or number with 0x in front. 0; or 1, printed. */
int ck_m3_tool_open(m3_client *client, const char *name, int access, m3_region **region);

/* Perform ls, stat, quota or topo, as text or as JSON; the exit status. */
int ck_m3_tool_show(m3_client *client, const char *name, bool json, int argc, char **argv);

/* The shell of the first M3 on @client, reading stdin; the exit status. */
int ck_m3_tool_shell(m3_client *client);

#endif
