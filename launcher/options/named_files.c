/*
 * launcher/options/named_files.c - kernels and requests of files that only this process can read;
 * see options.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launcher/options/options.h"
#include "launcher/text/file.h"
#include "util/process/fd.h"

static int no_file(struct ckl_fail *fail, const char *path, int error)
{
	const char *why = strerror(-error);

	if (error == -EFBIG)
		why = "a pipe may bring 256 MiB at most; put it into a file";
	else if (error == -ENODATA)
		why = "it is empty";
	else if (error == -EILSEQ)
		why = "not UTF-8";
	return ckl_fail(fail, CK_EXIT_FILE, "file", "NO_FILE", "%.300s: %s", path, why);
}

static int set_default(struct ckl_options *options, const char *key, json_t *value)
{
	return json_object_set_new(options->defaults, key, value);
}

/*
 * A cubin or a fat binary: JSON cannot hold it, so it lies in memory that the worker opens by a
 * name. The descriptor stays open as long as this process.
 */
static int give_image(struct ckl_options *options, const char *data, size_t size)
{
	int fd = memfd_create("gpu_launcher kernel", MFD_CLOEXEC), ret;
	char path[64];

	if (fd < 0)
		return -errno;
	ret = ck_fd_write_full(fd, data, size);
	if (ret < 0) {
		close(fd);
		return ret;
	}
	snprintf(path, sizeof(path), "/proc/%ld/fd/%d", (long)getpid(), fd);
	return set_default(options, "module", json_string(path)) < 0 ? -ENOMEM : 0;
}

/* PTX and CUDA C++ are text, which may end with NULs. */
static int set_source(struct ckl_options *options, const char *data, size_t size,
		      struct ckl_fail *fail)
{
	size_t end = size;
	int ret;

	while (end > 0 && !data[end - 1])
		end--;
	if (memchr(data, '\0', end)) {
		ret = give_image(options, data, size);
		return ret < 0 ? no_file(fail, options->file, ret) : 0;
	}
	if (set_default(options, "source", json_stringn(data, end)) < 0)
		return no_file(fail, options->file, -EILSEQ);
	return 0;
}

static int take_kernel(struct ckl_options *options, struct ckl_fail *fail)
{
	char *data;
	size_t size;
	int ret;

	if (!ckl_file_is_stream(options->file)) {
		if (set_default(options, "module", json_string(options->file)) < 0)
			return no_file(fail, options->file, -EILSEQ);
		return 0;
	}
	ret = ckl_file_read_stream(options->file, &data, &size);
	if (ret < 0)
		return no_file(fail, options->file, ret);
	ret = set_source(options, data, size, fail);
	free(data);
	return ret;
}

static int take_request(const struct ckl_options *options, struct ckl_fail *fail)
{
	int fd = open(options->request, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	struct stat st;

	if (fd >= 0 && fstat(fd, &st) == 0 && S_ISDIR(st.st_mode)) {
		close(fd);
		return no_file(fail, options->request, -EISDIR);
	}
	if (fd < 0 || dup2(fd, STDIN_FILENO) < 0)
		return no_file(fail, options->request, -errno);
	close(fd);
	return 0;
}

int ckl_named_files_take(struct ckl_options *options, struct ckl_fail *fail)
{
	int ret = options->file ? take_kernel(options, fail) : 0;

	if (ret == 0 && options->request)
		ret = take_request(options, fail);
	return ret;
}
