/*
 * rpc/companion/start.c - see start.h.
 *
 * The companion is a grandchild. The child between is made by clone(2) without a signal for its
 * parent, and ends at once: a program that waits for its children, or handles SIGCHLD, never sees
 * one. (After execve(2) it would be an ordinary child.)
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rpc/companion/companion.h"
#include "rpc/companion/start.h"
#include "util/util.h"

extern char **environ;

enum { SIGN = 3, LIFELINE, FIRST_OTHER }; /* descriptors of the child */

#define ARGUMENTS 24 /* of the program, at most */

/* $1: the folder; then the script of the program, $0, and its arguments. All that it has started
 * ends: the group is its own. */
static const char wrapper[] = "d=$1; shift; PATH=\"$PATH:/usr/bin:/bin\"\n"
			      "exec < /dev/null > /dev/null 2>&1\n"
			      "sh -c \"$@\" 4<&- 2> \"$d/log\" &\n"
			      "exec 3>&-\n"
			      "cat <&4\n"
			      "trap : TERM\n"
			      "kill -TERM -$$\n"
			      "wait\n"
			      "rm -rf \"$d\"\n";

/*
 * $1: the path of our socket, $2: the host; then options. CRICKET_SSH is for the shell, as
 * GIT_SSH_COMMAND is. The shell stays, because ssh closes the descriptor that says that the program
 * runs. ssh puts variables of this process in the place of ${NAME} in a path that it forwards to,
 * and tells the server: a name that comes from there must be a plain one.
 */
static const char ssh_script[] =
	"at=$1 host=$2; shift 2\n"
	"run() { eval \"${CRICKET_SSH:-ssh}\"' \"$@\"'; }\n"
	"[ -n \"$CRICKET_SSH_SOCKET\" ] || {\n"
	"CRICKET_SSH_SOCKET=$(run \"$@\" -- \"$host\" sh << 'END'\n"
	"for s in \"$XDG_RUNTIME_DIR/cricket.sock\" /run/cricket.sock /run/cricket/cricket.sock; "
	"do\n"
	"	[ ! -S \"$s\" ] || { echo \"$s\"; exit 0; }\n"
	"done\n"
	"s=/tmp/cricket-$(id -u).sock\n" /* any user may make it */
	"[ -S \"$s\" ] && [ -O \"$s\" ] && echo \"$s\" && exit 0\n"
	"echo 'no socket of a cricket-rpc-server on that host (CRICKET_SSH_SOCKET)' >&2\n"
	"exit 1\n"
	"END\n"
	") || exit 1\n"
	"case $CRICKET_SSH_SOCKET in *[!-A-Za-z0-9/._+@,]*)\n"
	"	echo 'that host gives no name of a socket' >&2\n"
	"	exit 1\n"
	"esac\n"
	"}\n"
	"at=$at:$CRICKET_SSH_SOCKET\n"
	"eval 'exec '\"${CRICKET_SSH:-ssh}\"' -N -L \"$at\" \"$@\" -- \"$host\"' &\n"
	"trap 'kill $!' TERM\n"
	"wait $!\n";

/* The program's own driver is the client, which must not be the server's. */
static const char local_script[] = "PATH=\"$PATH:/usr/local/bin:/usr/sbin:$2:$2/../../bin\"\n"
				   "exec cricket-rpc-server --listen none --unix \"$1/sock\" "
				   "--driver \"${CRICKET_LOCAL_DRIVER:-cuda}\"";

struct command {
	const char *script;
	const char *arguments[ARGUMENTS];
	unsigned int count;
	char path[128], host[512], port[16], own[256], libraries[4096];
};

static void add_argument(struct command *c, const char *argument)
{
	c->arguments[c->count++] = argument;
}

/* [USER@]HOST, as ssh takes it, and the port if there is one. */
static void put_host(struct command *c, const struct ck_address *where)
{
	snprintf(c->host, sizeof(c->host), "%s%s%s", where->user, where->user[0] ? "@" : "",
		 where->host);
	if (where->port >= 0)
		snprintf(c->port, sizeof(c->port), "%d", where->port);
}

