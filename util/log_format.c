/*
 * util/log_format.c - see log_format.h.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "util/env.h"
#include "util/log_format.h"
#include "util/text.h"
#include "util/util.h"

#define CK_TAIL 3 /* "}\n, and room for one more escaped byte */

bool ck_log_format_known(const char *format)
{
	return strcmp(format, "text") == 0 || strcmp(format, "json") == 0;
}

bool ck_log_is_json(void)
{
	const char *format = ck_env_string("CRICKET_LOG_FORMAT");

	return format && strcmp(format, "json") == 0;
}

/* Append one character of @text to @out, where there is always room; returns how many bytes of
 * @text it was. */
static size_t put_character(char *out, size_t *used, const char *text, size_t size)
{
	size_t n = ck_text_character(text, size);

	if (!ck_text_prints(text, size)) {
		out[(*used)++] = text[0] == '\t' ? ' ' : '?';
		return n ? n : 1;
	}
	if (text[0] == '"' || text[0] == '\\')
		out[(*used)++] = '\\';
	memcpy(out + *used, text, n);
	*used += n;
	return n;
}

static int days_of_month(int year, int month)
{
	static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
	bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;

	return days[month] + (month == 1 && leap);
}

size_t ck_log_time(char out[CK_LOG_TIME_SIZE], int digits)
{
	struct timespec now;
	int year = 1970, month = 0, part, second;
	int64_t days;

	clock_gettime(CLOCK_REALTIME, &now);
	days = now.tv_sec / 86400;
	second = (int)(now.tv_sec % 86400);
	part = (int)(digits == 3 ? now.tv_nsec / 1000000 : now.tv_nsec / 1000);
	while (days >= days_of_month(year, month)) {
		days -= days_of_month(year, month);
		month = (month + 1) % 12;
		year += month == 0;
	}
	return (size_t)snprintf(out, CK_LOG_TIME_SIZE, "%04d-%02d-%02dT%02d:%02d:%02d.%0*dZ", year,
				month + 1, (int)days + 1, second / 3600, second / 60 % 60,
				second % 60, digits, part);
}

size_t ck_log_json(char out[CK_LOG_JSON_SIZE], const char *level, const char *part,
		   const char *message, size_t size)
{
	char time[CK_LOG_TIME_SIZE];
	size_t used, at = 0;

	ck_log_time(time, 3);
	used = (size_t)snprintf(out, CK_LOG_JSON_SIZE,
				"{\"time\":\"%s\",\"level\":\"%s\",\"part\":\"%.32s\",\"pid\":%d,"
				"\"message\":\"",
				time, level, part, (int)getpid());
	while (at < size && used + CK_TAIL + 4 <= CK_LOG_JSON_SIZE)
		at += put_character(out, &used, message + at, size - at);
	memcpy(out + used, "\"}\n", 3);
	return used + 3;
}

/* --- journald */

/* Does @fd lead to journald? systemd names the file that it has made for that. */
static bool is_journal(int fd)
{
	const char *stream = getenv("JOURNAL_STREAM");
	unsigned long long device, inode;
	struct stat st;

	return stream && sscanf(stream, "%llu:%llu", &device, &inode) == 2 && fstat(fd, &st) == 0 &&
	       (unsigned long long)st.st_dev == device && (unsigned long long)st.st_ino == inode;
}

size_t ck_log_priority(char out[3], int fd, int level)
{
	static const char priorities[] = "34677"; /* syslog's: error, warning, info, debug, debug */

	if (level < 0 || level >= (int)sizeof(priorities) - 1 || !is_journal(fd))
		return 0;
	out[0] = '<';
	out[1] = priorities[level];
	out[2] = '>';
	return 3;
}
