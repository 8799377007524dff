/*
 * command/run/emulate.c - see run.h.
 *
 * A process beside the program (side_process.h) starts the server, waits for the end of the
 * program, and then ends the server and removes its folder. If that process is killed, the server
 * ends too. A program that is a container engine may end before its container; then the process
 * lets the engine wait for the container.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "command/config/command.h"
#include "command/config/install_paths.h"
#include "command/run/ptxas.h"
#include "command/run/run.h"
#include "command/run/side_process.h"
#include "util/address/unixsock.h"
#include "util/env.h"
#include "util/log.h"
#include "util/process/fd.h"
#include "util/process/machine.h"
#include "util/until.h"
#include "util/util.h"

#define FOLDER "/cricket-emu.XXXXXX"
#define LONGEST_NAME "/s.status" /* of the files that the server makes beside its socket */
#define CONTAINER "container"	 /* the file for the container's id */
#define LOOK_MS 20		 /* between two looks whether the server has ended */
#define END_MS 10000		 /* for a server to end its workers */
#define CONTAINER_ID 128

/* Variables that are meant for the program, or for a process that systemd has started. */
static const char *const not_for_server[] = {
	"LD_PRELOAD", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "LISTEN_FDS", "WATCHDOG_USEC",
};

/* The variables of Cricket that the server reads. The program's client reports all others. */
static const char *const for_server[] = {
	"CRICKET_CACHE_DIR", "CRICKET_CACHE_SIZE", "CRICKET_DEBUG",	 "CRICKET_EMU",
	"CRICKET_LOG",	     "CRICKET_LOG_DROP",   "CRICKET_LOG_FORMAT", "CRICKET_SANDBOX",
};

struct keeper {
	char program[CKX_PATH]; /* the server's */
	char folder[CK_UNIX_PATH_MAX], socket[CK_UNIX_PATH_MAX], ready[CK_UNIX_PATH_MAX];
	int notices; /* a socket at @ready, which gets a datagram when the server is ready */
	pid_t server;
	const char *engine; /* the name of a container engine, which is the program; or NULL */
	int messages[2];    /* with an engine: a pipe for the server's standard error */
};

/* --- the folder */

static int make_folder(struct keeper *k)
{
	const char *const parents[] = {getenv("XDG_RUNTIME_DIR"), getenv("TMPDIR"), "/tmp"};
	int ret = -ENOENT;

	for (size_t i = 0; i < CK_ARRAY_SIZE(parents); i++) {
		if (!parents[i] || parents[i][0] != '/' ||
		    strlen(parents[i]) + strlen(FOLDER LONGEST_NAME) >= sizeof(k->folder))
			continue; /* the next may be shorter */
		snprintf(k->folder, sizeof(k->folder), "%s" FOLDER, parents[i]);
		if (mkdtemp(k->folder))
			return 0;
		ret = -errno;
	}
	ckx_error("no folder for the emulated GPU can be made in XDG_RUNTIME_DIR, TMPDIR or /tmp: "
		  "%s",
		  strerror(-ret));
	return ret;
}

static void remove_folder(const struct keeper *k)
{
	static const char *const left[] = {"s",	    "s.ctl",   "s.m3",	 "s.status",
					   "ready", CONTAINER, CKX_PTXAS};
	char path[CK_UNIX_PATH_MAX + 16];

	for (size_t i = 0; i < CK_ARRAY_SIZE(left); i++) {
		snprintf(path, sizeof(path), "%s/%s", k->folder, left[i]);
		unlink(path); /* a server that was killed leaves its sockets */
	}
	rmdir(k->folder);
}

/* A program of this name, which is this one. */
static int link_assembler(const struct keeper *k)
{
	char path[CK_UNIX_PATH_MAX + 16], own[CKX_PATH];
	ssize_t n = readlink("/proc/self/exe", own, sizeof(own) - 1);

	if (n < 0)
		return -errno;
	own[n] = '\0';
	snprintf(path, sizeof(path), "%s/" CKX_PTXAS, k->folder);
	return symlink(own, path) < 0 ? -errno : 0;
}

/* The server reports as it does to systemd (sd_notify(3)). */
static int open_notices(struct keeper *k)
{
	struct sockaddr_un address;
	int size, ret;

	snprintf(k->socket, sizeof(k->socket), "%.*s/s", (int)sizeof(k->socket) - 10, k->folder);
	snprintf(k->ready, sizeof(k->ready), "%.*s/ready", (int)sizeof(k->ready) - 10, k->folder);
	size = ck_unix_address(k->ready, &address);
	k->notices = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (k->notices >= 0 && size > 0 &&
	    bind(k->notices, (struct sockaddr *)&address, (socklen_t)size) == 0)
		return 0;
	ret = -errno;
	ckx_error("%s: %s", k->ready, strerror(-ret));
	return ret;
}

