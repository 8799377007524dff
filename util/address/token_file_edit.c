/*
 * util/address/token_file_edit.c - see token_file_edit.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <unistd.h>

#include "util/process/replace.h"
#include "util/address/token_file_edit.h"

#define CK_DATE 10 /* characters: dates are compared as texts */

int ck_token_file_new(const char *name, const char *date, char token[CK_HOLDER_TOKEN],
		      char line[CK_HOLDER_LINE])
{
	char hex[CK_HASH_TEXT];
	struct ck_hash hash;
	unsigned int wrong;
	int n;

	if (!ck_token_file_is_name(name, strlen(name)) || (date && strlen(date) != CK_DATE))
		return -EINVAL;
	if (getrandom(hash.bytes, sizeof(hash.bytes), 0) != sizeof(hash.bytes))
		return -EIO;
	ck_hash_print(&hash, token);
	ck_hash(token, strlen(token), &hash);
	ck_hash_print(&hash, hex);
	n = snprintf(line, CK_HOLDER_LINE, "%s:%s%s%s", name, hex, date ? ":" : "",
		     date ? date : "");
	if (n >= CK_HOLDER_LINE || ck_token_file_check(line, (size_t)n, &wrong) != 0)
		return -EINVAL;
	return 0;
}

int ck_token_file_read(const char *path, char text[CK_TOKEN_FILE_SIZE], unsigned int *line)
{
	FILE *f = fopen(path, "re");
	size_t n;
	int ret;

	*line = 0;
	text[0] = '\0';
	if (!f)
		return errno == ENOENT ? 0 : -errno;
	n = fread(text, 1, CK_TOKEN_FILE_SIZE - 1, f);
	ret = ferror(f) ? -errno : !feof(f) ? -EFBIG : 0;
	fclose(f);
	text[n] = '\0';
	if (ret == 0)
		ret = ck_token_file_check(text, n, line);
	if (ret != -EINVAL)
		*line = 0;
	if (ret == CK_TOKEN_FILE_SECRET)
		return -EINVAL;
	return ret == -ENODATA ? 0 : ret;
}

/* Hold the folder of @path, so that changes come one after another. The descriptor, or -errno. */
static int hold_folder(const char *path)
{
	char folder[PATH_MAX] = ".";
	const char *end = strrchr(path, '/');
	int fd, ret;

	if (end)
		snprintf(folder, sizeof(folder), "%.*s", end == path ? 1 : (int)(end - path), path);
	fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	while (flock(fd, LOCK_EX) < 0) {
		if (errno == EINTR)
			continue;
		ret = -errno;
		close(fd);
		return ret;
	}
	return fd;
}

/* Write the lines of @text that are not of @without, NULL: all; then @more, NULL: nothing. Returns
 * how many were left out. */
static size_t write_lines(FILE *out, const char *text, const char *without, const char *more)
{
	size_t name = without ? strlen(without) : 0, left_out = 0;

	for (size_t n; *text; text += n) {
		n = strcspn(text, "\n");
		if (without && strncmp(text, without, name) == 0 && text[name] == ':')
			left_out++;
		else
			fprintf(out, "%.*s\n", (int)n, text);
		n += text[n] == '\n';
	}
	if (more)
		fprintf(out, "%s\n", more);
	return left_out;
}

/* Replace the list by one without the tokens of @without, and with the line @more. */
static int edit_holders(const char *path, mode_t mode, const char *without, const char *more,
			size_t *count, unsigned int *line)
{
	char *text = malloc(CK_TOKEN_FILE_SIZE);
	struct ck_replace file;
	int folder = hold_folder(path);
	int ret = !text ? -ENOMEM : folder < 0 ? folder : ck_token_file_read(path, text, line);

	*count = 0;
	if (ret == 0 && more && strlen(text) + strlen(more) + 2 >= CK_TOKEN_FILE_SIZE)
		ret = -EFBIG;
	if (ret == 0)
		ret = ck_replace_begin(&file, path, mode);
	if (ret == 0) {
		*count = write_lines(file.out, text, without, more);
		ret = ck_replace_end(&file, true);
	}
	if (folder >= 0)
		close(folder);
	free(text);
	return ret;
}

int ck_token_file_add(const char *path, mode_t mode, const char *name, const char *date,
		      char token[CK_HOLDER_TOKEN], unsigned int *line)
{
	char more[CK_HOLDER_LINE];
	size_t count;
	int ret = ck_token_file_new(name, date, token, more);

	*line = 0;
	return ret < 0 ? ret : edit_holders(path, mode, NULL, more, &count, line);
}

int ck_token_file_revoke(const char *path, const char *name, size_t *count, unsigned int *line)
{
	*line = 0;
	*count = 0;
	if (!ck_token_file_is_name(name, strlen(name)))
		return -EINVAL;
	return edit_holders(path, 0600, name, NULL, count, line);
}
