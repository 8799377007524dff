/*
 * server/processes/options.c - the command line of cricket-rpc-server; see its man page.
 */
#include <errno.h>
#include <getopt.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/processes/confine.h"
#include "server/processes/new_token.h"
#include "server/processes/new_cert.h"
#include "server/processes/option_values.h"
#include "server/processes/options.h"
#include "server/processes/setup.h"
#include "server/session/version.h"
#include "util/env.h"

/* --- options that set more than one member, or none; they return as cks_options_parse does */

static int add_listen(const char *address, void *options)
{
	struct cks_options *o = options;

	if (o->listen_count == CK_LISTEN_MAX)
		return cks_option_refuse("too many addresses", address);
	o->listen[o->listen_count++] = address;
	return 0;
}

static int take_tls(const char *value, void *options)
{
	struct cks_options *o = options;

	o->tls_required = strcmp(value, "offered") != 0;
	return o->tls_required && strcmp(value, "required") != 0
		       ? cks_option_refuse("neither required nor offered", value)
		       : 0;
}

static int take_pool_peers(const char *value, void *options)
{
	struct cks_options *o = options;

	o->pool_peers_text = value;
	return cks_allowed_parse(value, &o->pool_peers) < 0
		       ? cks_option_refuse("not a list of networks", value)
		       : 0;
}

static int take_worker_users(const char *value, void *options)
{
	struct cks_options *o = options;

	o->worker_users_text = value;
	return cks_users_parse(value, &o->worker_users) < 0
		       ? cks_option_refuse(
				 "--worker-users: not FIRST-LAST, numbers of users above 0", value)
		       : 0;
}

static int take_confine(const char *value, void *confine)
{
	*(const char **)confine = value;
	return cks_confine_check(value);
}

/* The words behind it come last: take_rest. */
static int take_ctl(const char *value, void *options)
{
	static char *const no_word = NULL;
	struct cks_options *o = options;

	(void)value;
	o->words = &no_word;
	return 0;
}

static int print_token(const char *name, void *options)
{
	(void)options;
	return cks_new_token(name) < 0 ? -EINVAL : 1;
}

static int print_help(const char *value, void *options)
{
	(void)value;
	(void)options;
	cks_options_help();
	return 1;
}

static int print_environment(const char *value, void *options)
{
	(void)value;
	(void)options;
	ck_env_help(stdout);
	return 1;
}

static int print_version(const char *value, void *options)
{
	(void)value;
	(void)options;
	printf("cricket-rpc-server %s\n", CK_RELEASE);
	return 1;
}

/* --- the options; those of the limits are in limits.c */

#define MEMBER(name) offsetof(struct cks_options, name)
#define ALL 0 /* the function gets the whole structure */

static const struct row {
	const char *name;
	int argument; /* as in struct option */
	int (*take)(const char *value, void *out);
	size_t out; /* where in struct cks_options */
} rows[] = {
	{"listen", required_argument, add_listen, ALL},
	{"unix", required_argument, cks_option_path, MEMBER(unix_path)},
	{"no-unix", no_argument, cks_option_flag, MEMBER(no_unix)},
	{"socket-mode", required_argument, cks_option_mode, MEMBER(socket_mode)},
	{"socket-group", required_argument, cks_option_group, MEMBER(socket_group)},
	{"no-shm", no_argument, cks_option_no_shm, ALL},
	{"driver", required_argument, cks_option_text, MEMBER(driver)},
	{"token-file", required_argument, cks_option_text, MEMBER(token_file)},
	{"new-token", required_argument, print_token, ALL},
	{"insecure", no_argument, cks_option_flag, MEMBER(insecure)},
	{"policy", required_argument, cks_option_path, MEMBER(policy)},
	{"check-policy", required_argument, cks_option_text, MEMBER(check_policy)},
	{"audit", required_argument, cks_option_path, MEMBER(audit)},
	{"audit-required", no_argument, cks_option_flag, MEMBER(audit_required)},
	{"tls-cert", required_argument, cks_option_text, MEMBER(tls_cert)},
	{"tls-key", required_argument, cks_option_text, MEMBER(tls_key)},
	{"tls-ca", required_argument, cks_option_text, MEMBER(tls_ca)},
	{"tls", required_argument, take_tls, ALL},
	{"setup", no_argument, cks_option_flag, MEMBER(setup)},		    /* names come last */
	{"new-cert", required_argument, cks_option_text, MEMBER(new_cert)}, /* names come last */
	{"pool-peers", required_argument, take_pool_peers, ALL},
	{"client-files", required_argument, cks_option_path, MEMBER(client_files)},
	{"cache-dir", required_argument, cks_option_text, MEMBER(cache_dir)},
	{"cache-size", required_argument, cks_option_cache_size, MEMBER(cache_size)},
	{"m3", required_argument, cks_option_text, MEMBER(m3_path)},
	{"pid-file", required_argument, cks_option_text, MEMBER(pid_file)},
	{"state-dir", required_argument, cks_option_path, MEMBER(state_dir)},
	{"ctl", no_argument, take_ctl, ALL},
	{"ctl-socket", required_argument, cks_option_path, MEMBER(ctl_socket)},
	{"criu", required_argument, cks_option_text, MEMBER(criu)},
	{"checkpoint-dir", required_argument, cks_option_path, MEMBER(checkpoint_dir)},
	{"suspend-for-others", no_argument, cks_option_flag, MEMBER(suspend_for_others)},
	{"resume-anywhere", no_argument, cks_option_flag, MEMBER(resume_anywhere)},
	{"gpu-time", no_argument, cks_option_flag, MEMBER(gpu_time)},
	{"sandbox", required_argument, cks_option_sandbox, ALL},
	{"nccl", required_argument, cks_option_nccl, ALL},
	{"worker-users", required_argument, take_worker_users, ALL},
	{"confine", required_argument, take_confine, MEMBER(confine)},
	{"max-sessions", required_argument, cks_option_sessions, MEMBER(max_sessions)},
	{"warm", required_argument, cks_option_spares, MEMBER(warm)},
	{"standby", required_argument, cks_option_spares, MEMBER(standby)},
	{"warm-devices", required_argument, cks_option_devices, MEMBER(warm_devices)},
	{"log", required_argument, cks_option_log, ALL},
	{"log-format", required_argument, cks_option_log_format, ALL},
	{"help", no_argument, print_help, ALL},
	{"help-env", no_argument, print_environment, ALL},
	{"version", no_argument, print_version, ALL},
};

