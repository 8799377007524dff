/*
 * command/snapshot/program.c - see program.h.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "command/config/command.h"
#include "command/snapshot/program.h"
#include "command/sessions/control.h"
#include "util/process/proc_file.h"
#include "util/until.h"
#include "util/util.h"

#define LOOK_MS 50    /* between two looks at a file or a server */
#define SOCKETS 16384 /* with one peer, on this host */
#define CUT_MS 30000  /* for the program to notice that its connections are closed */
#define CUT_LOOK_MS 5
#define HOST_NAME 256
#define HOST_SHOWN 63 /* bytes of a name that the server shows, at least */

/* --- start */

static _Noreturn void become_program(char **argv, const int others[CKX_PIPES], const sigset_t *old)
{
	setsid();
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	sigprocmask(SIG_SETMASK, old, NULL);
	for (int i = 0; i < CKX_PIPES; i++) {
		if (dup2(others[i], i) < 0)
			_exit(CKX_CANNOT_RUN);
	}
	execvp(argv[0], argv);
	ckx_error("%s: %s", argv[0], strerror(errno));
	_exit(errno == ENOENT ? CKX_NOT_FOUND : CKX_CANNOT_RUN);
}

/* How CRIU's files name them. */
static int name_pipes(const struct ckx_pipes *p, struct ckx_images *images)
{
	struct stat st;

	for (int i = 0; i < CKX_PIPES; i++) {
		if (fstat(p->ends[i], &st) < 0)
			return -errno;
		images->pipes[i] = st.st_ino;
	}
	return 0;
}

int ckx_program_start(struct ckx_program *p, char **argv, struct ckx_images *images)
{
	int ret = ckx_pipes_make(&p->pipes, false);
	sigset_t set, old;

	prctl(PR_SET_CHILD_SUBREAPER, 1);
	sigemptyset(&set);
	for (size_t i = 0; i < 5; i++)
		sigaddset(&set, (const int[]){SIGUSR1, SIGINT, SIGTERM, SIGHUP, SIGCHLD}[i]);
	sigprocmask(SIG_BLOCK, &set, &old);
	p->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (ret == 0)
		ret = p->signals < 0 ? -errno : name_pipes(&p->pipes, images);
	p->pid = ret == 0 ? fork() : -1;
	if (p->pid == 0)
		become_program(argv, p->pipes.others, &old);
	if (p->pid < 0) {
		ret = ret ? ret : -errno;
		ckx_error("no process for the program: %s", strerror(-ret));
		return ret;
	}
	ckx_pipes_close_others(&p->pipes);
	return 0;
}

/* --- its processes */

static pid_t parent_of(pid_t pid)
{
	struct ck_proc_stat stat;

	return ck_proc_stat(pid, &stat) == 0 ? stat.parent : 0;
}

/* Is it below this process, which adopts those whose parents have ended? */
static bool is_ours(pid_t pid)
{
	const pid_t own = getpid();

	do
		pid = parent_of(pid);
	while (pid > 1 && pid != own);
	return pid == own;
}

/* Call @act with each of the program's processes, until it returns true. */
static bool any_process(bool (*act)(pid_t pid, const void *data), const void *data)
{
	DIR *dir = opendir("/proc");
	struct dirent *entry;
	bool found = false;

	while (dir && !found && (entry = readdir(dir))) {
		pid_t pid = atoi(entry->d_name);

		found = pid > 0 && is_ours(pid) && act(pid, data);
	}
	if (dir)
		closedir(dir);
	return found;
}

static bool kill_process(pid_t pid, const void *unused)
{
	(void)unused;
	kill(pid, SIGKILL);
	return false;
}

void ckx_program_end(struct ckx_program *p)
{
	do
		any_process(kill_process, NULL);
	while (waitpid(-1, NULL, 0) > 0 || errno == EINTR);
	p->pid = -1;
	ckx_pipes_end(&p->pipes);
}

/* --- until it is ready */