/* --- the server */

static bool is_for_server(const char *name)
{
	for (size_t i = 0; i < CK_ARRAY_SIZE(for_server); i++) {
		if (strcmp(for_server[i], name) == 0)
			return true;
	}
	for (const struct ck_env_word *w = ck_env_words(); w->list; w++) {
		if (w->old && strcmp(w->old, name) == 0)
			return w->sides & (CK_ENV_SERVER | CK_ENV_EMU);
	}
	return strncmp(name, "CRICKET_", strlen("CRICKET_")) != 0;
}

static void prepare_environment(const struct keeper *k)
{
	const char *log = getenv("CRICKET_LOG");
	char name[CKX_PATH];

	for (size_t i = 0; i < CK_ARRAY_SIZE(not_for_server); i++)
		unsetenv(not_for_server[i]);
	for (char **entry = environ; *entry;) {
		snprintf(name, sizeof(name), "%.*s", (int)strcspn(*entry, "="), *entry);
		if (is_for_server(name) || unsetenv(name) < 0)
			entry++;
	}
	if (!log || ck_log_check(log) < 0)
		setenv("CRICKET_LOG", "warning", 1);
	setenv("NOTIFY_SOCKET", k->ready, 1);
}

static void execute_server(const struct keeper *k, pid_t keeper)
{
	/* the folder keeps other users out, and those of a container have other ids */
	const char *mode = k->engine ? "0666" : "0600";
	const char *const arguments[] = {
		"cricket-rpc-server", "--driver", "emu",    "--listen", "none",
		"--socket-mode",      mode,	  "--unix", k->socket,	NULL};

	if (k->engine)
		dup2(k->messages[1], STDERR_FILENO);
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != keeper)
		_exit(CKX_FAILED);
	prepare_environment(k);
	execv(k->program, (char *const *)(uintptr_t)arguments);
	ckx_error("%s: %s", k->program, strerror(errno));
	_exit(CKX_CANNOT_RUN);
}

/* Has it ended? */
static bool server_ended(const struct keeper *k)
{
	pid_t got = waitpid(k->server, NULL, WNOHANG);

	return got == k->server || (got < 0 && errno == ECHILD);
}

static bool is_ready(const struct keeper *k)
{
	char text[256] = "";

	return recv(k->notices, text, sizeof(text) - 1, MSG_DONTWAIT) > 0 &&
	       strstr(text, "READY=1");
}

/* --- a container */

/* Print the server's messages. */
static void pass_on(const struct keeper *k)
{
	char text[4096];
	ssize_t n;

	while (k->engine && (n = read(k->messages[0], text, sizeof(text))) > 0) {
		if (ck_fd_write_full(STDERR_FILENO, text, (size_t)n) < 0)
			return;
	}
}

/* -errno, printed. */
static int open_messages(struct keeper *k)
{
	int ret = 0;

	if (k->engine &&
	    (pipe2(k->messages, O_CLOEXEC) < 0 || ck_fd_set_nonblock(k->messages[0], true) < 0)) {
		ret = -errno;
		ckx_error("the emulated GPU did not start: %s", strerror(errno));
	}
	return ret;
}

/* The id of the container, which the engine has written before it started it. */
static bool read_container(const struct keeper *k, char id[CONTAINER_ID])
{
	char path[CK_UNIX_PATH_MAX + 16];
	ssize_t n = -1;
	int fd;

	snprintf(path, sizeof(path), "%s/" CONTAINER, k->folder);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		n = ck_fd_read_most(fd, id, CONTAINER_ID - 1);
		close(fd);
	}
	id[ck_max(n, (ssize_t)0)] = '\0';
	return id[0] && id[strspn(id, "0123456789abcdef")] == '\0';
}

/* Start `ENGINE wait`, which ends with the container. 0: there is no container. Nothing is printed
 * from now on: a pipe to which this process writes would stay open. */
static pid_t wait_for_container(const struct keeper *k)
{
	char id[CONTAINER_ID];
	pid_t child;

	dup2(STDIN_FILENO, STDERR_FILENO); /* /dev/null */
	if (!read_container(k, id))
		return 0;
	child = fork();
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGTERM);
		execlp(k->engine, k->engine, "wait", id, NULL);
		_exit(CKX_CANNOT_RUN);
	}
	return ck_max(child, 0);
}

