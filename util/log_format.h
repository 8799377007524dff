/*
 * util/log_format.h - the form of log lines besides plain text: JSON (CRICKET_LOG_FORMAT=json), and
 * the priorities that journald reads.
 */
#ifndef CK_UTIL_LOG_FORMAT_H
#define CK_UTIL_LOG_FORMAT_H

#include <stdbool.h>
#include <stddef.h>

#define CK_LOG_JSON_SIZE 4096 /* as many bytes as a pipe takes at once */
#define CK_LOG_TIME_SIZE 64

/* Is @format one that there is? */
bool ck_log_format_known(const char *format);

bool ck_log_is_json(void);

/*
 * Write the time now, in UTC, as RFC 3339 has it: 2026-11-28T14:51:02.123Z, with @digits (3 or 6)
 * of the second's fraction. Returns its length. It takes no lock, as gmtime_r does.
 */
size_t ck_log_time(char out[CK_LOG_TIME_SIZE], int digits);

/*
 * Write a line as an object: time, level, part, pid, message; a long message is cut. Bytes that are
 * no UTF-8 become '?'. The text ends with a newline, without a final 0; returns its length.
 */
size_t ck_log_json(char out[CK_LOG_JSON_SIZE], const char *level, const char *part,
		   const char *message, size_t size);

/* Write "<N>", the priority of @level (enum ck_log_level), if descriptor @fd leads to journald;
 * returns its length, or 0. No final 0. */
size_t ck_log_priority(char out[3], int fd, int level);

#endif
