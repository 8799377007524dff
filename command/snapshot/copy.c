/*
 * command/snapshot/copy.c - `cricket run --from NAME`: a copy of a program that was written.
 *
 * Its sessions come first, with new names, then its processes: as children of the init process of
 * their PID namespace. In the mount namespace of that, the file that names the server has the
 * copy's names.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "command/config/command.h"
#include "command/run/settings.h"
#include "command/run/side_process.h"
#include "command/sessions/control.h"
#include "command/snapshot/files.h"
#include "command/snapshot/named_server.h"
#include "command/snapshot/process_images.h"
#include "util/process/available_memory.h"
#include "util/process/fd.h"
#include "util/process/pid_namespace.h"

#define NAMES 512 /* bytes of a line for the client */

struct copy {
	struct ckx_snapshot files;
	const char *option; /* -s, or NULL: the server of the snapshot */
	const char *of;	    /* that one, of json */
	json_t *about;
	struct ckx_images images;
	struct ckx_pipes pipes;
	char address[CKX_TEXT];
	char folder[CKX_PATH], named[CKX_PATH];
	char room[64]; /* a folder of this copy */
	char own[80], log[80];
	char sessions[CKX_SNAPSHOT_SESSIONS][32]; /* their names on the server */
	int session_count;
	pid_t pid;
	int signals; /* a signalfd for those that are passed on */
};

/* --- the content of the files */

static int read_about(struct copy *c)
{
	json_int_t pipes[CKX_PIPES], memory;

	c->about = ckx_snapshot_read(&c->files);
	if (!c->about)
		return -EINVAL;
	if (json_unpack(c->about, "{s:s, s:i, s:i, s:I, s:[I, I, I]}", "server", &c->of, "pid",
			&c->pid, "sessions", &c->session_count, "memory", &memory, "pipes",
			&pipes[0], &pipes[1], &pipes[2]) < 0 ||
	    strlen(c->of) >= sizeof(c->address) || c->session_count < 1 ||
	    c->session_count > CKX_SNAPSHOT_SESSIONS)
		return ckx_error("%s/snapshot.json: it is damaged", c->files.folder), -EBADMSG;
	for (int i = 0; i < CKX_PIPES; i++)
		c->images.pipes[i] = (unsigned long)pipes[i];
	if ((uint64_t)memory > ck_available_memory() && ck_available_memory() > 0)
		return ckx_error("snapshot %s needs %lld MiB of memory, and %llu MiB are free here",
				 c->files.name, (long long)memory >> 20,
				 (unsigned long long)ck_available_memory() >> 20),
		       -ENOMEM;
	return ckx_snapshot_verify(&c->files, c->about);
}

static int make_room(struct copy *c)
{
	snprintf(c->room, sizeof(c->room), "/tmp/cricket-copy-XXXXXX");
	if (!mkdtemp(c->room)) {
		c->room[0] = '\0';
		return ckx_error("%s: %s", "/tmp", strerror(errno)), -EIO;
	}
	snprintf(c->own, sizeof(c->own), "%s/server", c->room);
	snprintf(c->log, sizeof(c->log), "%s/restore.log", c->room);
	c->images.folder = ckx_snapshot_path(&c->files, "program", c->folder);
	c->images.log = c->log;
	ckx_snapshot_path(&c->files, "server", c->named);
	return 0;
}

static void remove_room(const struct copy *c)
{
	if (!c->room[0])
		return;
	unlink(c->own);
	unlink(c->log);
	rmdir(c->room);
}

/* --- its sessions */

