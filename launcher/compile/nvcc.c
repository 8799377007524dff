/*
 * launcher/compile/nvcc.c - compile by running nvcc in a folder of its own.
 *
 * A worker can be killed at any time, because its launch takes too long or its client has gone. So
 * a process of its own, the keeper, makes the folder and runs nvcc; when the worker is done or has
 * died, it kills the rest of nvcc's process group and removes the folder.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/compile/compiler.h"
#include "launcher/text/file.h"
#include "util/process/fd.h"

extern char **environ;

#define KEEPER_SOCK 3

/* Files of one run; all in one folder, which is removed with them. */
struct run {
	int status; /* of nvcc's exit, or -errno */
	char folder[256];
	char source[320], ptx[320], log[320];
};

static int write_source(const char *path, const struct ckl_compile *in)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600), ret;

	if (fd < 0)
		return -errno;
	ret = ck_fd_write_full(fd, in->text, in->size);
	close(fd);
	return ret;
}

/* The source keeps its name, which the compiler's messages show. */
static int run_begin(struct run *run, const struct ckl_compile *in)
{
	const char *slash = in->path ? strrchr(in->path, '/') : NULL;
	const char *name = !in->path ? "source.cu" : slash ? slash + 1 : in->path;
	const char *base = getenv("TMPDIR");

	if (!base || *base != '/' || strlen(base) > 200)
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

/* nvcc's own temporary files are there too. */
static void run_end(const struct run *run)
{
	DIR *folder = *run->folder ? opendir(run->folder) : NULL;
	const struct dirent *entry;

	if (!folder)
		return;
	while ((entry = readdir(folder)))
		unlinkat(dirfd(folder), entry->d_name, 0);
	closedir(folder);
	rmdir(run->folder);
}

/* Start it as a process group of its own, with its output in the log. -errno. */
static int start_compiler(pid_t *pid, const char *path, const char **arguments, const char *log)
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	sigset_t none;
	int ret;

	sigemptyset(&none);
	posix_spawnattr_init(&attributes);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
	posix_spawnattr_setsigmask(&attributes, &none);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, 1, log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	posix_spawn_file_actions_adddup2(&actions, 1, 2);
	ret = posix_spawn(pid, path, &actions, &attributes, (char **)arguments, environ);
	posix_spawn_file_actions_destroy(&actions);
	posix_spawnattr_destroy(&attributes);
	return -ret;
}

/* Its exit status, or -EINTR. It does not outlive the worker. */
static int wait_compiler(pid_t pid)
{
	struct pollfd fds[] = {
		{.fd = KEEPER_SOCK},
		{.fd = (int)syscall(SYS_pidfd_open, pid, 0), .events = POLLIN},
	};
	int status;

	if (fds[1].fd < 0 || poll(fds, 2, -1) < 0 || fds[0].revents)
		kill(-pid, SIGKILL);
	if (waitpid(pid, &status, 0) < 0)
		return -errno;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -EINTR;
}

/*
 * The keeper: @arguments point into @run. It inherits nothing from the worker except its end of a
 * socket.
 */
static void run_keeper(struct run *run, const char **arguments, const struct ckl_compile *in,
		       int sock)
{
	struct pollfd end = {.fd = KEEPER_SOCK};
	sigset_t all;
	pid_t pid;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	prctl(PR_SET_NAME, "gpu_compile");
	if (sock != KEEPER_SOCK)
		dup3(sock, KEEPER_SOCK, O_CLOEXEC);
	close_range(KEEPER_SOCK + 1, ~0U, 0);
	run->status = run_begin(run, in);
	if (run->status == 0 && setenv("TMPDIR", run->folder, 1) < 0)
		run->status = -errno;
	if (run->status == 0)
		run->status = start_compiler(&pid, arguments[0], arguments, run->log);
	if (run->status == 0)
		run->status = wait_compiler(pid);
	if (ck_fd_write_full(KEEPER_SOCK, run, sizeof(*run)) == 0)
		poll(&end, 1, -1); /* until its files have been read */
	run_end(run);
	_exit(0);
}

/* Start the keeper, and fill in @run when nvcc has ended. Returns its socket or -errno. */
static int run_make(struct run *run, const char **arguments, const struct ckl_compile *in,
		    pid_t *keeper)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	*keeper = fork();
	if (*keeper == 0)
		run_keeper(run, arguments, in, pair[1]);
	run->status = *keeper < 0 ? -errno : -EINTR;
	close(pair[1]);
	if (*keeper > 0)
		ck_fd_read_full(pair[0], run, sizeof(*run));
	return pair[0];
}

/* nvcc's command line, malloc'ed; @include has room for an option. */
static const char **build_command(const struct ckl_compiler *compiler, const struct ckl_compile *in,
				  const struct run *run, char arch[48], char include[PATH_MAX])
{
	const char **arguments = calloc(12 + json_array_size(in->options), sizeof(*arguments));
	const char *slash = in->path ? strrchr(in->path, '/') : NULL;
	size_t n = 0;

	if (!arguments)
		return NULL;
	snprintf(arch, 48, "-arch=compute_%u", in->sm);
	snprintf(include, PATH_MAX, "-I%.*s", slash ? (int)(slash - in->path + 1) : 1,
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
	return arguments;
}

int ckl_nvcc_compile(const struct ckl_compiler *compiler, const struct ckl_compile *in,
		     struct ckl_compiled *out)
{
	char arch[48], include[PATH_MAX];
	struct run run = {0};
	const char **arguments = build_command(compiler, in, &run, arch, include);
	pid_t keeper = -1;
	size_t size;
	int ret, sock;

	*out = (struct ckl_compiled){0};
	if (!arguments)
		return -ENOMEM;
	sock = run_make(&run, arguments, in, &keeper);
	free(arguments);
	if (sock < 0)
		return sock;
	ret = run.status;
	if (ret == 0)
		ret = ckl_file_read(AT_FDCWD, run.ptx, &out->ptx, &out->size, NULL);
	else if (ret > 0 && ckl_file_read(AT_FDCWD, run.log, &out->log, &size, NULL) == 0)
		ret = 0;
	close(sock);
	while (keeper > 0 && waitpid(keeper, NULL, 0) < 0 && errno == EINTR)
		;
	return ret > 0 ? -EIO : ret;
}
