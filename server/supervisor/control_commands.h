/*
 * server/supervisor/control_commands.h - the commands that a running server accepts
 * (server/control/control.h).
 */
#ifndef CK_SERVER_SUPERVISOR_CONTROL_COMMANDS_H
#define CK_SERVER_SUPERVISOR_CONTROL_COMMANDS_H

#include "server/control/control.h"

/* All commands; the last has no name. */
extern const struct cks_command cks_commands[];

/* status_report.c: the command `status` */
json_t *cks_report_status(struct cks_server *server, const json_t *request, struct cks_asker asker);

#endif
