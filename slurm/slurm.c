/*
 * slurm/slurm.c - see slurm.h.
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "slurm/slurm.h"
#include "util/process/fd.h"

int ck_slurm_fail(struct ck_slurm_why *why, int ret, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(why->text, sizeof(why->text), format, args);
	va_end(args);
	return ret;
}

int ck_slurm_gpus_parse(const char *text, unsigned int *gpus)
{
	char *end;
	unsigned long n;

	if (!text || !isdigit((unsigned char)text[0]))
		return -EINVAL;
	errno = 0;
	n = strtoul(text, &end, 10);
	if (errno || *end || n < 1 || n > CK_SLURM_GPUS)
		return -EINVAL;
	*gpus = (unsigned int)n;
	return 0;
}

int ck_slurm_type_parse(const char *text, char type[CK_SLURM_TYPE])
{
	size_t size = text ? strlen(text) : 0;

	if (size < 1 || size >= CK_SLURM_TYPE)
		return -EINVAL;
	/* It is a part of a licence's name, which Slurm ends at other characters. */
	for (size_t i = 0; i < size; i++)
		if (!isalnum((unsigned char)text[i]) && text[i] != '_')
			return -EINVAL;
	memcpy(type, text, size + 1);
	return 0;
}

char *ck_slurm_read(const char *path, int *ret)
{
	char *text = NULL;
	size_t size = 0;
	FILE *f = fopen(path, "re");

	*ret = -errno;
	if (!f)
		return NULL;
	text = malloc(CK_SLURM_FILE);
	*ret = text ? 0 : -ENOMEM;
	if (text)
		size = fread(text, 1, CK_SLURM_FILE - 1, f);
	if (text && ferror(f))
		*ret = -EIO;
	else if (text && (!feof(f) || memchr(text, '\0', size)))
		*ret = -EFBIG;
	fclose(f);
	if (*ret < 0) {
		free(text);
		return NULL;
	}
	text[size] = '\0';
	return text;
}

/* Give the new file @fd owner and mode of @path, where that exists. */
static int keep_owner(int fd, const char *path)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return errno == ENOENT ? 0 : -errno;
	if (fchown(fd, st.st_uid, st.st_gid) < 0 || fchmod(fd, st.st_mode & 0777) < 0)
		return -errno;
	return 0;
}

int ck_slurm_write(const char *path, const char *text, size_t size)
{
	char new[CK_SLURM_PATH + 8];
	int ret, fd;

	if (snprintf(new, sizeof(new), "%s.new", path) >= (int)sizeof(new))
		return -ENAMETOOLONG;
	/* Replace the file of an interrupted writer: the lock is ours. */
	unlink(new);
	fd = open(new, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	ret = keep_owner(fd, path);
	if (ret == 0)
		ret = ck_fd_write_full(fd, text, size);
	if (ret == 0 && fsync(fd) < 0)
		ret = -errno;
	if (close(fd) < 0 && ret == 0)
		ret = -errno;
	if (ret == 0 && rename(new, path) < 0)
		ret = -errno;
	if (ret < 0)
		unlink(new);
	return ret;
}
