/*
 * command/sessions/wait_display.h - the line on a terminal while a command takes long.
 */
#ifndef CK_COMMAND_SESSIONS_WAIT_DISPLAY_H
#define CK_COMMAND_SESSIONS_WAIT_DISPLAY_H

#include <jansson.h>

#define CKX_WAIT_TEXT 128

/* Does someone look at it? */
int ckx_wait_seen(void);

/* "@command s3 (1.2 GB)", with the memory that @status, a server's report (NULL: none), contains
 * for the session named @session (NULL: none). */
void ckx_wait_text(const char *command, const char *session, const json_t *status,
		   char out[CKX_WAIT_TEXT]);

/* Until @fd can be read or has ended: @what and the seconds; with @folder (NULL: none) the bytes of
 * the checkpoint that the server writes there. Does nothing without a terminal. */
void ckx_wait_show(int fd, const char *what, const char *folder);

#endif
