/*
 * util/log.h - log lines on stderr, with a level for each part of the program.
 *
 * A file says once `CK_LOG_DEFINE("client");` and then uses ck_err() to ck_trace(). Levels come
 * from CRICKET_LOG, a list of `part:level` or one bare `level` for all the rest, for example
 * `client:trace,server:info` or `debug`; levels are none, error, warning, info, debug, trace.
 *
 * A line is one write(2), so lines of several processes do not mix:
 *     cricket: WARNING: message
 * A server's log is its own, and has date and time, in UTC, instead of that first word, unless
 * journald notes them:
 *     2026-11-28T14:51:02.123456Z INFO:  message
 * With CRICKET_LOG_DROP=1, which servers set, a line never waits for room in a pipe: it is dropped,
 * and the next that is written says how many were. Repeated lines, above debug, are counted instead
 * of written (log_limit.h), and summarised by a later line or by ck_log_report_dropped.
 *
 * A client's time counts from the first line of the process (a forked child goes on counting). When
 * any part logs at debug or trace, each line has the time, and the pid follows it. errno is kept
 * and %m works. No lock is held at any time, so that a fork in another thread is harmless.
 */
#ifndef CK_UTIL_LOG_H
#define CK_UTIL_LOG_H

#include <limits.h>
#include <stdbool.h>

#include "util/util.h"

enum ck_log_level {
	CK_LOG_NONE = -1,
	CK_LOG_ERROR,
	CK_LOG_WARNING,
	CK_LOG_INFO,
	CK_LOG_DEBUG,
	CK_LOG_TRACE,
	CK_LOG_UNSET = INT_MAX, /* not looked up yet: the first call takes the slow path */
};

/* One part's level; static storage, linked into a list when the level is first looked up. */
struct ck_log {
	const char *tag;
	int level;
	int linked;
	struct ck_log *next;
};

#define CK_LOG_DEFINE(part)                                                                        \
	static struct ck_log ck_this_log                                                           \
		__attribute__((unused)) = {.tag = (part), .level = CK_LOG_UNSET}

/*
 * Set the level of parts that CRICKET_LOG does not name (warning, unless set). For programs, at
 * the start of main. Returns 0, or -EINVAL for an unknown level.
 */
int ck_log_default(const char *level);

/* Lines begin with date and time alone. For servers, at the start of main. */
void ck_log_plain(void);

/* Is @spec a level, or a list of PART:LEVEL, as CRICKET_LOG takes it? -EINVAL: an unknown level. */
int ck_log_check(const char *spec);

/*
 * Have @hook, unless NULL, called with each line that is printed, as it was put, without head and
 * newline, terminated. It is called where the line is logged, whatever is held there.
 */
void ck_log_hook(void (*hook)(int level, char *text, size_t size));

/*
 * Write all that is due with CRICKET_LOG_DROP=1: summaries of repeated lines, @all of them at the
 * end of the process, and the number of lines dropped. The milliseconds until there is more to do;
 * -1: nothing is.
 */
int ck_log_report_dropped(bool all);

/* True when a line of this level would be printed; for messages that are dear to compute. */
#define ck_log_enabled(lv)                                                                         \
	(unlikely((int)(lv) <= ck_log_current(&ck_this_log)) &&                                    \
	 ck_log_resolve(&ck_this_log) >= (int)(lv))

#define ck_log(lv, ...)                                                                            \
	do {                                                                                       \
		if (unlikely((int)(lv) <= ck_log_current(&ck_this_log)))                           \
			ck_log_line(&ck_this_log, (lv), __VA_ARGS__);                              \
	} while (0)

#define ck_err(...) ck_log(CK_LOG_ERROR, __VA_ARGS__)
#define ck_warn(...) ck_log(CK_LOG_WARNING, __VA_ARGS__)
#define ck_info(...) ck_log(CK_LOG_INFO, __VA_ARGS__)
#define ck_debug(...) ck_log(CK_LOG_DEBUG, __VA_ARGS__)
#define ck_trace(...) ck_log(CK_LOG_TRACE, __VA_ARGS__)

/* Behind the macros: the level as last looked up; look it up now; print unless below the level. */
static inline int ck_log_current(const struct ck_log *log)
{
	return __atomic_load_n(&log->level, __ATOMIC_RELAXED);
}

int ck_log_resolve(struct ck_log *log);
void ck_log_line(struct ck_log *log, enum ck_log_level level, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#endif
