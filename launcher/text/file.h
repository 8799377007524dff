/*
 * launcher/text/file.h - whole files.
 */
#ifndef CK_LAUNCHER_TEXT_FILE_H
#define CK_LAUNCHER_TEXT_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#define CK_FILE_MAX ((size_t)1 << 31)

/* A file as it was: when one of these has changed it is another file. */
struct ckl_file_state {
	dev_t device;
	ino_t inode;
	off_t size;
	struct timespec modified;
};

void ckl_file_state_of(const struct stat *st, struct ckl_file_state *state);

/* Whether the file at @path is still that one. */
bool ckl_file_unchanged(const char *path, const struct ckl_file_state *state);

/*
 * Read a regular file, relative to the open folder @dir or AT_FDCWD: malloc'ed, *size bytes and a
 * NUL behind them; its state goes to *state unless that is NULL. -errno; -EFBIG above CK_FILE_MAX.
 */
int ckl_file_read(int dir, const char *path, char **data, size_t *size, struct stat *state);

/* A kernel that comes through a pipe is kept in memory: this much at most. */
#define CK_FILE_STREAM_MAX ((size_t)256 << 20)

/*
 * Whether @path can be read only once and only by this process: "-", a pipe, a device, or the name
 * of a descriptor, as a shell's <(...) is.
 */
bool ckl_file_is_stream(const char *path);

/*
 * Read such a file to its end, "-" being standard input: as above. -EFBIG above
 * CK_FILE_STREAM_MAX; -ENODATA: it is empty.
 */
int ckl_file_read_stream(const char *path, char **data, size_t *size);

#endif
