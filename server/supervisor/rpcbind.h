/*
 * server/supervisor/rpcbind.h - registration with rpcbind.
 */
#ifndef CK_SERVER_SUPERVISOR_RPCBIND_H
#define CK_SERVER_SUPERVISOR_RPCBIND_H

/* Register program 99 at the TCP port of @fd with rpcbind, if it runs, in a child process; never
 * waits. */
void cks_rpcbind_set(int fd);
/* Remove the registration; waits at most a second. */
void cks_rpcbind_unset(void);

#endif
