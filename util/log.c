/*
 * util/log.c - where log lines are put together and written; see log.h.
 */
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "util/cancel.h"
#include "util/env.h"
#include "util/process/fd.h"
#include "util/log.h"
#include "util/log_format.h"
#include "util/log_limit.h"
#include "util/process/sighold.h"
#include "util/text.h"
#include "util/until.h"

#define LINE_SIZE 2048
#define CK_DROPPED_MS 1000 /* until it is tried again to say how many lines were dropped */

static const char *const level_names[] = {"error", "warning", "info", "debug", "trace"};
/* The padding is that of the original Cricket: short levels end in one column. */
static const char *const level_heads[] = {"ERROR: ", "WARNING: ", "INFO:  ", "DEBUG: ", "TRACE: "};

static struct ck_log *all_logs; /* every part looked up so far; only ever grows */
static int default_level = CK_LOG_WARNING;
static bool plain;	 /* lines begin with the time, instead of the owner's name */
static int64_t start_ns; /* time of the first line, 0 before it */

/* The level called `name` of `length` bytes; -2 for an unknown one. */
static int level_parse(const char *name, size_t length)
{
	if (length == 4 && memcmp(name, "none", 4) == 0)
		return CK_LOG_NONE;
	if (length == 4 && memcmp(name, "warn", 4) == 0)
		return CK_LOG_WARNING;
	for (size_t i = 0; i < CK_ARRAY_SIZE(level_names); i++) {
		if (strlen(level_names[i]) == length && memcmp(level_names[i], name, length) == 0)
			return (int)i;
	}
	return -2;
}

/*
 * Read the list in CRICKET_LOG: the level of `tag`, and the highest of all parts in *highest.
 * Entries that make no sense are passed over; a log must not stop a program.
 */
static int spec_level(const char *tag, int *highest)
{
	int bare = __atomic_load_n(&default_level, __ATOMIC_RELAXED), named = -2;
	const char *item = ck_env_string("CRICKET_LOG");

	*highest = CK_LOG_NONE;
	while (item && *item) {
		size_t length = strcspn(item, ",");
		const char *colon = memchr(item, ':', length);
		const char *level = colon ? colon + 1 : item;
		int value = level_parse(level, (size_t)(item + length - level));

		if (value >= CK_LOG_NONE) {
			*highest = ck_max(*highest, value);
			if (!colon)
				bare = value;
			else if (strlen(tag) == (size_t)(colon - item) &&
				 memcmp(tag, item, strlen(tag)) == 0)
				named = value;
		}
		item += length;
		item += *item == ',';
	}
	*highest = ck_max(*highest, bare);
	return named >= CK_LOG_NONE ? named : bare;
}

int ck_log_check(const char *spec)
{
	while (*spec) {
		size_t length = strcspn(spec, ",");
		const char *colon = memchr(spec, ':', length);
		const char *level = colon ? colon + 1 : spec;

		if (level_parse(level, (size_t)(spec + length - level)) < CK_LOG_NONE)
			return -EINVAL;
		spec += length;
		if (*spec == ',' && !*++spec)
			return -EINVAL;
	}
	return 0;
}

int ck_log_resolve(struct ck_log *log)
{
	int level = ck_log_current(log), highest;

	if (level != CK_LOG_UNSET)
		return level;
	level = spec_level(log->tag, &highest);
	if (!__atomic_exchange_n(&log->linked, 1, __ATOMIC_ACQ_REL)) {
		log->next = __atomic_load_n(&all_logs, __ATOMIC_RELAXED);
		while (!__atomic_compare_exchange_n(&all_logs, &log->next, log, 1, __ATOMIC_RELEASE,
						    __ATOMIC_RELAXED))
			;
	}
	__atomic_store_n(&log->level, level, __ATOMIC_RELAXED);
	return level;
}

int ck_log_default(const char *level)
{
	int value = level_parse(level, strlen(level));

	if (value < CK_LOG_NONE)
		return -EINVAL;
	__atomic_store_n(&default_level, value, __ATOMIC_RELAXED);
	for (struct ck_log *log = __atomic_load_n(&all_logs, __ATOMIC_ACQUIRE); log;
	     log = log->next)
		__atomic_store_n(&log->level, CK_LOG_UNSET, __ATOMIC_RELAXED);
	return 0;
}

