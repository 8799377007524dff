/*
 * command/run/ended_programs.h - tell servers which programs of this machine have ended, so that
 * they do not keep their sessions (CK_ENDED).
 */
#ifndef CK_COMMAND_RUN_ENDED_PROGRAMS_H
#define CK_COMMAND_RUN_ENDED_PROGRAMS_H

#include "command/config/server.h"
#include "rpc/tls.h"

/* Ask @server for the sessions of this machine and identity, and report those whose programs have
 * ended: *@ended is their number. -errno; @why says why. -EOPNOTSUPP: its release is too old to
 * keep them. */
int ckx_ended_programs_server(const struct ckx_server *server, unsigned int *ended,
			      char why[CK_TLS_WHY]);

/* Start a process that does so for all servers of @server when this process, or the program that it
 * executes, has ended. It has nothing of this process: no terminal, no descriptors, and is not its
 * child. Does nothing if no server needs it. */
void ckx_ended_programs_later(const struct ckx_server *server);

#endif
