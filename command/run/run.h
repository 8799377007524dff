/*
 * command/run/run.h - processes of `cricket run` beside the program.
 */
#ifndef CK_COMMAND_RUN_RUN_H
#define CK_COMMAND_RUN_RUN_H

#include "command/config/config.h"
#include "command/config/install_paths.h"
#include "command/config/server.h"

/* --- a server with the emulated GPU: `cricket run -s emu` (emulate.c) */

struct ckx_emulated {
	char address[CKX_TEXT];	  /* a unix socket that only this user can reach */
	char assembler[CKX_PATH]; /* ptxas.h */
	char container[CKX_PATH]; /* where a container engine is to write the container's id */
};

/* Start a server for this process and the program that it executes. The server ends with this
 * process, also if it is killed. If the program is the container @engine, and not NULL, the server
 * ends with the container, and any user of the container can connect. -errno, printed. */
int ckx_emulate(const char *engine, struct ckx_emulated *emulated);

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