void ck_log_plain(void)
{
	plain = true;
}

/* Microseconds since the first line of this process. */
static int64_t elapsed_us(void)
{
	struct timespec now;
	int64_t ns, first = 0;

	clock_gettime(CLOCK_MONOTONIC, &now);
	ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
	if (__atomic_compare_exchange_n(&start_ns, &first, ns, 0, __ATOMIC_RELAXED,
					__ATOMIC_RELAXED))
		return 0;
	return ns > first ? (ns - first) / 1000 : 0;
}

static int log_fd(void)
{
	return (int)ck_env_long("CRICKET_LOG_FD");
}

/* "+time " into @out, or the date and time of a server's line. */
static int put_time(char *out, size_t room)
{
	int64_t us = elapsed_us();
	int64_t seconds = us / 1000000;
	char now[CK_LOG_TIME_SIZE];

	if (plain)
		return ck_log_time(now, 6), snprintf(out, room, "%s ", now);
	return snprintf(out, room, "+%02d:%02d:%02d.%06d ", (int)(seconds / 3600),
			(int)(seconds / 60 % 60), (int)(seconds % 60), (int)(us % 1000000));
}

/*
 * Write "cricket: LEVEL: " into line (it always fits), or a server's head, with a priority for
 * journald, which notes the time by itself; returns its length. With @details the head has time and
 * pid too.
 */
static size_t put_head(char *line, enum ck_log_level level, bool details)
{
	int n = (int)ck_log_priority(line, log_fd(), (int)level);
	bool journal = n > 0;

	if (!plain)
		n += snprintf(line + n, LINE_SIZE - (size_t)n, "cricket: ");
	if ((plain && !journal) || details)
		n += put_time(line + n, LINE_SIZE - (size_t)n);
	if (details)
		n += snprintf(line + n, LINE_SIZE - (size_t)n, "[%d] ", (int)getpid());
	n += snprintf(line + n, LINE_SIZE - (size_t)n, "%s", level_heads[level]);
	return (size_t)n;
}

static void (*_Atomic line_hook)(int level, char *text, size_t size);

void ck_log_hook(void (*hook)(int level, char *text, size_t size))
{
	line_hook = hook;
}

static struct ck_log_limit limit; /* of repeated lines, where they are limited */
static unsigned int dropped;	  /* lines, since the last that was written */

static bool may_drop(void)
{
	return ck_env_long("CRICKET_LOG_DROP") != 0;
}

/* Write one line when there is room for it. */
static int put_waiting(int fd, const char *line, size_t size)
{
	ssize_t n;

	while ((n = write(fd, line, size)) < 0 && errno == EINTR)
		;
	return n < 0 ? -errno : 0;
}

/* A warning of the log itself, without a newline. */
static __attribute__((noinline)) ssize_t write_json(int fd, const char *message, size_t size)
{
	char line[3 + CK_LOG_JSON_SIZE];
	size_t used = ck_log_priority(line, fd, CK_LOG_WARNING);

	used += ck_log_json(line + used, level_names[CK_LOG_WARNING], "log", message, size);
	return ck_fd_write_now(fd, line, used);
}

/* Say how many lines were dropped. -EAGAIN: there is still no room. */
static int put_dropped(int fd)
{
	unsigned int n = __atomic_exchange_n(&dropped, 0, __ATOMIC_RELAXED);
	char line[LINE_SIZE];
	ssize_t ret;
	size_t used;

	if (n == 0)
		return 0;
	used = put_head(line, CK_LOG_WARNING, false);
	ret = snprintf(line + used, sizeof(line) - used,
		       "%u lines dropped: the pipe of the log was full\n", n);
	ret = ck_log_is_json() ? write_json(fd, line + used, (size_t)ret - 1)
			       : ck_fd_write_now(fd, line, used + (size_t)ret);
	if (ret == -EAGAIN)
		__atomic_fetch_add(&dropped, n, __ATOMIC_RELAXED);
	return ret < 0 ? (int)ret : 0;
}

/* Write one line at once, or count it. A @size of 0 only reports lines that were dropped before. */
static int put_now(int fd, const char *line, size_t size)
{
	ssize_t ret = put_dropped(fd);

	if (ret == 0 && size > 0)
		ret = ck_fd_write_now(fd, line, size);
	if (ret == -EAGAIN && size > 0)
		__atomic_fetch_add(&dropped, 1, __ATOMIC_RELAXED);
	return ret < 0 ? (int)ret : 0;
}

