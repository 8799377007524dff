/*
 * server/processes/options.c - the command line of cricket-rpc-server; see its man page.
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rpc/chan.h"
#include "server/processes/options.h"
#include "server/session/version.h"
#include "util/env.h"
#include "util/log.h"

#define CK_SESSIONS 256
#define CK_WARM_DEVICES "0"

enum {
	OPT_LISTEN = 256,
	OPT_UNIX,
	OPT_NO_UNIX,
	OPT_NO_SHM,
	OPT_DRIVER,
	OPT_TOKEN_FILE,
	OPT_CACHE_DIR,
	OPT_CACHE_SIZE,
	OPT_M3,
	OPT_PID_FILE,
	OPT_MAX_SESSIONS,
	OPT_WARM,
	OPT_STANDBY,
	OPT_WARM_DEVICES,
	OPT_LOG,
	OPT_HELP,
	OPT_HELP_ENV,
	OPT_VERSION,
	OPT_LIMIT, /* the first limit; keep it last in this list */
};

static const struct option long_options[] = {
	{"listen", required_argument, NULL, OPT_LISTEN},
	{"unix", required_argument, NULL, OPT_UNIX},
	{"no-unix", no_argument, NULL, OPT_NO_UNIX},
	{"no-shm", no_argument, NULL, OPT_NO_SHM},
	{"driver", required_argument, NULL, OPT_DRIVER},
	{"token-file", required_argument, NULL, OPT_TOKEN_FILE},
	{"cache-dir", required_argument, NULL, OPT_CACHE_DIR},
	{"cache-size", required_argument, NULL, OPT_CACHE_SIZE},
	{"m3", required_argument, NULL, OPT_M3},
	{"pid-file", required_argument, NULL, OPT_PID_FILE},
	{"max-sessions", required_argument, NULL, OPT_MAX_SESSIONS},
	{"warm", required_argument, NULL, OPT_WARM},
	{"standby", required_argument, NULL, OPT_STANDBY},
	{"warm-devices", required_argument, NULL, OPT_WARM_DEVICES},
	{"log", required_argument, NULL, OPT_LOG},
	{"help", no_argument, NULL, OPT_HELP},
	{"help-env", no_argument, NULL, OPT_HELP_ENV},
	{"version", no_argument, NULL, OPT_VERSION},
};

#define CK_OPTIONS (sizeof(long_options) / sizeof(long_options[0]))

static void print_help(void)
{
	printf("Usage: cricket-rpc-server [OPTION]...\n"
	       "Run CUDA calls for programs on this host and on others.\n\n"
	       "  --listen ADDRESS      HOST, HOST:PORT or unix:/PATH; may be given several times\n"
	       "                        (default 127.0.0.1:%d)\n"
	       "  --unix PATH           path of the unix socket (default: %s)\n"
	       "  --no-unix             no unix socket\n"
	       "  --no-shm              no shared memory with clients on this host\n"
	       "  --driver WHICH        auto, cuda, emu, or the path of a driver library\n"
	       "  --token-file FILE     admit only clients whose CRICKET_TOKEN is FILE's content\n"
	       "  --cache-dir DIR       folder of the module cache\n"
	       "  --cache-size BYTES    most bytes of the module cache, with K, M, G or T\n"
	       "  --m3 PATH             socket for memory shared by name (default: that of\n"
	       "                        --unix with .m3 behind it)\n"
	       "  --pid-file FILE       write the process id; refuse to start twice\n"
	       "  --max-sessions N      most programs at a time (default %d)\n"
	       "  --warm N              workers kept ready for the next programs (default 1 with a "
	       "GPU)\n"
	       "  --warm-devices LIST   devices whose contexts they hold, as in 0,1; or none "
	       "(default %s)\n"
	       "  --standby N           workers kept ready without a context (default 1 with a "
	       "GPU)\n"
	       "  --log LEVELS          as CRICKET_LOG\n"
	       "  --help, --help-env, --version\n\n"
	       "Bounds of programs, addresses and identities:\n",
	       CK_DEFAULT_PORT, ck_chan_default_unix(0), CK_SESSIONS, CK_WARM_DEVICES);
	cks_limits_help(stdout);
}

static int refuse(const char *what, const char *value)
{
	fprintf(stderr, "cricket-rpc-server: %s: %s\n", what, value);
	return -EINVAL;
}

static int parse_number(const char *text, long least, long most, long *out)
{
	char *end;
	long value;

	errno = 0;
	value = strtol(text, &end, 10);
	if (errno || end == text || *end || value < least || value > most) {
		fprintf(stderr, "cricket-rpc-server: not a number from %ld to %ld: %s\n", least,
			most, text);
		return -EINVAL;
	}
	*out = value;
	return 0;
}

