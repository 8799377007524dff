/*
 * util/log.c - where log lines are put together and written; see log.h.
 */
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "util/cancel.h"
#include "util/env.h"
#include "util/log.h"

#define LINE_SIZE 2048

static const char *const level_names[] = {"error", "warning", "info", "debug", "trace"};
/* The padding is that of the original Cricket: short levels end in one column. */
static const char *const level_heads[] = {"ERROR: ", "WARNING: ", "INFO:  ", "DEBUG: ", "TRACE: "};

static struct ck_log *all_logs; /* every part looked up so far; only ever grows */
static int default_level = CK_LOG_WARNING;
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

/* Write "+time [pid] LEVEL: " into line (it always fits); returns its length. */
static size_t put_head(char *line, enum ck_log_level level, int with_pid)
{
	int64_t us = elapsed_us();
	int64_t seconds = us / 1000000;
	int n;

	n = snprintf(line, LINE_SIZE, "+%02d:%02d:%02d.%06d ", (int)(seconds / 3600),
		     (int)(seconds / 60 % 60), (int)(seconds % 60), (int)(us % 1000000));
	if (with_pid)
		n += snprintf(line + n, LINE_SIZE - (size_t)n, "[%d] ", (int)getpid());
	n += snprintf(line + n, LINE_SIZE - (size_t)n, "%s", level_heads[level]);
	return (size_t)n;
}

/* What a peer sends is printed too: it gets no lines of its own, nor the terminal's commands. */
static void mask_controls(char *text, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		if (((unsigned char)text[i] < ' ' && text[i] != '\t') || text[i] == 0x7f)
			text[i] = '?';
	}
}

static void (*_Atomic line_hook)(int level, char *text, size_t size);

void ck_log_hook(void (*hook)(int level, char *text, size_t size))
{
	line_hook = hook;
}

/* Nothing can be done about a descriptor that is full or closed; a pipe that nobody reads any more
 * must not end the program, so its SIGPIPE is taken away unless one was there before. */
static void put_line(const char *line, size_t size)
{
	int cancel = ck_cancel_disable(), fd = (int)ck_env_long("CRICKET_LOG_FD");
	sigset_t sigpipe, was, pending;
	ssize_t n;

	sigemptyset(&sigpipe);
	sigaddset(&sigpipe, SIGPIPE);
	sigpending(&pending);
	pthread_sigmask(SIG_BLOCK, &sigpipe, &was);
	while ((n = write(fd, line, size)) < 0 && errno == EINTR)
		;
	if (n < 0 && errno == EPIPE && sigismember(&pending, SIGPIPE) != 1)
		while (sigtimedwait(&sigpipe, NULL, &(struct timespec){0}) < 0 && errno == EINTR)
			;
	pthread_sigmask(SIG_SETMASK, &was, NULL);
	ck_cancel_restore(cancel);
}

void ck_log_line(struct ck_log *log, enum ck_log_level level, const char *format, ...)
{
	int saved_errno = errno, highest, n;
	char line[LINE_SIZE];
	size_t head, used;
	va_list args;
	void (*hook)(int level, char *text, size_t size) = line_hook;

	if ((int)level > ck_log_resolve(log))
		goto out;
	spec_level(log->tag, &highest);
	head = used = put_head(line, level, highest >= CK_LOG_DEBUG);
	errno = saved_errno; /* for %m */
	va_start(args, format);
	n = vsnprintf(line + used, sizeof(line) - used, format, args);
	va_end(args);
	if (n > 0)
		used += ck_min((size_t)n, sizeof(line) - used - 1);
	while (used > 0 && line[used - 1] == '\n')
		used--;
	mask_controls(line + head, used - head);
	line[used++] = '\n';
	put_line(line, used);
	if (hook) {
		line[used - 1] = '\0';
		hook((int)level, line + head, used - 1 - head);
	}
out:
	errno = saved_errno;
}
