/*
 * launcher/nvcc.c - compile by running nvcc in a folder of its own.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/compiler.h"
#include "launcher/file.h"
#include "util/fd.h"

extern char **environ;

/* Files of one run; all in one folder, which is removed with them. */
struct run {
	char folder[64];
	char source[128], ptx[128], log[128];
};

static int write_source(const char *path, const struct ck_compile *in)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600), ret;

	if (fd < 0)
		return -errno;
	ret = ck_fd_write_full(fd, in->text, in->size);
	close(fd);
	return ret;
}

/* The source keeps its name, which the compiler's messages show. */
static int run_begin(struct run *run, const struct ck_compile *in)
{
	const char *slash = in->path ? strrchr(in->path, '/') : NULL;
	const char *name = !in->path ? "source.cu" : slash ? slash + 1 : in->path;
	const char *base = getenv("TMPDIR");

	if (!base || *base != '/' || strlen(base) > 32)
		base = "/tmp";
	snprintf(run->folder, sizeof(run->folder), "%s/gpu_launcher.XXXXXX", base);
	if (!mkdtemp(run->folder))
		return -errno;
	snprintf(run->source, sizeof(run->source), "%s/%.60s", run->folder,
		 strlen(name) <= 60 ? name : "source.cu");
	snprintf(run->ptx, sizeof(run->ptx), "%s/.ptx", run->folder);
	snprintf(run->log, sizeof(run->log), "%s/.log", run->folder);
	return write_source(run->source, in);
}

static void run_end(struct run *run)
{
	unlink(run->source);
	unlink(run->ptx);
	unlink(run->log);
	rmdir(run->folder);
}

/* Its exit status, or -errno. */
static int execute(const char *path, const char **arguments, const char *log)
{
	posix_spawn_file_actions_t actions;
	int ret, status;
	pid_t pid;

	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, 1, log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	posix_spawn_file_actions_adddup2(&actions, 1, 2);
	ret = posix_spawn(&pid, path, &actions, NULL, (char **)arguments, environ);
	posix_spawn_file_actions_destroy(&actions);
	if (ret)
		return -ret;
	while (waitpid(pid, &status, 0) < 0) {
		if (errno != EINTR)
			return -errno;
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : -EINTR;
}

static int compile(const struct ck_compiler *compiler, const struct ck_compile *in,
		   const struct run *run)
{
	const char **arguments = calloc(12 + json_array_size(in->options), sizeof(*arguments));
	const char *slash = in->path ? strrchr(in->path, '/') : NULL;
	char arch[48], include[PATH_MAX];
	size_t n = 0;
	int ret;

	if (!arguments)
		return -ENOMEM;
	snprintf(arch, sizeof(arch), "-arch=compute_%u", in->sm);
	snprintf(include, sizeof(include), "-I%.*s", slash ? (int)(slash - in->path + 1) : 1,
		 slash ? in->path : ".");
	arguments[n++] = compiler->path;
	arguments[n++] = "-ptx";
	arguments[n++] = arch;
	if (in->path)
		arguments[n++] = include;
	for (size_t i = 0; i < json_array_size(in->options); i++)
		arguments[n++] = json_string_value(json_array_get(in->options, i));
	arguments[n++] = "-o";
	arguments[n++] = run->ptx;
	arguments[n++] = run->source;
	ret = execute(compiler->path, arguments, run->log);
	free(arguments);
	return ret;
}

int ck_nvcc_compile(const struct ck_compiler *compiler, const struct ck_compile *in,
		    struct ck_compiled *out)
{
	struct run run = {0};
	size_t size;
	int ret = run_begin(&run, in);

	*out = (struct ck_compiled){0};
	if (ret == 0)
		ret = compile(compiler, in, &run);
	if (ret == 0)
		ret = ck_file_read(AT_FDCWD, run.ptx, &out->ptx, &out->size, NULL);
	else if (ret > 0 && ck_file_read(AT_FDCWD, run.log, &out->log, &size, NULL) == 0)
		ret = 0;
	run_end(&run);
	return ret > 0 ? -EIO : ret;
}
