/*
 * util/log_limit.h - which log lines of a flood are written, and how many were not.
 *
 * Lines of one format are one kind. CK_LOG_BURST lines of a kind are let through in
 * CK_LOG_WINDOW_MS; the others are counted. The lock is only tried: a process that was forked while
 * another thread held it limits nothing.
 */
#ifndef CK_UTIL_LOG_LIMIT_H
#define CK_UTIL_LOG_LIMIT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CK_LOG_BURST 20
#define CK_LOG_WINDOW_MS 10000
#define CK_LOG_KINDS 64 /* that are counted at a time; lines of further ones all go through */
#define CK_LOG_KEPT 160 /* bytes of a line that its summary repeats */

struct ck_log_kind {
	const char *format; /* NULL: free */
	int level;
	int64_t since; /* when its window began */
	unsigned int passed, held;
	char text[CK_LOG_KEPT]; /* of the last line that went through */
};

struct ck_log_limit {
	atomic_flag busy;
	struct ck_log_kind kinds[CK_LOG_KINDS];
};

/* A summary of lines that were held back. */
struct ck_log_held {
	unsigned int count, seconds; /* in how many seconds; a count of 0: nothing */
	int level;
	char text[CK_LOG_KEPT];
};

/* Whether a line of @format may be written now. *before is to be written in front of it. */
bool ck_log_limit_pass(struct ck_log_limit *limit, const char *format, int level, int64_t now_ms,
		       struct ck_log_held *before);

/* The line of @format that has been let through: its summary will repeat the beginning. */
void ck_log_limit_note(struct ck_log_limit *limit, const char *format, const char *text,
		       size_t size);

/* Take one summary of a window that ended at @now_ms or before, or of any (@all); false: there is
 * none. */
bool ck_log_limit_take(struct ck_log_limit *limit, int64_t now_ms, bool all,
		       struct ck_log_held *held);

/* The milliseconds until the next summary can be taken; -1: none is due. */
int64_t ck_log_limit_next(struct ck_log_limit *limit, int64_t now_ms);

#endif
