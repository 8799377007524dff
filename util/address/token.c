/*
 * util/address/token.c - see token.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "util/env.h"
#include "util/process/fd.h"
#include "util/address/token.h"

#define TOKEN "CRICKET_TOKEN"
#define TOKEN_FILE "CRICKET_TOKEN_FILE"

int ck_token_read(const char *path, char out[CK_TOKEN_SIZE])
{
	/* does not wait for the writer of a pipe */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	ssize_t size = fd < 0 ? -errno : ck_fd_read_most(fd, out, CK_TOKEN_SIZE);
	size_t length;

	if (fd >= 0)
		close(fd);
	if (size <= 0)
		return size < 0 ? (int)size : -ENODATA;
	if (size < CK_TOKEN_SIZE)
		out[size] = '\n';
	for (length = 0; length < CK_TOKEN_SIZE && !strchr("\r\n", out[length]);)
		length++;
	if (length == CK_TOKEN_SIZE)
		return -EMSGSIZE;
	explicit_bzero(out + length, CK_TOKEN_SIZE - length);
	return length > 0 ? 0 : -ENODATA;
}

size_t ck_token_length(const char *token)
{
	return strcspn(token, "\r\n");
}

int ck_token_find(char out[CK_TOKEN_SIZE], const char **where)
{
	const char *token = ck_env_string(TOKEN), *file = ck_env_string(TOKEN_FILE);

	out[0] = '\0';
	*where = TOKEN;
	if (token && *token) {
		size_t length = ck_token_length(token);

		if (length >= CK_TOKEN_SIZE)
			return -EMSGSIZE;
		memcpy(out, token, length);
		out[length] = '\0';
		return 0;
	}
	*where = TOKEN_FILE;
	return file && *file ? ck_token_read(file, out) : 0;
}

bool ck_token_is_set(void)
{
	const char *token = ck_env_string(TOKEN), *file = ck_env_string(TOKEN_FILE);

	return (token && *token) || (file && *file);
}
