/*
 * command/run/findings.c - see run.h.
 *
 * This process stays beside the program, its child, and reads the output of the emulated GPU's
 * server to standard error. That pipe ends when the server and its workers have ended, so nothing
 * is missed. A finding is a line of emu/ptx/memory/check_report.c or emu/ptx/run/fault.c.
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "command/config/command.h"
#include "command/run/run.h"
#include "util/env.h"
#include "util/util.h"

#define CHECKS "check=race+init+bounds"
#define LOOK_MS 10

struct findings {
	char **keys; /* of the findings so far */
	size_t count;
};

/* The beginning of a report's line, and its kind. */
static const struct {
	const char *head, *kind;
} kinds[] = {{"WARNING: race: kernel ", "race"},
	     {"WARNING: uninitialised: kernel ", "uninitialised"},
	     {"ERROR: kernel ", "fault"}};

/* For the handlers of signals. */
static volatile pid_t program;
static volatile int program_status = -1;

/* The text of a finding from "kernel" on, and its kind; NULL: it is another line. */
static const char *find_finding(const char *line, const char **kind)
{
	for (size_t i = 0; i < CK_ARRAY_SIZE(kinds); i++) {
		const char *at = strstr(line, kinds[i].head);

		*kind = kinds[i].kind;
		if (at)
			return strstr(at, "kernel ");
	}
	return NULL;
}

/* The number at @at changes from run to run: it is not part of a name, nor a line of a text. */
static bool varies(const char *text, const char *at)
{
	if (at == text || !isdigit((unsigned char)*at))
		return false;
	if (isalnum((unsigned char)at[-1]) || strchr("_$.:-/", at[-1]))
		return false;
	return at - text < 5 || strncmp(at - 5, "line ", 5) != 0;
}

/* Two findings with the same key are one: kernel and lines, without threads and addresses. */
static void make_key(const char *text, char *key)
{
	const char *at = text;

	while (*at) {
		if (varies(text, at))
			at += strspn(at, "0123456789abcdefx");
		else
			*key++ = *at++;
	}
	*key = '\0';
}

/* 1: it is new. */
static int add_finding(struct findings *f, const char *kind, const char *text)
{
	size_t size = strlen(kind);
	char *key = malloc(size + strlen(text) + 1), **grown;

	if (!key)
		return -ENOMEM;
	memcpy(key, kind, size);
	make_key(text, key + size);
	for (size_t i = 0; i < f->count; i++) {
		if (strcmp(f->keys[i], key) == 0) {
			free(key);
			return 0;
		}
	}
	grown = reallocarray(f->keys, f->count + 1, sizeof(*f->keys));
	if (!grown) {
		free(key);
		return -ENOMEM;
	}
	f->keys = grown;
	f->keys[f->count++] = key;
	return 1;
}

static void read_server(FILE *server, struct findings *f)
{
	char *line = NULL;
	size_t room = 0;
	ssize_t n;

	while ((n = getline(&line, &room, server)) > 0) {
		const char *text, *kind;

		if (line[n - 1] == '\n')
			line[n - 1] = '\0';
		text = find_finding(line, &kind);
		if (!text)
			fprintf(stderr, "%s\n", line);
		else if (add_finding(f, kind, text) != 0)
			ckx_error("%s: %s", kind, text);
	}
	free(line);
}

static void forward_signal(int number)
{
	if (program_status < 0)
		kill(program, number);
}

/* At once: the server ends when the program has gone, of which a kernel without pidfds asks by its
 * id. */
static void take_status(int number)
{
	int status, saved = errno;

	(void)number;
	if (waitpid(-1, &status, WNOHANG) > 0)
		program_status = status;
	errno = saved;
}

/* The terminal's signals reach the program by themselves. */
static void prepare_signals(void)
{
	struct sigaction forward = {.sa_handler = forward_signal, .sa_flags = SA_RESTART};

	signal(SIGINT, SIG_IGN);
	signal(SIGQUIT, SIG_IGN);
	sigaction(SIGTERM, &forward, NULL);
	sigaction(SIGHUP, &forward, NULL);
}

static __attribute__((noreturn)) void watch_program(int fd)
{
	struct findings f = {.count = 0};
	FILE *server = fdopen(fd, "r");
	int status;

	prepare_signals();
	if (server)
		read_server(server, &f);
	while (program_status < 0)
		usleep(LOOK_MS * 1000); /* it does without the server */
	status = program_status;
	status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
	if (f.count == 0)
		ckx_error("the checks found nothing");
	else
		ckx_error("the checks found %zu %s", f.count, f.count == 1 ? "error" : "errors");
	exit(f.count ? CKX_FOUND : status);
}

/* As the server of this process will read it. */
static int set_checks(void)
{
	char own[64];
	int ret = 0;

	if (ck_env_word("CRICKET_EMU", "check", own, sizeof(own)) < 0 || !*own)
		ret = ck_env_list_add("CRICKET_EMU", CHECKS);
	/* every allocation is the GPU's own, so that what is between them can be seen */
	if (ret == 0)
		ret = ck_env_list_add("CRICKET_DEBUG", "no-arena");
	/* a level that hides warnings hides no findings */
	if (ret == 0 && getenv("CRICKET_LOG"))
		ret = ck_env_list_add("CRICKET_LOG", "emu:warning");
	/* every line is read at once, as text: none needs to be left out */
	if (ret == 0 &&
	    (setenv("CRICKET_LOG_DROP", "0", 1) < 0 || setenv("CRICKET_LOG_FORMAT", "text", 1) < 0))
		ret = -errno;
	return ret;
}

int ckx_findings_begin(void)
{
	struct sigaction reap = {.sa_handler = take_status, .sa_flags = SA_RESTART | SA_NOCLDSTOP};
	pid_t parent = getpid();
	int ends[2], own, ret = set_checks();

	if (ret == 0 && pipe2(ends, O_CLOEXEC) < 0)
		ret = -errno;
	if (ret < 0)
		return ret;
	sigaction(SIGCHLD, &reap, NULL);
	program = fork();
	if (program > 0) {
		close(ends[1]);
		watch_program(ends[0]);
	}
	own = program < 0 ? -errno : fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
	if (program == 0) {
		signal(SIGCHLD, SIG_DFL);
		prctl(PR_SET_PDEATHSIG, SIGTERM);
		if (getppid() != parent)
			_exit(CKX_FAILED);
		dup2(ends[1], STDERR_FILENO);
	}
	close(ends[0]);
	close(ends[1]);
	return own;
}

void ckx_findings_started(int own)
{
	dup2(own, STDERR_FILENO);
	close(own);
}