/* Make session @i; *@line: the line for its client. */
static int restore_session(struct copy *c, int control, int i, char line[NAMES])
{
	char name[32], folder[CKX_PATH];
	const char *session, *of, *names, *secret;
	json_t *reply;
	int ret;

	snprintf(name, sizeof(name), "session-%d", i);
	reply = ckx_control_ask(control,
				json_pack("{s:s, s:s, s:b}", "command", "restore", "directory",
					  ckx_snapshot_path(&c->files, name, folder), "copy", 1));
	if (!reply)
		return -EIO;
	ret = json_unpack(reply, "{s:s, s:s, s:s, s:s}", "session", &session, "of", &of, "names",
			  &names, "secret", &secret);
	if (ret < 0) {
		json_decref(reply);
		return ckx_error("the server's release is too old for copies of programs"), -EPROTO;
	}
	snprintf(c->sessions[i], sizeof(c->sessions[i]), "%s", session);
	snprintf(line, NAMES, "copy %s %s %s\n", of, names, secret);
	json_decref(reply);
	return 0;
}

/* End those that their program has not ended: it was killed, or was never there. */
static void end_sessions(const struct copy *c)
{
	int control = ckx_control_reopen(c->option ? c->option : c->of);

	for (int i = 0; control >= 0 && i < CKX_SNAPSHOT_SESSIONS && c->sessions[i][0]; i++)
		json_decref(ckx_control_try(control, json_pack("{s:s, s:s}", "command", "end",
							       "session", c->sessions[i])));
	if (control >= 0)
		close(control);
}

static int restore_sessions(struct copy *c)
{
	int control = ckx_control_open(c->option ? c->option : c->of);
	int ret = control < 0 ? control : 0;
	FILE *out = ret == 0 ? fopen(c->own, "wxe") : NULL;
	char line[NAMES];

	if (ret == 0 && !out)
		ret = (ckx_error("%s: %s", c->own, strerror(errno)), -EIO);
	for (int i = 0; ret == 0 && i < c->session_count; i++) {
		ret = restore_session(c, control, i, line);
		if (ret == 0)
			fprintf(out, "%s %s", c->address, line);
	}
	explicit_bzero(line, sizeof(line));
	if (out && fclose(out) != 0 && ret == 0)
		ret = (ckx_error("%s: %s", c->own, strerror(errno)), -EIO);
	if (control >= 0)
		close(control);
	return ret;
}

/* --- its processes */

/* The init process of their namespace: ends as the program does. Signals of this command are
 * blocked in it, and those of the program are as they were. */
static _Noreturn void be_init(struct copy *c, int out)
{
	const char *what = "a namespace for the copy";
	int status, ret;
	pid_t pid = -1, ended;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setsid();
	ckx_pipes_close_ends(&c->pipes);
	ret = ck_pid_namespace_begin(ckx_images_highest(&c->images));
	if (ret == 0 && mount(c->own, c->named, NULL, MS_BIND, NULL) < 0) {
		what = c->named;
		ret = -errno;
	}
	if (ret < 0)
		ckx_error("%s: %s", what, strerror(-ret));
	else
		pid = ckx_images_restore(&c->images, c->pipes.others);
	ck_fd_write_full(out, &pid, sizeof(pid));
	if (pid < 0)
		_exit(CKX_FAILED);
	ckx_pipes_close_others(&c->pipes);
	while ((ended = wait(&status)) != pid) {
		if (ended < 0 && errno != EINTR)
			_exit(CKX_FAILED);
	}
	ck_fd_write_full(out, &status, sizeof(status));
	_exit(0);
}

/* Pass on signals to process @pid (-errno: it has ended already), and bytes of pipes, until
 * @end can be read. */
static void serve_process(struct copy *c, int end, pid_t pid)
{
	struct pollfd fds[CKX_PIPES + 2];
	struct signalfd_siginfo info;

	do {
		ckx_pipes_poll(&c->pipes, fds);
		fds[CKX_PIPES] = (struct pollfd){.fd = c->signals, .events = POLLIN};
		fds[CKX_PIPES + 1] = (struct pollfd){.fd = end, .events = POLLIN};
		poll(fds, CKX_PIPES + 2, -1);
		ckx_pipes_pass(&c->pipes, fds);
		if (fds[CKX_PIPES].revents &&
		    read(c->signals, &info, sizeof(info)) == (ssize_t)sizeof(info) && pid > 0)
			kill(pid, (int)info.ssi_signo);
	} while (!fds[CKX_PIPES + 1].revents);
}

