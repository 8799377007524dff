/*
 * command/run/emulate.h - a server with the emulated GPU for one program: `cricket run -s emu`.
 */
#ifndef CK_COMMAND_RUN_EMULATE_H
#define CK_COMMAND_RUN_EMULATE_H

#include "command/config/config.h"

/* Start a server for this process and the program that it executes, and set variables with which
 * frameworks compile to PTX, unless the user has set them. @address is the server's, a unix socket
 * that only this user can reach. The server ends with this process, also if it is killed. -errno,
 * printed. */
int ckx_emulate(char address[CKX_TEXT]);

#endif