/* 0, 1: SIGUSR1 has come; -ECHILD, -EINTR. */
static int read_signals(struct ckx_program *p)
{
	struct signalfd_siginfo info;
	int ret = 0;

	while (read(p->signals, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
		if (info.ssi_signo == SIGUSR1)
			ret = 1;
		else if (info.ssi_signo != SIGCHLD)
			return -EINTR;
	}
	if (waitpid(p->pid, &p->status, WNOHANG) != p->pid)
		return ret;
	p->pid = -1;
	return -ECHILD;
}

int ckx_program_wait(struct ckx_program *p, const struct ckx_ready *ready)
{
	int timeout = ready->kind == CKX_READY_SIGNAL ? -1 : LOOK_MS;

	for (;;) {
		struct pollfd fds[CKX_PIPES + 1];
		int came;

		ckx_pipes_poll(&p->pipes, fds);
		fds[CKX_PIPES] = (struct pollfd){.fd = p->signals, .events = POLLIN};
		poll(fds, CK_ARRAY_SIZE(fds), timeout);
		ckx_pipes_pass(&p->pipes, fds);
		came = read_signals(p);
		if (came == -ECHILD) {
			ckx_program_end(p);
			ckx_error("the program has ended before it was ready (status %d)",
				  WIFEXITED(p->status) ? WEXITSTATUS(p->status)
						       : 128 + WTERMSIG(p->status));
		}
		if (came < 0)
			return came;
		if (ckx_ready_now(ready, came > 0))
			return 0;
	}
}

/* --- its connections */

struct sockets {
	unsigned long list[SOCKETS];
	size_t count;
};

/* Add the sockets of this host that @file, as /proc/net/tcp, lists with a peer at @port. */
static void find_connected(const char *file, int port, struct sockets *all)
{
	FILE *f = fopen(file, "re");
	char line[512];

	while (f && fgets(line, sizeof(line), f)) {
		unsigned long inode;
		unsigned int at;

		if (sscanf(line,
			   " %*u: %*[0-9A-Fa-f]:%*x %*[0-9A-Fa-f]:%x %*x %*x:%*x %*x:%*x %*x %*u "
			   "%*d %lu",
			   &at, &inode) == 2 &&
		    (int)at == port && inode > 0 && all->count < SOCKETS)
			all->list[all->count++] = inode;
	}
	if (f)
		fclose(f);
}

static bool is_in(const struct sockets *all, unsigned long inode)
{
	for (size_t i = 0; i < all->count; i++) {
		if (all->list[i] == inode)
			return true;
	}
	return false;
}

static bool has_socket(pid_t pid, const void *sockets)
{
	char folder[32], text[64];
	struct dirent *entry;
	unsigned long inode;
	bool found = false;
	DIR *dir;

	snprintf(folder, sizeof(folder), "/proc/%d/fd", (int)pid);
	dir = opendir(folder);
	while (dir && !found && (entry = readdir(dir))) {
		ssize_t n = readlinkat(dirfd(dir), entry->d_name, text, sizeof(text) - 1);

		text[n > 0 ? n : 0] = '\0';
		found = sscanf(text, "socket:[%lu]", &inode) == 1 && is_in(sockets, inode);
	}
	if (dir)
		closedir(dir);
	return found;
}

int ckx_program_cut(int port)
{
	static struct sockets all;
	int64_t end = ck_now_ms() + CUT_MS;

	for (;;) {
		all.count = 0;
		find_connected("/proc/net/tcp", port, &all);
		find_connected("/proc/net/tcp6", port, &all);
		if (!any_process(has_socket, &all))
			return 0;
		if (ck_now_ms() > end)
			return ckx_error("the program keeps connections to the server"), -ETIMEDOUT;
		poll(NULL, 0, CUT_LOOK_MS);
	}
}

/* Is the client on this host? Process ids are those of its host. The server cuts a long name. */
static bool is_here(const json_t *row)
{
	const char *host = json_string_value(json_object_get(row, "host"));
	char own[HOST_NAME] = "";

	gethostname(own, sizeof(own) - 1);
	return host && *host && strncmp(host, own, strlen(host)) == 0 &&
	       (strlen(own) == strlen(host) || strlen(host) >= HOST_SHOWN);
}

int ckx_program_sessions(int fd, char names[][32], size_t room)
{
	json_t *status = ckx_control_ask(fd, json_pack("{s:s}", "command", "status")), *row;
	size_t count = 0, i;

	if (!status)
		return -EIO;
	json_array_foreach(json_object_get(status, "sessions"), i, row)
	{
		const char *name = json_string_value(json_object_get(row, "session"));
		pid_t pid = (pid_t)json_integer_value(json_object_get(row, "client_pid"));

		if (!name || !is_here(row) || !is_ours(pid))
			continue;
		if (count == room) {
			json_decref(status);
			return ckx_error("the program has more than %zu sessions", room), -E2BIG;
		}
		snprintf(names[count++], sizeof(names[0]), "%s", name);
	}
	json_decref(status);
	if (count == 0)
		return ckx_error("the program has no session with this server yet"), -ENOENT;
	return (int)count;
}
