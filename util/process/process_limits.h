/*
 * util/process/process_limits.h - limits that a process has reached, as text for its user.
 */
#ifndef CK_UTIL_PROCESS_PROCESS_LIMITS_H
#define CK_UTIL_PROCESS_PROCESS_LIMITS_H

#define CK_LIMIT_TEXT 160

/* Describe @error (-errno) of a call that makes a descriptor, a thread or a file in memory, with
 * the limit that it has met. Returns @text. */
const char *ck_limit_text(int error, char text[CK_LIMIT_TEXT]);

/* How many more descriptors the process can open. Without /proc, those that are open are not
 * known, and count as none. */
unsigned long ck_limit_free_files(void);

#endif
