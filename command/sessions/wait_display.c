/*
 * command/sessions/wait_display.c - see wait_display.h.
 */
#include <dirent.h>
#include <fcntl.h>
#include <glob.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "command/sessions/wait_display.h"

int ckx_wait_seen(void)
{
	return isatty(STDERR_FILENO);
}

/* The memory of session @name, on the GPU or of a suspended one; 0: not known. */
static json_int_t memory_of(const json_t *status, const char *name)
{
	const json_t *s;
	size_t i;

	json_array_foreach(json_object_get(status, "sessions"), i, s)
	{
		const char *own = json_string_value(json_object_get(s, "session"));

		if (own && strcmp(own, name) == 0)
			return json_integer_value(json_object_get(s, "memory")) +
			       json_integer_value(json_object_get(s, "host_memory"));
	}
	return 0;
}

void ckx_wait_text(const char *command, const char *session, const json_t *status,
		   char out[CKX_WAIT_TEXT])
{
	json_int_t bytes = session ? memory_of(status, session) : 0;

	if (bytes > 0)
		snprintf(out, CKX_WAIT_TEXT, "%s %s (%lld MiB)", command, session,
			 (long long)bytes >> 20);
	else
		snprintf(out, CKX_WAIT_TEXT, "%s%s%s", command, session ? " " : "",
			 session ? session : "");
}

/* Bytes of the files in @folder. */
static uint64_t size_of(const char *folder)
{
	DIR *dir = opendir(folder);
	struct dirent *entry;
	struct stat st;
	uint64_t bytes = 0;

	while (dir && (entry = readdir(dir)) != NULL) {
		if (fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		    S_ISREG(st.st_mode))
			bytes += (uint64_t)st.st_size;
	}
	if (dir)
		closedir(dir);
	return bytes;
}

/* Of a checkpoint that is being written: its folder has another name until it is complete. */
static uint64_t count_written_bytes(const char *folder)
{
	char pattern[4096 + 16];
	uint64_t bytes = 0;
	glob_t found;

	if (snprintf(pattern, sizeof(pattern), "%s.part-*", folder) >= (int)sizeof(pattern) ||
	    glob(pattern, GLOB_NOESCAPE, NULL, &found) != 0)
		return 0;
	for (size_t i = 0; i < found.gl_pathc; i++)
		bytes += size_of(found.gl_pathv[i]);
	globfree(&found);
	return bytes;
}

void ckx_wait_show(int fd, const char *what, const char *folder)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	unsigned int seconds = 0;
	uint64_t bytes;

	while (ckx_wait_seen() && poll(&p, 1, 1000) == 0) {
		fprintf(stderr, "\rcricket: %s: %u s", what, ++seconds);
		bytes = folder ? count_written_bytes(folder) : 0;
		if (bytes > 0)
			fprintf(stderr, ", %llu MiB written", (unsigned long long)bytes >> 20);
		fputs(" \033[K", stderr);
	}
	if (seconds > 0)
		fputs("\r\033[K", stderr);
}
