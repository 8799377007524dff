/*
 * launcher/text/file.c - whole files; see file.h.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launcher/text/file.h"
#include "launcher/text/output_buffer.h"
#include "util/process/fd.h"
#include "util/util.h"

#define STREAM_PIECE 65536

void ckl_file_state_of(const struct stat *st, struct ckl_file_state *state)
{
	memset(state, 0, sizeof(*state));
	state->device = st->st_dev;
	state->inode = st->st_ino;
	state->size = st->st_size;
	state->modified = st->st_mtim;
}

bool ckl_file_unchanged(const char *path, const struct ckl_file_state *state)
{
	struct ckl_file_state now;
	struct stat st;

	if (stat(path, &st) < 0)
		return false;
	ckl_file_state_of(&st, &now);
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

int ckl_file_read(int dir, const char *path, char **data, size_t *size, struct stat *state)
{
	struct stat own;
	int fd = openat(dir, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY), ret;

	if (fd < 0)
		return -errno;
	ret = read_open(fd, data, size, state ? state : &own);
	close(fd);
	return ret;
}

bool ckl_file_is_stream(const char *path)
{
	/* A regular file behind one of these is another one, or none, in another process. */
	static const char *const own[] = {"/dev/fd/", "/dev/std", "/proc/self/",
					  "/proc/thread-self/"};
	struct stat st;

	for (size_t i = 0; i < CK_ARRAY_SIZE(own); i++) {
		if (strncmp(path, own[i], strlen(own[i])) == 0)
			return true;
	}
	return strcmp(path, "-") == 0 ||
	       (stat(path, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode));
}

/* The next bytes, also of a non-blocking descriptor. 0: the end. -errno. */
static ssize_t read_some(int fd, char *room)
{
	struct pollfd readable = {.fd = fd, .events = POLLIN};
	ssize_t n;

	while ((n = read(fd, room, STREAM_PIECE)) < 0) {
		if (errno != EINTR && errno != EAGAIN)
			return -errno;
		if (errno == EAGAIN)
			poll(&readable, 1, -1);
	}
	return n;
}

static int read_to_end(int fd, struct ckl_out *out)
{
	ssize_t n;
	char *room;

	do {
		room = ckl_out_room(out, STREAM_PIECE + 1);
		n = room ? read_some(fd, room) : -ENOMEM;
		if (n < 0)
			return (int)n;
		out->size += (size_t)n;
		if (out->size > CK_FILE_STREAM_MAX)
			return -EFBIG;
	} while (n > 0);
	out->base[out->size] = '\0';
	return out->size ? 0 : -ENODATA;
}

int ckl_file_read_stream(const char *path, char **data, size_t *size)
{
	struct ckl_out out = {0};
	int fd =
		strcmp(path, "-") == 0 ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	int ret;

	if (fd < 0)
		return -errno;
	ret = read_to_end(fd, &out);
	if (fd != STDIN_FILENO)
		close(fd);
	if (ret < 0) {
		free(out.base);
		return ret;
	}
	*data = out.base;
	*size = out.size;
	return 0;
}
