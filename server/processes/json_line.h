/*
 * server/processes/json_line.h - JSON in lines, as the control socket and the helper processes
 * speak it.
 */
#ifndef CK_SERVER_PROCESSES_JSON_LINE_H
#define CK_SERVER_PROCESSES_JSON_LINE_H

#include <jansson.h>

/* Write @json and the end of the line to @fd. 0 or -errno. */
int cks_json_line_write(int fd, const json_t *json);

#endif