/* Nothing can be done about a descriptor that is closed. A pipe without a reader must not end the
 * program. */
static void put_line(const char *line, size_t size, bool drop)
{
	int cancel = ck_cancel_disable(), fd = log_fd();
	struct ck_sighold sigpipe;
	int ret;

	ck_sighold_begin(&sigpipe, SIGPIPE);
	ret = drop ? put_now(fd, line, size) : put_waiting(fd, line, size);
	ck_sighold_end(&sigpipe, ret == -EPIPE);
	ck_cancel_restore(cancel);
}

/* The same line as JSON. */
static __attribute__((noinline)) void put_json(const char *part, enum ck_log_level level,
					       const char *message, size_t size, bool drop)
{
	char line[3 + CK_LOG_JSON_SIZE];
	size_t used = ck_log_priority(line, log_fd(), (int)level);

	used += ck_log_json(line + used, level_names[level], part, message, size);
	put_line(line, used, drop);
}

/* The subject of a line. */
struct subject {
	const char *part;
	enum ck_log_level level;
};

/* The newline behind @used bytes of a line, and out with it; returns the length with it. */
static size_t end_line(const struct subject *subject, char line[LINE_SIZE], size_t head, int n,
		       bool drop)
{
	size_t used = head;

	if (n > 0)
		used += ck_min((size_t)n, LINE_SIZE - head - 1);
	while (used > 0 && line[used - 1] == '\n')
		used--;
	/* a peer's text is printed too: it gets no lines of its own, nor the terminal's commands */
	used = head + ck_text_mask(line + head, used - head, "\t");
	line[used++] = '\n';
	if (ck_log_is_json())
		put_json(subject->part, subject->level, line + head, used - 1 - head, drop);
	else
		put_line(line, used, drop);
	return used;
}

/* Does any part log so much that the order of lines and processes matters? */
static bool with_details(const char *tag)
{
	int highest;

	spec_level(tag, &highest);
	return highest >= CK_LOG_DEBUG;
}

static void put_summary(const struct ck_log_held *held)
{
	char line[LINE_SIZE];
	size_t head = put_head(line, (enum ck_log_level)held->level, with_details(""));

	end_line(&(struct subject){"log", (enum ck_log_level)held->level}, line, head,
		 snprintf(line + head, sizeof(line) - head, "%s ... %u more in the last %u s",
			  held->text, held->count, held->seconds),
		 true);
}

int ck_log_report_dropped(bool all)
{
	struct ck_log_held held;
	int64_t next;

	if (!may_drop())
		return -1;
	while (ck_log_limit_take(&limit, ck_now_ms(), all, &held))
		put_summary(&held);
	if (__atomic_load_n(&dropped, __ATOMIC_RELAXED) > 0)
		put_line(NULL, 0, true);
	next = ck_log_limit_next(&limit, ck_now_ms());
	if (__atomic_load_n(&dropped, __ATOMIC_RELAXED) > 0 && (next < 0 || next > CK_DROPPED_MS))
		next = CK_DROPPED_MS;
	return (int)next;
}

void ck_log_line(struct ck_log *log, enum ck_log_level level, const char *format, ...)
{
	int saved_errno = errno, n;
	bool drop = may_drop(), limited = drop && level <= CK_LOG_INFO;
	char line[LINE_SIZE];
	size_t head, used;
	va_list args;
	struct ck_log_held before = {.count = 0};
	void (*hook)(int level, char *text, size_t size) = line_hook;

	if ((int)level > ck_log_resolve(log) ||
	    (limited && !ck_log_limit_pass(&limit, format, (int)level, ck_now_ms(), &before)))
		goto out;
	if (before.count > 0)
		put_summary(&before);
	head = put_head(line, level, with_details(log->tag));
	errno = saved_errno; /* for %m */
	va_start(args, format);
	n = vsnprintf(line + head, sizeof(line) - head, format, args);
	va_end(args);
	used = end_line(&(struct subject){log->tag, level}, line, head, n, drop);
	if (limited)
		ck_log_limit_note(&limit, format, line + head, used - 1 - head);
	if (hook) {
		line[used - 1] = '\0';
		hook((int)level, line + head, used - 1 - head);
	}
out:
	errno = saved_errno;
}
