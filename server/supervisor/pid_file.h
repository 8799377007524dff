/*
 * server/supervisor/pid_file.h - the file that names the server's process.
 */
#ifndef CK_SERVER_SUPERVISOR_PID_FILE_H
#define CK_SERVER_SUPERVISOR_PID_FILE_H

/* Write and lock @path; NULL: do nothing. *@fd keeps the lock. -errno, logged. */
int cks_pid_file_write(const char *path, int *fd);
/* @fd: -1, or as above. */
void cks_pid_file_remove(const char *path, int fd);

#endif
