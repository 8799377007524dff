/*
 * launcher/file.c - whole files; see file.h.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launcher/file.h"
#include "util/fd.h"

void ck_file_state_of(const struct stat *st, struct ck_file_state *state)
{
	memset(state, 0, sizeof(*state));
	state->device = st->st_dev;
	state->inode = st->st_ino;
	state->size = st->st_size;
	state->modified = st->st_mtim;
}

bool ck_file_unchanged(const char *path, const struct ck_file_state *state)
{
	struct ck_file_state now;
	struct stat st;

	if (stat(path, &st) < 0)
		return false;
	ck_file_state_of(&st, &now);
	return memcmp(&now, state, sizeof(now)) == 0;
}

static int read_open(int fd, char **data, size_t *size, struct stat *state)
{
	char *bytes;
	int ret;

	if (fstat(fd, state) < 0)
		return -errno;
	if (!S_ISREG(state->st_mode))
		return S_ISDIR(state->st_mode) ? -EISDIR : -EINVAL;
	if ((size_t)state->st_size > CK_FILE_MAX)
		return -EFBIG;
	bytes = malloc((size_t)state->st_size + 1);
	if (!bytes)
		return -ENOMEM;
	ret = state->st_size ? ck_fd_read_full(fd, bytes, (size_t)state->st_size) : 0;
	if (ret < 0) {
		free(bytes);
		return ret;
	}
	bytes[state->st_size] = '\0';
	*data = bytes;
	*size = (size_t)state->st_size;
	return 0;
}

int ck_file_read(int dir, const char *path, char **data, size_t *size, struct stat *state)
{
	struct stat own;
	int fd = openat(dir, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY), ret;

	if (fd < 0)
		return -errno;
	ret = read_open(fd, data, size, state ? state : &own);
	close(fd);
	return ret;
}
