/*
 * m3/server_main.c - m3-server: the broker alone, without a Cricket server; see its man page.
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "m3/broker.h"
#include "util/env.h"
#include "util/log.h"

CK_LOG_DEFINE("m3");

enum {
	OPT_SOCKET = 256,
	OPT_MODE,
	OPT_DRIVER,
	OPT_QUOTA,
	OPT_REGIONS,
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
	{"log", required_argument, NULL, OPT_LOG},
	{"help", no_argument, NULL, OPT_HELP},
	{"version", no_argument, NULL, OPT_VERSION},
	{NULL, 0, NULL, 0},
};

struct settings {
	struct ck_m3_broker_options broker;
	const char *socket;
	mode_t mode;
};

static void print_help(void)
{
	puts("Usage: m3-server [OPTION]...\n"
	     "Own GPU memory that programs share by name.\n\n"
	     "  --socket PATH     of the socket (default: CRICKET_M3, else the usual places)\n"
	     "  --mode MODE       of the socket's file, octal (default 0600: this user only)\n"
	     "  --driver WHICH    auto, cuda, emu, or the path of a driver library\n"
	     "  --quota BYTES     that one user may have, with K, M, G or T (default: no limit)\n"
	     "  --regions N       that one user may have (default 1024; 0: no limit)\n"
	     "  --log LEVELS      as CRICKET_LOG\n"
	     "  --help, --version");
}

static int parse_option(int option, char *value, struct settings *s)
{
	char *end = NULL;

	switch (option) {
	case OPT_SOCKET:
		s->socket = value;
		return 0;
	case OPT_MODE:
		s->mode = (mode_t)strtoul(value, &end, 8);
		return *end || s->mode & ~0777u ? -EINVAL : 0;
	case OPT_DRIVER:
		s->broker.driver = value;
		return 0;
	case OPT_QUOTA:
		return ck_env_number(value, &s->broker.quota_bytes);
	case OPT_REGIONS:
		return ck_env_number(value, &s->broker.quota_regions);
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
		if (fd < 0)
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

int main(int argc, char **argv)
{
	struct settings s = {
		.broker = {.driver = ck_env_string("CRICKET_DRIVER"), .quota_regions = 1024}};
	char path[108] = "";
	int option, ret;

	ck_log_default("info");
	if (argc == 3 && strcmp(argv[1], CK_M3_COPIER_OPTION) == 0)
		return ck_m3_copier_main(argv[2]);
	while ((option = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
		ret = parse_option(option, optarg, &s);
		if (ret > 0)
			return 0;
		if (ret < 0) {
			fprintf(stderr, "Try 'm3-server --help'.\n");
			return 2;
		}
	}
	s.broker.listener = open_socket(&s, path, sizeof(path));
	if (s.broker.listener < 0)
		return 1;
	ck_info("m3-server %s listens on %s", CK_RELEASE, path);
	ret = ck_m3_broker_main(&s.broker);
	unlink(path);
	return ret;
}
