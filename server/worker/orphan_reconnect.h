/*
 * server/worker/orphan_reconnect.h - a process that outlives its supervisor, if that had
 * --state-dir, and finds the next one.
 *
 * The folder belongs to the server's user alone. In it the supervisor listens at the socket
 * "supervisor" (rendezvous.h). A process whose supervisor has crashed connects there, for --keep at
 * most, and describes itself by a state (state.h) that holds nothing else. The supervisor answers
 * with one byte; from then on the connection is the control socket.
 */
#ifndef CK_SERVER_WORKER_ORPHAN_RECONNECT_H
#define CK_SERVER_WORKER_ORPHAN_RECONNECT_H

#include <stdbool.h>
#include <sys/types.h>

struct cks_options;
struct cks_state;
struct cks_state_worker;

#define CK_ORPHAN_SOCKET "supervisor"
#define CK_ORPHAN_PACKET 4096 /* largest description */

/* May processes of a server with @options outlive it? */
bool cks_orphans_allowed(const struct cks_options *options);

/* Is @folder, which is there, fit for a server of @user? NULL, or why not. */
const char *cks_orphan_folder_check(const char *folder, uid_t user);
/* Make the folder, or check it. -errno, logged. */
int cks_orphan_folder(const char *folder);

/* The path of the socket in @folder. */
void cks_orphan_path(const char *folder, char path[108]);

/* Is the process at the other end of the connection of the server's user, or of @workers? NULL: of
 * no other. */
struct cks_user_range;
bool cks_orphan_trusts(int fd, const struct cks_user_range *workers);

/* Wait for the next supervisor, for @seconds at most, and tell it of @self; @fd goes with it unless
 * it is -1. The connection, or -ETIMEDOUT. */
int cks_orphan_reconnect(const char *folder, unsigned int seconds, const struct cks_state *self,
			 int fd);

/* The same for the worker @self of a server with @options: the connection becomes its control
 * socket. -ETIMEDOUT, at once if it may not outlive its supervisor. */
int cks_orphan_control(const struct cks_options *options, struct cks_state_worker *self);

#endif