/* End as the program did. */
static int end_as(int status)
{
	const struct rlimit no_core = {0, 0};
	sigset_t none;

	if (!WIFSIGNALED(status))
		return WEXITSTATUS(status);
	setrlimit(RLIMIT_CORE, &no_core);
	signal(WTERMSIG(status), SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	return -WTERMSIG(status);
}

/* Make the processes and wait for them: the exit status, or the negative signal. */
static int run_processes(struct copy *c)
{
	int ends[2], status = 0, unknown = CKX_FAILED << 8;
	pid_t init, pid = -1;

	if (ckx_pipes_make(&c->pipes, true) < 0 || pipe2(ends, O_CLOEXEC) < 0 ||
	    ck_pid_namespace_create(false) < 0)
		return ckx_error("a namespace for the copy: %s", strerror(errno));
	init = fork();
	if (init == 0)
		be_init(c, ends[1]);
	close(ends[1]);
	ckx_pipes_close_others(&c->pipes);
	if (init < 0)
		return ckx_error("no process for the copy: %s", strerror(errno));
	if (ck_fd_read_full(ends[0], &pid, sizeof(pid)) < 0)
		pid = -1;
	if (pid > 0) {
		serve_process(c, ends[0], ck_pid_namespace_outer(init, pid));
		if (ck_fd_read_full(ends[0], &status, sizeof(status)) < 0)
			status = SIGKILL; /* init was killed */
	}
	while (waitpid(init, NULL, 0) < 0 && errno == EINTR)
		;
	ckx_pipes_end(&c->pipes);
	return end_as(pid > 0 ? status : unknown);
}

static int hold_signals(struct copy *c)
{
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < 6; i++)
		sigaddset(&set,
			  (const int[]){SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2}[i]);
	sigprocmask(SIG_BLOCK, &set, NULL);
	c->signals = signalfd(-1, &set, SFD_CLOEXEC);
	return c->signals < 0 ? (ckx_error("signals: %s", strerror(errno)), -EMFILE) : 0;
}

/* This command may be killed. */
static void end_after(const struct ckx_side_process *aside, void *copy)
{
	ckx_side_process_wait(aside);
	end_sessions(copy);
	remove_room(copy);
}

static int run_copy(struct copy *c)
{
	struct ckx_side_process aside = {.name = "cricket-reap", .pipe = -1, .work = end_after};
	int port;
	int ret = ckx_images_check();

	if (ret == 0)
		ret = read_about(c);
	if (ret == 0)
		ret = c->option ? ckx_named_server_find(c->option, c->address, &port)
				: (strcpy(c->address, c->of), 0);
	if (ret == 0)
		ret = make_room(c);
	if (ret == 0)
		ret = hold_signals(c);
	if (ret == 0)
		ret = restore_sessions(c);
	if (ret == 0)
		ckx_side_process_start(&aside, c); /* else the server waits for the program */
	ret = ret == 0 ? run_processes(c) : CKX_FAILED;
	end_sessions(c);
	remove_room(c);
	json_decref(c->about);
	return ret;
}

/* `cricket run`, with a program or --from. */
int ckx_run_any(const struct ckx_command *self, int argc, char **argv)
{
	static struct copy c;
	struct ckx_wishes w;
	int ret;

	if (ckx_settings_parse(argc, argv, &w) < 0 || w.at)
		return ckx_usage(self);
	if (!w.from) {
		optind = 0; /* getopt begins anew */
		return ckx_run(self, argc, argv);
	}
	if (optind < argc || w.gpus || w.devices || w.memory || w.wait || w.sm || w.prefix ||
	    w.format || w.profile || w.nccl || w.check) {
		ckx_error("--from goes with --server alone: a copy has program and options of its "
			  "snapshot");
		return CKX_USAGE;
	}
	c.option = w.server;
	if (ckx_snapshot_find(w.from, &c.files) < 0)
		return CKX_USAGE;
	umask(077);
	ret = run_copy(&c);
	if (ret >= 0)
		return ret;
	raise(-ret); /* as the program */
	return 128 - ret;
}