/* Allow digits and commas; only the process with the driver knows whether the devices exist. */
static int parse_devices(const char *text, const char **out)
{
	*out = text;
	if (strcmp(text, "none") == 0)
		return 0;
	return *text && strspn(text, "0123456789,") == strlen(text)
		       ? 0
		       : refuse("not a list of devices", text);
}

/* Check it now: a worker that cannot parse it would refuse every client. */
static int parse_size(const char *text)
{
	if (setenv("CRICKET_CACHE_SIZE", text, 1) < 0)
		return -errno;
	return strspn(text, "0123456789") > 0 && ck_env_long("CRICKET_CACHE_SIZE") > 0
		       ? 0
		       : refuse("not a size", text);
}

static int add_listen(struct cks_options *o, const char *address)
{
	if (o->listen_count == CK_LISTEN_MAX)
		return refuse("too many addresses", address);
	o->listen[o->listen_count++] = address;
	return 0;
}

static int parse_workers(int option, const char *value, struct cks_options *o)
{
	long number = 0;
	int ret;

	if (option == OPT_WARM_DEVICES)
		return parse_devices(value, &o->warm_devices);
	if (option == OPT_WARM || option == OPT_STANDBY) {
		ret = parse_number(value, 0, CK_WARM_MAX, &number);
		*(option == OPT_WARM ? &o->warm : &o->standby) = (int)number;
		return ret;
	}
	ret = parse_number(value, 1, 100000, &number);
	o->max_sessions = (unsigned int)number;
	return ret;
}

static int parse_option(int option, const char *value, struct cks_options *o)
{
	if (option >= OPT_LIMIT)
		return cks_limits_set(&o->limits, (enum cks_limit)(option - OPT_LIMIT), value);
	switch (option) {
	case OPT_LISTEN:
		return add_listen(o, value);
	case OPT_UNIX:
		o->unix_path = value;
		return *value == '/' ? 0 : refuse("not an absolute path", value);
	case OPT_NO_UNIX:
		o->no_unix = true;
		return 0;
	case OPT_NO_SHM: /* in the environment, so that workers inherit it */
		return setenv("CRICKET_SHM", "0", 1) < 0 ? -errno : 0;
	case OPT_DRIVER:
		o->driver = value;
		return 0;
	case OPT_TOKEN_FILE:
		o->token_file = value;
		return 0;
	case OPT_CACHE_DIR:
		o->cache_dir = value;
		return 0;
	case OPT_CACHE_SIZE:
		o->cache_size = value;
		return parse_size(value);
	case OPT_M3:
		o->m3_path = value;
		return 0;
	case OPT_PID_FILE:
		o->pid_file = value;
		return 0;
	case OPT_MAX_SESSIONS:
	case OPT_WARM:
	case OPT_STANDBY:
	case OPT_WARM_DEVICES:
		return parse_workers(option, value, o);
	case OPT_LOG:
		return setenv("CRICKET_LOG", value, 1) < 0 ? -errno : 0;
	case OPT_HELP:
		print_help();
		return 1;
	case OPT_HELP_ENV:
		ck_env_help(stdout);
		return 1;
	case OPT_VERSION:
		printf("cricket-rpc-server %s\n", CK_RELEASE);
		return 1;
	default:
		fprintf(stderr, "Try 'cricket-rpc-server --help'.\n");
		return -EINVAL;
	}
}

/* Combine the options above with those of the limits. The last entry is empty. */
static void all_options(struct option out[CK_OPTIONS + CK_LIMITS + 1])
{
	memcpy(out, long_options, sizeof(long_options));
	for (int i = 0; i < CK_LIMITS; i++)
		out[CK_OPTIONS + i] = (struct option){cks_limit_name((enum cks_limit)i),
						      required_argument, NULL, OPT_LIMIT + i};
	out[CK_OPTIONS + CK_LIMITS] = (struct option){NULL, 0, NULL, 0};
}

int cks_options_parse(int argc, char **argv, struct cks_options *o)
{
	struct option options[CK_OPTIONS + CK_LIMITS + 1];
	int option, ret;

	*o = (struct cks_options){.max_sessions = CK_SESSIONS,
				  .warm = -1,
				  .standby = -1,
				  .warm_devices = CK_WARM_DEVICES};
	cks_limits_init(&o->limits);
	all_options(options);
	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		ret = parse_option(option, optarg, o);
		if (ret != 0)
			return ret;
	}
	if (optind < argc)
		return refuse("unexpected argument", argv[optind]);
	if (!o->driver)
		o->driver = ck_env_string("CRICKET_DRIVER");
	if (!o->cache_dir)
		o->cache_dir = ck_env_string("CRICKET_CACHE_DIR");
	cks_limits_settle(&o->limits, o->max_sessions);
	if (o->listen_count == 0)
		o->listen[o->listen_count++] = "127.0.0.1";
	return 0;
}
