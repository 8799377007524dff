/*
 * server/supervisor/supervisor.h - the process that accepts connections.
 *
 * One thread, one poll loop, no blocking call: no peer can delay another. It never loads a driver.
 */
#ifndef CK_SERVER_SUPERVISOR_SUPERVISOR_H
#define CK_SERVER_SUPERVISOR_SUPERVISOR_H

struct cks_options;

/* Run the server until SIGTERM or SIGINT; returns the exit status. @argv: the command line that
 * @options are from. @state: -1, or the descriptor from which to continue (upgrade.h). */
int cks_supervisor_main(const struct cks_options *options, char **argv, int state);

#endif
