/*
 * server/processes/options.c - the command line of cricket-rpc-server; see its man page.
 */
#include <errno.h>
#include <getopt.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rpc/chan.h"
#include "server/processes/confine.h"
#include "server/processes/new_token.h"
#include "server/processes/new_cert.h"
#include "server/processes/options.h"
#include "server/processes/sandbox.h"
#include "server/session/version.h"
#include "util/env.h"
#include "util/log.h"
#include "util/log_format.h"

enum {
	OPT_LISTEN = 256,
	OPT_UNIX,
	OPT_NO_UNIX,
	OPT_SOCKET_MODE,
	OPT_SOCKET_GROUP,
	OPT_NO_SHM,
	OPT_DRIVER,
	OPT_TOKEN_FILE,
	OPT_NEW_TOKEN,
	OPT_INSECURE,
	OPT_POLICY,
	OPT_CHECK_POLICY,
	OPT_AUDIT,
	OPT_AUDIT_REQUIRED,
	OPT_TLS_CERT,
	OPT_TLS_KEY,
	OPT_TLS_CA,
	OPT_TLS,
	OPT_NEW_CERT,
	OPT_POOL_PEERS,
	OPT_CLIENT_FILES,
	OPT_CACHE_DIR,
	OPT_CACHE_SIZE,
	OPT_M3,
	OPT_PID_FILE,
	OPT_STATE_DIR,
	OPT_CTL,
	OPT_CTL_SOCKET,
	OPT_CRIU,
	OPT_CHECKPOINT_DIR,
	OPT_SUSPEND_FOR_OTHERS,
	OPT_RESUME_ANYWHERE,
	OPT_GPU_TIME,
	OPT_SANDBOX,
	OPT_WORKER_USERS,
	OPT_CONFINE,
	OPT_MAX_SESSIONS,
	OPT_WARM,
	OPT_STANDBY,
	OPT_WARM_DEVICES,
	OPT_LOG,
	OPT_LOG_FORMAT,
	OPT_NCCL,
	OPT_HELP,
	OPT_HELP_ENV,
	OPT_VERSION,
	OPT_LIMIT, /* the first limit; keep it last in this list */
};

static const struct option long_options[] = {
	{"listen", required_argument, NULL, OPT_LISTEN},
	{"unix", required_argument, NULL, OPT_UNIX},
	{"no-unix", no_argument, NULL, OPT_NO_UNIX},
	{"socket-mode", required_argument, NULL, OPT_SOCKET_MODE},
	{"socket-group", required_argument, NULL, OPT_SOCKET_GROUP},
	{"no-shm", no_argument, NULL, OPT_NO_SHM},
	{"driver", required_argument, NULL, OPT_DRIVER},
	{"token-file", required_argument, NULL, OPT_TOKEN_FILE},
	{"new-token", required_argument, NULL, OPT_NEW_TOKEN},
	{"insecure", no_argument, NULL, OPT_INSECURE},
	{"policy", required_argument, NULL, OPT_POLICY},
	{"check-policy", required_argument, NULL, OPT_CHECK_POLICY},
	{"audit", required_argument, NULL, OPT_AUDIT},
	{"audit-required", no_argument, NULL, OPT_AUDIT_REQUIRED},
	{"tls-cert", required_argument, NULL, OPT_TLS_CERT},
	{"tls-key", required_argument, NULL, OPT_TLS_KEY},
	{"tls-ca", required_argument, NULL, OPT_TLS_CA},
	{"tls", required_argument, NULL, OPT_TLS},
	{"new-cert", required_argument, NULL, OPT_NEW_CERT},
	{"pool-peers", required_argument, NULL, OPT_POOL_PEERS},
	{"client-files", required_argument, NULL, OPT_CLIENT_FILES},
	{"cache-dir", required_argument, NULL, OPT_CACHE_DIR},
	{"cache-size", required_argument, NULL, OPT_CACHE_SIZE},
	{"m3", required_argument, NULL, OPT_M3},
	{"pid-file", required_argument, NULL, OPT_PID_FILE},
	{"state-dir", required_argument, NULL, OPT_STATE_DIR},
	{"ctl", no_argument, NULL, OPT_CTL},
	{"ctl-socket", required_argument, NULL, OPT_CTL_SOCKET},
	{"criu", required_argument, NULL, OPT_CRIU},
	{"checkpoint-dir", required_argument, NULL, OPT_CHECKPOINT_DIR},
	{"suspend-for-others", no_argument, NULL, OPT_SUSPEND_FOR_OTHERS},
	{"resume-anywhere", no_argument, NULL, OPT_RESUME_ANYWHERE},
	{"gpu-time", no_argument, NULL, OPT_GPU_TIME},
	{"sandbox", required_argument, NULL, OPT_SANDBOX},
	{"nccl", required_argument, NULL, OPT_NCCL},
	{"worker-users", required_argument, NULL, OPT_WORKER_USERS},
	{"confine", required_argument, NULL, OPT_CONFINE},
	{"max-sessions", required_argument, NULL, OPT_MAX_SESSIONS},
	{"warm", required_argument, NULL, OPT_WARM},
	{"standby", required_argument, NULL, OPT_STANDBY},
	{"warm-devices", required_argument, NULL, OPT_WARM_DEVICES},
	{"log", required_argument, NULL, OPT_LOG},
	{"log-format", required_argument, NULL, OPT_LOG_FORMAT},
	{"help", no_argument, NULL, OPT_HELP},
	{"help-env", no_argument, NULL, OPT_HELP_ENV},
	{"version", no_argument, NULL, OPT_VERSION},
};