#define ROWS ((int)(sizeof(rows) / sizeof(rows[0])))
#define OPT_ROW 256 /* what getopt_long returns for the first row */
#define OPT_LIMIT (OPT_ROW + ROWS)

static int take_option(int option, const char *value, struct cks_options *o)
{
	const struct row *row;

	if (option >= OPT_LIMIT)
		return cks_limits_set(&o->limits, (enum cks_limit)(option - OPT_LIMIT), value);
	if (option < OPT_ROW) {
		fprintf(stderr, "Try 'cricket-rpc-server --help'.\n");
		return -EINVAL;
	}
	row = &rows[option - OPT_ROW];
	return row->take(value, (char *)o + row->out);
}

/* Combine the options above with those of the limits. The last entry is empty. */
static void all_options(struct option out[ROWS + CK_LIMITS + 1])
{
	for (int i = 0; i < ROWS; i++)
		out[i] = (struct option){rows[i].name, rows[i].argument, NULL, OPT_ROW + i};
	for (int i = 0; i < CK_LIMITS; i++)
		out[ROWS + i] = (struct option){cks_limit_name((enum cks_limit)i),
						required_argument, NULL, OPT_LIMIT + i};
	out[ROWS + CK_LIMITS] = (struct option){NULL, 0, NULL, 0};
}

/* What follows the options: names of --setup and --new-cert, words of --ctl. */
static int take_rest(const char *program, char **rest, size_t count, struct cks_options *o)
{
	if (o->setup && count <= 2)
		return cks_setup(program, count > 0 ? rest[0] : NULL, count > 1 ? rest[1] : NULL) <
				       0
			       ? -EINVAL
			       : 1;
	if (o->new_cert)
		return cks_new_cert(o->new_cert, rest, count) < 0 ? -EINVAL : 1;
	if (!o->words)
		return count > 0 ? cks_option_refuse("unexpected argument", rest[0]) : 0;
	o->words = rest;
	o->word_count = count;
	return 0;
}

static int check_tls(struct cks_options *o)
{
	bool any = o->tls_cert || o->tls_key;

	if (any && (!o->tls_cert || !o->tls_key))
		return cks_option_refuse("must be given together", "--tls-cert, --tls-key");
	if (o->tls_ca && !any)
		return cks_option_refuse("needs --tls-cert and --tls-key", "--tls-ca");
	o->tls_required &= any;
	return 0;
}

static int take_environment(struct cks_options *o)
{
	if (!o->driver)
		o->driver = ck_env_string("CRICKET_DRIVER");
	if (!o->cache_dir)
		o->cache_dir = ck_env_string("CRICKET_CACHE_DIR");
	if (cks_option_sandbox(ck_env_string("CRICKET_SANDBOX"), NULL) < 0)
		return -EINVAL;
	/* NCCL in the workers: it would export what a captured operation uses, and leased memory is in pieces */
	return setenv("NCCL_GRAPH_REGISTER", "0", 0) < 0 ? -errno : 0;
}

/* Check that the options go together, and set those that depend on others. */
static bool is_none(const char *word)
{
	return strcmp(word, "none") == 0;
}

/* The default, or no address at all. */
static int settle_listen(struct cks_options *o)
{
	if (o->listen_count == 0)
		o->listen[o->listen_count++] = "127.0.0.1";
	for (size_t i = 0; o->listen_count > 1 && i < o->listen_count; i++) {
		if (is_none(o->listen[i]))
			return cks_option_refuse("none cannot be combined with addresses",
						 "--listen");
	}
	if (is_none(o->listen[0]))
		o->listen_count = 0;
	if (o->listen_count == 0 && o->no_unix)
		return cks_option_refuse("no client could connect", "--listen none --no-unix");
	for (size_t i = 0; i < o->listen_count; i++)
		cks_allowed_listen(&o->pool_peers, o->listen[i]);
	return 0;
}

static int settle(struct cks_options *o)
{
	if ((o->limits.value[CK_LIMIT_SAVE] > 0) != (o->checkpoint_dir != NULL))
		return cks_option_refuse("must be given together",
					 "--checkpoint-every, --checkpoint-dir");
	if (o->audit_required && !o->audit)
		return cks_option_refuse("must be given together", "--audit-required, --audit");
	if (check_tls(o) < 0)
		return -EINVAL;
	cks_limits_settle(&o->limits, o->max_sessions);
	return settle_listen(o);
}

int cks_options_parse(int argc, char **argv, struct cks_options *o)
{
	struct option options[ROWS + CK_LIMITS + 1];
	int option, ret = 0;

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
	while (ret == 0 && (option = getopt_long(argc, argv, "", options, NULL)) != -1)
		ret = take_option(option, optarg, o);
	if (ret == 0)
		ret = take_rest(argv[0], argv + optind, (size_t)(argc - optind), o);
	if (ret == 0)
		ret = take_environment(o);
	return ret ? ret : settle(o);
}
