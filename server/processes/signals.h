/*
 * server/processes/signals.h - signals that do not end a process of the server.
 */
#ifndef CK_SERVER_PROCESSES_SIGNALS_H
#define CK_SERVER_PROCESSES_SIGNALS_H

/*
 * Ignore the signals that end a process unless it says otherwise, and mean nothing here: programs
 * of sessions would be lost. SIGTERM, SIGINT, SIGKILL and faults still end it; SIGHUP and SIGUSR2
 * are the caller's. A program that is executed inherits this.
 */
void cks_signals_ignore(void);

#endif
