/*
 * m3/server_main.c - m3-server: the broker alone, without a Cricket server; see its man page.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "m3/broker.h"
#include "util/env.h"
#include "util/log.h"
#include "util/process/output.h"

CK_LOG_DEFINE("m3");

#define IDLE_MAX 1000000
#define READY_MS 60000 /* a driver whose GPUs sleep takes seconds */

enum {
	OPT_SOCKET = 256,
	OPT_MODE,
	OPT_DRIVER,
	OPT_QUOTA,
	OPT_REGIONS,
	OPT_IDLE,
	OPT_DETACH,
	OPT_LOG,
	OPT_HELP,
	OPT_VERSION
};

static const struct option long_options[] = {
	{"socket", required_argument, NULL, OPT_SOCKET},
	{"mode", required_argument, NULL, OPT_MODE},
	{"driver", required_argument, NULL, OPT_DRIVER},
	{"quota", required_argument, NULL, OPT_QUOTA},
	{"regions", required_argument, NULL, OPT_REGIONS},
	{"idle", required_argument, NULL, OPT_IDLE},
	{"detach", no_argument, NULL, OPT_DETACH},
	{"log", required_argument, NULL, OPT_LOG},
	{"help", no_argument, NULL, OPT_HELP},
	{"version", no_argument, NULL, OPT_VERSION},
	{NULL, 0, NULL, 0},
};

struct settings {
	struct ck_m3_broker_options broker;
	const char *socket;
	mode_t mode;
	bool detach;
};

static void print_help(void)
{
	puts("Usage: m3-server [OPTION]...\n"
	     "Own GPU memory that programs share by name.\n\n"
	     "  --socket PATH     path of the socket (default: CRICKET_M3, else the usual places)\n"
	     "  --mode MODE       octal mode of the socket (default 0600: this user only)\n"
	     "  --driver WHICH    auto, cuda, emu, or the path of a driver library\n"
	     "  --quota BYTES     maximum memory of one user, with K, M, G or T (default: no "
	     "limit)\n"
	     "  --regions N       maximum number of regions of one user (default 1024; 0: no "
	     "limit)\n"
	     "  --idle SECONDS    end after this time without clients and regions (default: "
	     "never)\n"
	     "  --detach          continue in the background when clients can connect\n"
	     "  --log LEVELS      as CRICKET_LOG\n"
	     "  --help, --version");
}

static int parse_option(int option, char *value, struct settings *s)
{
	char *end = NULL;

	switch (option) {
	case OPT_SOCKET:
		s->socket = value;
		return *value == '/' ? 0 : -EINVAL;
	case OPT_MODE:
		s->mode = (mode_t)strtoul(value, &end, 8);
		return *end || !s->mode || s->mode & ~0777u ? -EINVAL : 0;
	case OPT_DRIVER:
		s->broker.driver = value;
		return 0;
	case OPT_QUOTA:
		return ck_env_number(value, &s->broker.quota_bytes);
	case OPT_REGIONS:
		return ck_env_number(value, &s->broker.quota_regions);
	case OPT_IDLE:
		if (ck_env_number(value, &s->broker.idle_s) < 0 || s->broker.idle_s > IDLE_MAX)
			return -EINVAL;
		return 0;
	case OPT_DETACH:
		s->detach = true;
		return 0;
	case OPT_LOG:
		return setenv("CRICKET_LOG", value, 1) < 0 ? -errno : 0;
	case OPT_HELP:
		print_help();
		return 1;
	case OPT_VERSION:
		printf("m3-server %s\n", CK_RELEASE);
		return 1;
	default:
		return -EINVAL;
	}
}

/* The first place where a socket can be made; its path goes to @path. */
static int open_socket(const struct settings *s, char *path, size_t size)
{
	const char *place = s->socket;
	int fd = -ENOENT;

	for (unsigned int i = 0; fd < 0 && (s->socket || (place = ck_m3_path(i, path, size)));
	     i++) {
		fd = ck_m3_listen(place);
		if (fd < 0 && !(s->detach && fd == -EADDRINUSE))
			ck_err("%s: %s", place, strerror(-fd));
		if (s->socket)
			break;
	}
	if (fd >= 0 && place != path)
		snprintf(path, size, "%s", place);
	if (fd >= 0 && s->mode && chmod(path, s->mode) < 0)
		ck_err("%s: %m", path);
	return fd;
}

/* --- the background */

/* Nothing of whoever started it stays open, and stderr has served its purpose. */
static void be_ready(const struct ck_m3_broker_options *options)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	for (int fd = 0; null >= 0 && fd <= STDERR_FILENO; fd++)
		dup2(null, fd);
	if (write(options->ready_fd, "", 1) == 1)
		close(options->ready_fd);
	close(null);
}

/* Until the broker serves, so that errors come back to whoever asked for it. The exit status. */
static int wait_ready(int fd, pid_t pid)
{
	struct pollfd ready = {.fd = fd, .events = POLLIN};
	char byte;

	if (poll(&ready, 1, READY_MS) == 1)
		return read(fd, &byte, 1) == 1 ? 0 : 1;
	ck_err("the driver did not start within %d s", READY_MS / 1000);
	kill(pid, SIGKILL);
	return 1;
}

/* Returns 0 in the child, which continues. */
static int detach_process(struct ck_m3_broker_options *options)
{
	int ends[2];
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	pid = fork();
	if (pid < 0)
		return -errno;
	if (pid > 0) {
		close(ends[1]);
		_exit(wait_ready(ends[0], pid));
	}
	close(ends[0]);
	setsid();
	if (chdir("/") < 0)
		ck_warn("/: %m");
	options->ready = be_ready;
	options->ready_fd = ends[1];
	return 0;
}

/* 0: go on; 1: --help; -EINVAL, printed. */
static int parse_arguments(int argc, char **argv, struct settings *s)
{
	int option, which = 0, ret;

	while ((option = getopt_long(argc, argv, "", long_options, &which)) != -1) {
		ret = parse_option(option, optarg, s);
		if (ret < 0 && option != '?')
			fprintf(stderr, "m3-server: --%s %s: %s\n", long_options[which].name,
				optarg ? optarg : "",
				option == OPT_SOCKET ? "not an absolute path" : "not valid");
		if (ret)
			return ret;
	}
	if (optind == argc)
		return 0;
	fprintf(stderr, "m3-server: %s: unexpected argument\n", argv[optind]);
	return -EINVAL;
}

int main(int argc, char **argv)
{
	struct settings s = {
		.broker = {.driver = ck_env_string("CRICKET_DRIVER"), .quota_regions = 1024}};
	char path[108] = "";
	int ret;

	ck_log_default("info");
	ck_log_plain();
	if (argc == 3 && strcmp(argv[1], CK_M3_COPIER_OPTION) == 0)
		return ck_m3_copier_main(argv[2]);
	ret = parse_arguments(argc, argv, &s);
	if (ret < 0)
		fprintf(stderr, "Try 'm3-server --help'.\n");
	if (ret != 0)
		return ret < 0 ? 2 : !ck_output_end("m3-server");
	if (s.detach) {
		close_range(STDERR_FILENO + 1, ~0U, 0);
		ck_log_default("warning");
	}
	s.broker.listener = open_socket(&s, path, sizeof(path));
	if (s.broker.listener == -EADDRINUSE && s.detach)
		return 0; /* another one was faster */
	if (s.broker.listener < 0 || (s.detach && detach_process(&s.broker) < 0))
		return 1;
	ck_info("m3-server %s listens on %s", CK_RELEASE, path);
	ret = ck_m3_broker_main(&s.broker);
	unlink(path);
	return ret;
}
