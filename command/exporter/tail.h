/*
 * command/exporter/tail.h - the last lines of the server's log, for the page.
 */
#ifndef CK_COMMAND_EXPORTER_TAIL_H
#define CK_COMMAND_EXPORTER_TAIL_H

#define CKX_TAIL_BYTES 32768 /* at most */

/* The end of the file @path, from the beginning of a line on, to be freed; what is no text reads as
 * '?'. NULL: it cannot be read, or errno is ENOMEM. */
char *ckx_tail_read(const char *path);

#endif
