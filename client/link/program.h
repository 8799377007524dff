/*
 * client/link/program.h - the program's name, in the server's lists, log, metrics and audit log.
 */
#ifndef CK_CLIENT_LINK_PROGRAM_H
#define CK_CLIENT_LINK_PROGRAM_H

#include <stddef.h>

#define CKC_PROGRAM 96 /* bytes of a name, with its NUL */

/*
 * The name of this process: that of the script, module, class or notebook that an interpreter runs,
 * such as "train.py" or "python -m mod"; else that of the program. Only the last part of a path is
 * used, and no other argument, since those may be secret.
 */
void ckc_program_name(char out[CKC_PROGRAM]);

/* The same of a command line: @size bytes of arguments, each with its NUL. @notebook: of
 * JPY_SESSION_NAME, or NULL. Returns whether it names more than an interpreter; else @out is
 * empty. */
int ckc_program_of(const char *arguments, size_t size, const char *notebook, char out[CKC_PROGRAM]);

#endif