#define CK_OPTIONS (sizeof(long_options) / sizeof(long_options[0]))

static int refuse(const char *what, const char *value)
{
	fprintf(stderr, "cricket-rpc-server: %s: %s\n", what, value);
	return -EINVAL;
}

/* A path that means the same in each process. */
static int take_path(const char **out, const char *value)
{
	*out = value;
	return *value == '/' ? 0 : refuse("not an absolute path", value);
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

static int parse_mode(const char *text, unsigned int *out)
{
	*out = (unsigned int)strtoul(text, NULL, 8);
	return *text && strspn(text, "01234567") == strlen(text) && (*out & ~0777u) == 0 &&
			       (*out & 0600) == 0600
		       ? 0
		       : refuse("not a mode from 0600 to 0777", text);
}

static int parse_group(const char *text, long *out)
{
	const struct group *group = getgrnam(text);

	if (!group)
		return refuse("no such group", text);
	*out = (long)group->gr_gid;
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

/* In the environment, so that all processes inherit it. */
static int parse_sandbox(const char *word)
{
	if (cks_sandbox_check(word) < 0)
		return refuse("--sandbox, CRICKET_SANDBOX: not auto, on, log or off", word);
	return setenv("CRICKET_SANDBOX", word, 1) < 0 ? -errno : 0;
}

/* The same. */
static int parse_nccl(const char *library)
{
	if (*library != '/' && strcmp(library, "off") != 0)
		return refuse("--nccl: neither an absolute path nor off", library);
	return setenv("CRICKET_NCCL_LIBRARY", library, 1) < 0 ? -errno : 0;
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

static int parse_tls(const char *value, struct cks_options *o)
{
	o->tls_required = strcmp(value, "offered") != 0;
	return o->tls_required && strcmp(value, "required") != 0
		       ? refuse("neither required nor offered", value)
		       : 0;
}

static int check_tls(struct cks_options *o)
{
	bool any = o->tls_cert || o->tls_key;

	if (any && (!o->tls_cert || !o->tls_key))
		return refuse("one without the other", "--tls-cert, --tls-key");
	if (o->tls_ca && !any)
		return refuse("needs --tls-cert and --tls-key", "--tls-ca");
	o->tls_required &= any;
	return 0;
}

static char *const no_word = NULL;

static int parse_option(int option, const char *value, struct cks_options *o)
{
	if (option >= OPT_LIMIT)
		return cks_limits_set(&o->limits, (enum cks_limit)(option - OPT_LIMIT), value);
	switch (option) {
	case OPT_LISTEN:
		return add_listen(o, value);
	case OPT_UNIX:
		return take_path(&o->unix_path, value);
	case OPT_NO_UNIX:
		o->no_unix = true;
		return 0;
	case OPT_SOCKET_MODE:
		return parse_mode(value, &o->socket_mode);
	case OPT_SOCKET_GROUP:
		return parse_group(value, &o->socket_group);
	case OPT_NO_SHM: /* in the environment, so that workers inherit it */
		return setenv("CRICKET_SHM", "0", 1) < 0 ? -errno : 0;
	case OPT_DRIVER:
		o->driver = value;
		return 0;
	case OPT_TOKEN_FILE:
		o->token_file = value;
		return 0;
	case OPT_NEW_TOKEN:
		return cks_new_token(value) < 0 ? -EINVAL : 1;
	case OPT_INSECURE:
		o->insecure = true;
		return 0;
	case OPT_POLICY:
		return take_path(&o->policy, value);
	case OPT_CHECK_POLICY:
		o->check_policy = value;
		return 0;
	case OPT_AUDIT:
		return take_path(&o->audit, value);
	case OPT_AUDIT_REQUIRED:
		o->audit_required = true;
		return 0;
	case OPT_TLS_CERT:
		o->tls_cert = value;
		return 0;
	case OPT_TLS_KEY:
		o->tls_key = value;
		return 0;
	case OPT_TLS_CA:
		o->tls_ca = value;
		return 0;
	case OPT_TLS:
		return parse_tls(value, o);
	case OPT_NEW_CERT: /* names come last */
		o->new_cert = value;
		return 0;
	case OPT_POOL_PEERS:
		o->pool_peers_text = value;
		return cks_allowed_parse(value, &o->pool_peers) < 0
			       ? refuse("not a list of networks", value)
			       : 0;
	case OPT_CLIENT_FILES:
		return take_path(&o->client_files, value);
	case OPT_CACHE_DIR:
		o->cache_dir = value;
		return 0;
	case OPT_CACHE_SIZE:
		o->cache_size = value;
		return parse_size(value);
	case OPT_M3:
		o->m3_path = value;
		return 0;
	case OPT_STATE_DIR:
		return take_path(&o->state_dir, value);
	case OPT_PID_FILE:
		o->pid_file = value;
		return 0;
	case OPT_CTL: /* the words behind it come last: cks_options_parse */
		o->words = &no_word;
		return 0;
	case OPT_CRIU:
		o->criu = value;
		return 0;
	case OPT_CHECKPOINT_DIR:
		return take_path(&o->checkpoint_dir, value);
	case OPT_SUSPEND_FOR_OTHERS:
		o->suspend_for_others = true;
		return 0;
	case OPT_RESUME_ANYWHERE:
		o->resume_anywhere = true;
		return 0;
	case OPT_GPU_TIME:
		o->gpu_time = true;
		return 0;
	case OPT_SANDBOX:
		return parse_sandbox(value);
	case OPT_CONFINE:
		o->confine = value;
		return cks_confine_check(value);
	case OPT_NCCL:
		return parse_nccl(value);
	case OPT_WORKER_USERS:
		o->worker_users_text = value;
		return cks_users_parse(value, &o->worker_users) < 0
			       ? refuse("--worker-users: not FIRST-LAST, numbers of users above 0",
					value)
			       : 0;
	case OPT_CTL_SOCKET:
		return take_path(&o->ctl_socket, value);
	case OPT_MAX_SESSIONS:
	case OPT_WARM:
	case OPT_STANDBY:
	case OPT_WARM_DEVICES:
		return parse_workers(option, value, o);
	case OPT_LOG:
		if (ck_log_check(value) < 0)
			return refuse("not a level, or a list of part:level", value);
		return setenv("CRICKET_LOG", value, 1) < 0 ? -errno : 0;
	case OPT_LOG_FORMAT:
		if (!ck_log_format_known(value))
			return refuse("not a format of log lines: text or json", value);
		return setenv("CRICKET_LOG_FORMAT", value, 1) < 0 ? -errno : 0;
	case OPT_HELP:
		cks_options_help();
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
				  .socket_group = -1,
				  .tls_required = true,
				  .warm = -1,
				  .standby = -1,
				  .warm_devices = CK_WARM_DEVICES,
				  .criu = "criu"};
	cks_limits_init(&o->limits);
	cks_allowed_parse(CK_ALLOWED_DEFAULT, &o->pool_peers);
	all_options(options);
	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		ret = parse_option(option, optarg, o);
		if (ret != 0)
			return ret;
	}
	if (o->new_cert)
		return cks_new_cert(o->new_cert, argv + optind, (size_t)(argc - optind)) < 0
			       ? -EINVAL
			       : 1;
	if (o->words) {
		o->words = argv + optind;
		o->word_count = (size_t)(argc - optind);
	} else if (optind < argc) {
		return refuse("unexpected argument", argv[optind]);
	}
	if (!o->driver)
		o->driver = ck_env_string("CRICKET_DRIVER");
	if (!o->cache_dir)
		o->cache_dir = ck_env_string("CRICKET_CACHE_DIR");
	if ((o->limits.value[CK_LIMIT_SAVE] > 0) != (o->checkpoint_dir != NULL))
		return refuse("one without the other", "--checkpoint-every, --checkpoint-dir");
	if (parse_sandbox(ck_env_string("CRICKET_SANDBOX")) < 0)
		return -EINVAL;
	/* NCCL in the workers: it would export what a captured operation uses, and leased memory is in pieces */
	if (setenv("NCCL_GRAPH_REGISTER", "0", 0) < 0)
		return -errno;
	if (o->audit_required && !o->audit)
		return refuse("one without the other", "--audit-required, --audit");
	ret = check_tls(o);
	if (ret < 0)
		return ret;
	cks_limits_settle(&o->limits, o->max_sessions);
	if (o->listen_count == 0)
		o->listen[o->listen_count++] = "127.0.0.1";
	for (size_t i = 0; i < o->listen_count; i++)
		cks_allowed_listen(&o->pool_peers, o->listen[i]);
	return 0;
}
