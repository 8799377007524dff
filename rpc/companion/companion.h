/*
 * rpc/companion/companion.h - programs that this process starts in order to reach a server.
 *
 *     ssh://[USER@]HOST[:PORT] ssh forwards a socket of this process to the server's socket on HOST
 *     local a server of this host, for this process alone
 *
 * A companion offers a unix socket in a folder that only this user can open. It ends, and the
 * folder goes, when this process has ended or executes another program. The process that starts it
 * never sees it as a child: no SIGCHLD, and nothing for wait(2). Connections to one address share a
 * companion; if it has ended, the next connection starts another. The first one waits until the
 * companion listens, at least 60 s: a server looks for its GPUs first.
 */
#ifndef CK_RPC_COMPANION_COMPANION_H
#define CK_RPC_COMPANION_COMPANION_H

#include <stdbool.h>
#include <stddef.h>

#define CK_COMPANION_WHY 200
/*
 * Has the companion of @address ended, or is it about to? Waits a second for that. @why: the last
 * line that it wrote, empty if there is none. False for other addresses.
 */
bool ck_companion_ended(const char *address, char why[CK_COMPANION_WHY]);

#endif
