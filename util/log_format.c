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

/* The length of the UTF-8 character at @text, of @size bytes; 0: it is none. */
static size_t character(const unsigned char *text, size_t size)
{
	static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
	size_t n = text[0] < 0x80	      ? 1
		   : (text[0] & 0xe0) == 0xc0 ? 2
		   : (text[0] & 0xf0) == 0xe0 ? 3
		   : (text[0] & 0xf8) == 0xf0 ? 4
					      : 0;
	uint32_t code = n > 1 ? text[0] & (0x7fu >> n) : text[0];

	if (n == 0 || n > size)
		return 0;
	for (size_t i = 1; i < n; i++) {
		if ((text[i] & 0xc0) != 0x80)
			return 0;
		code = code << 6 | (text[i] & 0x3f);
	}
	return code < least[n] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000) ? 0 : n;
}

/* Append one character of @text to @out, where there is always room; returns how many bytes of @text it was. */
static size_t put_character(char *out, size_t *used, const unsigned char *text, size_t size)
{
	size_t n = character(text, size);

	if (n == 0 || text[0] < ' ' || text[0] == 0x7f) {
		out[(*used)++] = text[0] == '\t' ? ' ' : '?';
		return 1;
	}
	if (text[0] == '"' || text[0] == '\\')
		out[(*used)++] = '\\';
	memcpy(out + *used, text, n);
	*used += n;
	return n;
}

size_t ck_log_json(char out[CK_LOG_JSON_SIZE], const char *level, const char *part,
		   const char *message, size_t size)
{
	const unsigned char *text = (const unsigned char *)message;
	struct timespec now;
	struct tm parts;
	char day[32];
	size_t used, at = 0;

	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &parts);
	strftime(day, sizeof(day), "%Y-%m-%dT%H:%M:%S", &parts);
	used = (size_t)snprintf(
		out, CK_LOG_JSON_SIZE,
		"{\"time\":\"%s.%03dZ\",\"level\":\"%s\",\"part\":\"%.32s\",\"pid\":%d,"
		"\"message\":\"",
		day, (int)(now.tv_nsec / 1000000), level, part, (int)getpid());
	while (at < size && used + CK_TAIL + 4 <= CK_LOG_JSON_SIZE)
		at += put_character(out, &used, text + at, size - at);
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