static void use_ssh(struct command *c, const struct ck_address *where, const char *folder)
{
	static const char *const fixed[] = {"-T",
					    "-o",
					    "BatchMode=yes",
					    "-o",
					    "ConnectTimeout=30",
					    "-o",
					    "ExitOnForwardFailure=yes",
					    "-o",
					    "ServerAliveInterval=10",
					    "-o",
					    "StreamLocalBindMask=0177"};

	put_host(c, where);
	snprintf(c->path, sizeof(c->path), "%s/sock", folder);
	c->script = ssh_script;
	add_argument(c, "ssh");
	add_argument(c, c->path);
	add_argument(c, c->host);
	for (size_t i = 0; i < CK_ARRAY_SIZE(fixed); i++)
		add_argument(c, fixed[i]);
	if (c->port[0]) {
		add_argument(c, "-p");
		add_argument(c, c->port);
	}
}

/* The folder of this library or program. */
static void find_self(char *folder, size_t size)
{
	Dl_info info;
	const char *slash;

	folder[0] = '\0';
	if (!dladdr((const void *)wrapper, &info) || !info.dli_fname)
		return;
	slash = strrchr(info.dli_fname, '/');
	if (slash && (size_t)(slash - info.dli_fname) < size)
		snprintf(folder, size, "%.*s", (int)(slash - info.dli_fname), info.dli_fname);
}

static void use_local(struct command *c, const char *folder)
{
	find_self(c->own, sizeof(c->own));
	c->script = local_script;
	add_argument(c, "cricket-rpc-server");
	add_argument(c, folder);
	add_argument(c, c->own);
}

/* --- its environment: that of the program, without the variables that make the program a client */

static bool left_out(const char *entry)
{
	static const char *const names[] = {
		"LD_PRELOAD=",	    "REMOTE_GPU_ADDRESS=", "CUDA_VISIBLE_DEVICES=",
		"LD_LIBRARY_PATH=", "CRICKET_STATS=",	   "CRICKET_TRACE="};

	for (size_t i = 0; i < CK_ARRAY_SIZE(names); i++) {
		if (strncmp(entry, names[i], strlen(names[i])) == 0)
			return true;
	}
	return false;
}

/* LD_LIBRARY_PATH without the folders of the client, whose libcuda.so.1 is no driver. */
static void keep_libraries(struct command *c)
{
	const char *path = secure_getenv("LD_LIBRARY_PATH");
	size_t own = strlen(c->own), length = 0;

	snprintf(c->libraries, sizeof(c->libraries), "LD_LIBRARY_PATH=");
	length = strlen(c->libraries);
	for (size_t n; path && *path; path += n + (path[n] == ':')) {
		n = strcspn(path, ":");
		if (n == 0 ||
		    (own > 0 && n >= own && strncmp(path, c->own, own) == 0 &&
		     (n == own || path[own] == '/')) ||
		    length + n + 2 > sizeof(c->libraries))
			continue;
		length += (size_t)snprintf(c->libraries + length, sizeof(c->libraries) - length,
					   "%.*s:", (int)n, path);
	}
	if (c->libraries[length - 1] == ':')
		c->libraries[length - 1] = '\0';
}

/* The caller frees it, not the entries. NULL: no memory. */
static const char **make_environment(struct command *c)
{
	size_t count = 0, kept = 0;
	const char **list;

	while (environ && environ[count])
		count++;
	list = calloc(count + 2, sizeof(*list));
	if (!list)
		return NULL;
	for (size_t i = 0; i < count; i++) {
		if (!left_out(environ[i]))
			list[kept++] = environ[i];
	}
	keep_libraries(c);
	if (c->libraries[strlen("LD_LIBRARY_PATH=")])
		list[kept] = c->libraries;
	return list;
}

/* --- the processes */

int ck_companion_folder(char *folder, size_t size)
{
	const char *runtime = secure_getenv("XDG_RUNTIME_DIR");
	bool usable = runtime && *runtime == '/' && strlen(runtime) < size - 32 &&
		      access(runtime, W_OK) == 0;

	snprintf(folder, size, "%s/cricket-XXXXXX", usable ? runtime : "/tmp");
	return mkdtemp(folder) ? 0 : -errno;
}

