/*
 * command/sessions/move.c - `cricket move`: the server's program does it, as the connection to the
 * other machine belongs to the user who asks (server/control/ctl_move.c); a terminal shows how far
 * it is.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "command/config/command.h"
#include "command/config/install_paths.h"
#include "command/sessions/control.h"
#include "command/sessions/local.h"
#include "command/sessions/wait_display.h"

#define PROGRAM "cricket-rpc-server"
#define WORDS 12

/* The server's program: beside this one, or on PATH. */
static void find_program(char path[CKX_PATH])
{
	ssize_t n = readlink("/proc/self/exe", path, CKX_PATH - sizeof(PROGRAM) - 1);
	char *slash;

	path[n > 0 ? n : 0] = '\0';
	slash = strrchr(path, '/');
	if (slash)
		strcpy(slash + 1, PROGRAM);
	if (!slash || access(path, X_OK) < 0)
		strcpy(path, PROGRAM);
}

/* Start @words, with a pipe at its standard output: the process, or -errno. */
static pid_t start_process(const char *const *words, int *out)
{
	int ends[2];
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	pid = fork();
	if (pid == 0) {
		if (dup2(ends[1], STDOUT_FILENO) < 0)
			_exit(126);
		execvp(words[0], (char *const *)(uintptr_t)words);
		ckx_error("%s: %s", words[0], strerror(errno));
		_exit(127);
	}
	close(ends[1]);
	*out = ends[0];
	if (pid < 0) {
		close(ends[0]);
		return -errno;
	}
	return pid;
}

/* Wait for it, pass its output on: the exit status. */
static int finish_process(pid_t pid, int out, const char *what)
{
	char text[4096];
	int status = 0;
	ssize_t n;

	ckx_wait_show(out, what, NULL);
	while ((n = read(out, text, sizeof(text))) > 0 || (n < 0 && errno == EINTR)) {
		if (n > 0)
			fwrite(text, 1, (size_t)n, stdout);
	}
	close(out);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? CKX_OK : CKX_FAILED;
}

/* The line for a terminal; and the path of the control socket, which lies beside the one of status.
 * -errno, printed. */
static int describe_move(const char *server, const char *session, char what[CKX_WAIT_TEXT],
			 char control[CK_UNIX_PATH_MAX + 8])
{
	struct ckx_local local;
	int ret = ckx_control_find(server, &local);
	json_t *status;

	if (ret < 0)
		return ret;
	snprintf(control, CK_UNIX_PATH_MAX + 8, "%s.ctl", local.stem);
	if (access(control, F_OK) < 0) /* --ctl-socket without this suffix */
		strcpy(control, local.stem);
	status = ckx_control_try(local.fd, json_pack("{s:s}", "command", "status"));
	ckx_wait_text("move", session, status, what);
	json_decref(status);
	close(local.fd);
	return 0;
}

int ckx_move(const struct ckx_command *self, int argc, char **argv)
{
	static const struct option options[] = {{"server", required_argument, NULL, 's'},
						{NULL, 0, NULL, 0}};
	char program[CKX_PATH], what[CKX_WAIT_TEXT], control[CK_UNIX_PATH_MAX + 8];
	const char *named = NULL, *words[WORDS] = {program};
	int option, out, count;
	size_t n = 1;
	pid_t pid;

	while ((option = getopt_long(argc, argv, "s:", options, NULL)) != -1) {
		if (option == '?')
			return ckx_usage(self);
		named = optarg;
	}
	count = argc - optind;
	if (count < 2 || count > 3)
		return ckx_usage(self);
	for (int i = optind; i < argc; i++) {
		if (!*argv[i]) {
			ckx_error("move: argument %d is empty", i - optind + 1);
			return CKX_USAGE;
		}
	}
	if (describe_move(named, argv[optind], what, control) < 0)
		return CKX_FAILED;
	find_program(program);
	words[n++] = "--ctl-socket";
	words[n++] = control;
	words[n++] = "--ctl";
	words[n++] = "move";
	for (int i = 0; i < count; i++)
		words[n++] = argv[optind + i];
	pid = start_process(words, &out);
	if (pid < 0) {
		ckx_error("no process for the move: %s", strerror(-pid));
		return CKX_FAILED;
	}
	return finish_process(pid, out, what);
}
