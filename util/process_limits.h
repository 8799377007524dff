/*
 * util/process_limits.h - what a process lacks, for its user.
 */
#ifndef CK_UTIL_PROCESS_LIMITS_H
#define CK_UTIL_PROCESS_LIMITS_H

#define CK_LIMIT_TEXT 160

/* Describe @error (-errno) of a call that makes a descriptor, a thread or a file in memory, with
 * the limit that it has met. Returns @text. */
const char *ck_limit_text(int error, char text[CK_LIMIT_TEXT]);

#endif