/* Until the engine's command and its container have ended, or the server has. */
static void attend_container(struct keeper *k, const struct ckx_side_process *aside)
{
	struct pollfd p[] = {{.fd = k->messages[0], .events = POLLIN},
			     {.fd = aside->watch, .events = POLLIN}};
	pid_t awaited = aside->program;

	close(k->messages[1]);
	while (awaited > 0 && !(p[0].revents & POLLHUP)) {
		poll(p, CK_ARRAY_SIZE(p), p[1].fd < 0 ? LOOK_MS : -1);
		pass_on(k);
		if (p[1].fd >= 0 ? !p[1].revents : !ck_machine_ended(awaited))
			continue;
		if (p[1].fd >= 0)
			close(p[1].fd);
		awaited = awaited == aside->program ? wait_for_container(k) : 0;
		p[1] = (struct pollfd){.fd = awaited ? ck_machine_watch(awaited) : -1,
				       .events = POLLIN};
	}
}

/* --- the process beside the program */

/* -ECANCELED: the program has ended meanwhile. */
static int wait_until_ready(const struct keeper *k, const struct ckx_side_process *aside)
{
	struct pollfd p[] = {{.fd = k->notices, .events = POLLIN},
			     {.fd = aside->watch, .events = POLLIN}};

	while (!is_ready(k)) {
		pass_on(k);
		if (server_ended(k)) {
			ckx_error("the emulated GPU did not start: %s has ended", k->program);
			return -EIO;
		}
		if (poll(p, CK_ARRAY_SIZE(p), LOOK_MS) > 0 && p[1].revents)
			return -ECANCELED;
	}
	return 0;
}

static int start_server(struct keeper *k)
{
	pid_t keeper = getpid();

	k->server = fork();
	if (k->server == 0)
		execute_server(k, keeper);
	if (k->server > 0)
		return 0;
	ckx_error("the emulated GPU did not start: %s", strerror(errno));
	return -EAGAIN;
}

static void end_server(const struct keeper *k)
{
	int64_t until = ck_now_ms() + END_MS;

	kill(k->server, SIGTERM);
	while (!server_ended(k)) {
		if (ck_now_ms() > until)
			kill(k->server, SIGKILL);
		usleep(LOOK_MS * 1000);
	}
}

/* The caller of ckx_emulate reads the path, or the end of the file: it did not work. */
static void keep_server(const struct ckx_side_process *aside, void *argument)
{
	struct keeper *k = argument;

	if (make_folder(k) < 0)
		return;
	if (link_assembler(k) == 0 && open_notices(k) == 0 && open_messages(k) == 0 &&
	    start_server(k) == 0) {
		signal(SIGPIPE, SIG_IGN);
		if (wait_until_ready(k, aside) == 0 &&
		    write(aside->pipe, k->socket, strlen(k->socket)) > 0) {
			close(aside->pipe);
			if (k->engine)
				attend_container(k, aside);
			else
				ckx_side_process_wait(aside);
		}
		if (!server_ended(k))
			end_server(k);
	}
	remove_folder(k);
}

static int read_paths(int fd, struct ckx_emulated *out)
{
	char socket[CK_UNIX_PATH_MAX];
	int folder;
	ssize_t n;

	do {
		n = read(fd, socket, sizeof(socket) - 1);
	} while (n < 0 && errno == EINTR);
	if (n <= 0)
		return -EIO;
	socket[n] = '\0';
	folder = (int)(strrchr(socket, '/') - socket);
	snprintf(out->address, sizeof(out->address), "%s:%s",
		 ck_env_word_number("CRICKET_DEBUG", "shm") ? "shm" : "unix", socket);
	snprintf(out->assembler, sizeof(out->assembler), "%.*s/" CKX_PTXAS, folder, socket);
	snprintf(out->container, sizeof(out->container), "%.*s/" CONTAINER, folder, socket);
	return 0;
}

int ckx_emulate(const char *engine, struct ckx_emulated *emulated)
{
	static struct keeper keeper;
	struct ckx_side_process aside = {
		.name = "cricket-emu", .speaks = true, .work = keep_server};
	int ends[2], ret = ckx_install_path_server(keeper.program);

	if (ret < 0)
		return ret;
	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	keeper.engine = engine;
	aside.pipe = ends[1];
	ret = ckx_side_process_start(&aside, &keeper);
	if (ret < 0)
		ckx_error("the emulated GPU did not start: %s", strerror(-ret));
	close(ends[1]);
	if (ret == 0)
		ret = read_paths(ends[0], emulated);
	close(ends[0]);
	return ret;
}
