/*
 * command/run/run.h - what `cricket run` does beside the program.
 */
#ifndef CK_COMMAND_RUN_RUN_H
#define CK_COMMAND_RUN_RUN_H

#include "command/config/config.h"
#include "command/config/server.h"

/* --- a server with the emulated GPU: `cricket run -s emu` (emulate.c) */

/* Start a server for this process and the program that it executes, and set variables with which
 * frameworks compile to PTX, unless the user has set them. @address is the server's, a unix socket
 * that only this user can reach. The server ends with this process, also if it is killed. -errno,
 * printed. */
int ckx_emulate(char address[CKX_TEXT]);

/* --- `cricket run -s emu --check` (findings.c) */

/* Ask for the checks of kernels, and fork: the child returns, and becomes the program. This process
 * prints what the server of ckx_emulate() writes, each finding once, and ends with CKX_FOUND if
 * there was one, else with the program's status. Until ckx_findings_started(), which takes the
 * returned descriptor, the child's standard error is that of the server. -errno, not printed. */
int ckx_findings_begin(void);
void ckx_findings_started(int own);

/* --- servers learn which programs have ended (CK_ENDED) (ended_programs.c) */

/* Start a process that does so for all servers of @server when this process, or the program that it
 * executes, has ended. It has nothing of this process: no terminal, no descriptors, and is not its
 * child. Does nothing if no server needs it. */
void ckx_ended_programs_later(const struct ckx_server *server);

#endif