/* The program's other descriptors must not live on in the companion. Async-signal-safe. */
static void close_others(void)
{
	struct rlimit limit;
	int most = 65536;

#ifdef SYS_close_range
	if (syscall(SYS_close_range, FIRST_OTHER, ~0u, 0) == 0)
		return;
#endif
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < (rlim_t)most)
		most = (int)limit.rlim_cur;
	for (int fd = FIRST_OTHER; fd < most; fd++)
		close(fd);
}

/* In the grandchild: see fork_twice. */
static void become_shell(const char *const *argv, const char *const *environment, int sign,
			 int lifeline)
{
	sigset_t none;

	setsid();
	sign = fcntl(sign, F_DUPFD, 16); /* out of the way of the numbers below */
	lifeline = fcntl(lifeline, F_DUPFD, 16);
	if (sign < 0 || lifeline < 0 || dup2(sign, SIGN) < 0 || dup2(lifeline, LIFELINE) < 0)
		_exit(126);
	close_others();
	for (int signal_number = 1; signal_number < 32; signal_number++)
		signal(signal_number, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	execve("/bin/sh", (char *const *)(uintptr_t)argv, (char *const *)(uintptr_t)environment);
	_exit(127);
}

/* Without the handlers of fork(3), which are the program's: only this thread exists afterwards, so
 * async-signal-safe calls alone. */
static long fork_quietly(int signal_at_end)
{
	return syscall(SYS_clone, signal_at_end, NULL, NULL, NULL, NULL);
}

static int fork_twice(const char *const *argv, const char *const *environment, int sign,
		      int lifeline)
{
	int status;
	long pid = fork_quietly(0);

	if (pid == 0) {
		pid = fork_quietly(SIGCHLD);
		if (pid == 0)
			become_shell(argv, environment, sign, lifeline);
		_exit(pid < 0);
	}
	if (pid < 0)
		return -errno;
	while (waitpid((pid_t)pid, &status, __WCLONE) < 0) {
		if (errno != EINTR)
			return -errno;
	}
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -EAGAIN;
}

static int run_command(const struct command *c, const char *folder, const char *const *environment,
		       int sign, int lifeline)
{
	const char *argv[6 + ARGUMENTS + 1] = {"sh", "-c", wrapper, "sh", folder, c->script};
	sigset_t all, was;
	int ret;

	memcpy(&argv[6], c->arguments, c->count * sizeof(argv[0]));
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all,
			&was); /* no handler of the program may run in the child */
	ret = fork_twice(argv, environment, sign, lifeline);
	pthread_sigmask(SIG_SETMASK, &was, NULL);
	return ret;
}

static int open_pipe(struct ck_private_fd *from, struct ck_private_fd *to)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	ck_private_fd_take(from, ends[0], true);
	ck_private_fd_take(to, ends[1], true);
	return 0;
}

int ck_companion_start(const struct ck_address *address, const char *folder,
		       struct ck_private_fd *lifeline, struct ck_private_fd *sign)
{
	struct ck_private_fd their_lifeline = {0}, their_sign = {0};
	struct command *c = calloc(1, sizeof(*c));
	const char **environment = NULL;
	int ret = c ? 0 : -ENOMEM;

	*lifeline = *sign = (struct ck_private_fd){0};
	if (ret == 0) {
		if (address->kind == CK_ADDRESS_LOCAL)
			use_local(c, folder);
		else
			use_ssh(c, address, folder);
		environment = make_environment(c);
		ret = environment ? 0 : -ENOMEM;
	}
	if (ret == 0)
		ret = open_pipe(sign, &their_sign);
	if (ret == 0)
		ret = open_pipe(&their_lifeline, lifeline);
	if (ret == 0)
		ret = run_command(c, folder, environment, ck_private_fd_number(&their_sign),
				  ck_private_fd_number(&their_lifeline));
	ck_private_fd_close(&their_sign);
	ck_private_fd_close(&their_lifeline);
	if (ret < 0) {
		ck_private_fd_close(sign);
		ck_private_fd_close(lifeline);
	}
	free(environment);
	free(c);
	return ret;
}
