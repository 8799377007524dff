/*
 * server/options/options.c - the options of cricket-rpc-server, from its command line and the file
 * of --config; see its man page.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/options/option_table.h"
#include "server/options/option_values.h"
#include "server/options/options.h"
#include "server/options/setup.h"
#include "util/env.h"

#define OPTIONS_MOST 96 /* in the table */
#define OPT_ROW 256	/* getopt_long's result for the first row */

/* Say on stderr that @what is wrong, and why. */
static int report_error(const char *what, const char *why)
{
	fprintf(stderr, "cricket-rpc-server: %s: %s\n", what, why);
	return -EINVAL;
}

int cks_options_give(struct cks_options *o, size_t index, const char *value, const char *origin)
{
	if (o->given_count == CK_NAMED_FILES_MAX)
		return report_error(origin ? origin : "command line", "too many options");
	o->given[o->given_count++] = (struct cks_given){index, value, origin};
	return 0;
}

bool cks_options_gives(const struct cks_options *o, const char *name)
{
	size_t index = cks_option_find(name), i = 0;

	while (i < o->given_count && o->given[i].index != index)
		i++;
	return i < o->given_count;
}

/* Put one option into its members. 1: it was all that was wanted. -EINVAL, printed with the place
 * where the option is. */
static int apply_option(struct cks_options *o, const struct cks_given *g)
{
	struct cks_option option = cks_option_at(g->index);
	char why[CK_OPTION_WHY] = "";
	int ret = option.take ? option.take(g->value, (char *)o + option.out, why)
			      : cks_limits_set(&o->limits, option.limit, g->value, why);

	if (ret >= 0 || !why[0])
		return ret;
	if (g->origin)
		fprintf(stderr, "cricket-rpc-server: %s: %s = %s: %s\n", g->origin, option.name,
			g->value, why);
	else
		fprintf(stderr, "cricket-rpc-server: --%s %s: %s\n", option.name, g->value, why);
	return -EINVAL;
}

/* Is the option on the command line too, which then counts? */
static bool is_overruled(const struct cks_options *o, const struct cks_given *g)
{
	bool there = false;

	for (size_t i = 0; g->origin && !there && i < o->given_count; i++)
		there = !o->given[i].origin && o->given[i].index == g->index;
	return there;
}

/* Apply the given options, and forget overruled ones. */
static int take_all(struct cks_options *o)
{
	size_t kept = 0;
	int ret = 0;

	for (size_t i = 0; i < o->given_count; i++) {
		if (!is_overruled(o, &o->given[i]))
			o->given[kept++] = o->given[i];
	}
	o->given_count = kept;
	for (size_t i = 0; ret == 0 && i < kept; i++)
		ret = apply_option(o, &o->given[i]);
	return ret;
}

/* The table as getopt_long takes it. */
static void all_options(struct option out[OPTIONS_MOST + 1])
{
	size_t count = cks_option_count();

	for (size_t i = 0; i < count; i++) {
		struct cks_option option = cks_option_at(i);

		out[i] = (struct option){option.name,
					 option.argument ? required_argument : no_argument, NULL,
					 OPT_ROW + (int)i};
	}
	out[count] = (struct option){NULL, 0, NULL, 0};
}

/* The words behind the options: names of --setup and --new-cert, words of --ctl. */
static int take_rest(const char *program, char **rest, size_t count, struct cks_options *o)
{
	if (o->setup)
		return cks_setup(program, o->announce, rest, count) < 0 ? -EINVAL : 1;
	if (o->announce)
		return report_error("--announce", "needs --setup");
	if (o->new_cert)
		return cks_new_cert(o->new_cert, rest, count) < 0 ? -EINVAL : 1;
	if (!o->words)
		return count > 0 ? report_error(rest[0], "unexpected argument") : 0;
	o->words = rest;
	o->word_count = count;
	return 0;
}

static int check_tls(struct cks_options *o)
{
	bool any = o->tls_cert || o->tls_key;

	if (any && (!o->tls_cert || !o->tls_key))
		return report_error("--tls-cert, --tls-key", "must be given together");
	if (o->tls_ca && !any)
		return report_error("--tls-ca", "needs --tls-cert and --tls-key");
	o->tls_required &= any;
	return 0;
}

/* The value of @variable, or its default; one that is set is an option that is given. */
static const char *from_environment(struct cks_options *o, const char *option, const char *variable)
{
	const char *value = ck_env_string(variable);

	if (getenv(variable))
		cks_options_give(o, cks_option_find(option), value, variable);
	return value;
}

static int take_environment(struct cks_options *o)
{
	char why[CK_OPTION_WHY];

	if (!o->driver)
		o->driver = from_environment(o, "driver", "CRICKET_DRIVER");
	if (!o->cache_dir)
		o->cache_dir = from_environment(o, "cache-dir", "CRICKET_CACHE_DIR");
	if (cks_option_sandbox(ck_env_string("CRICKET_SANDBOX"), NULL, why) < 0)
		return report_error("CRICKET_SANDBOX", why);
	/* NCCL in the workers: it would export what a captured operation uses, and leased memory is
	 * in pieces */
	return setenv("NCCL_GRAPH_REGISTER", "0", 0) < 0 ? -errno : 0;
}

static bool is_none(const char *word)
{
	return strcmp(word, "none") == 0;
}

/* The default, or no address at all. */
static int set_default_listen(struct cks_options *o)
{
	if (o->listen_count == 0)
		o->listen[o->listen_count++] = "127.0.0.1";
	for (size_t i = 0; o->listen_count > 1 && i < o->listen_count; i++) {
		if (is_none(o->listen[i]))
			return report_error("--listen", "none cannot be combined with addresses");
	}
	if (is_none(o->listen[0]))
		o->listen_count = 0;
	if (o->listen_count == 0 && o->no_unix)
		return report_error("--listen none --no-unix", "no client could connect");
	for (size_t i = 0; i < o->listen_count; i++)
		cks_allowed_peers_listen(&o->pool_peers, o->listen[i]);
	return 0;
}

/* Check that the options go together, and set those that depend on others. */
static int resolve_options(struct cks_options *o)
{
	if ((o->limits.value[CK_LIMIT_SAVE] > 0) != (o->checkpoint_dir != NULL))
		return report_error("--checkpoint-every, --checkpoint-dir",
				    "must be given together");
	if (o->audit_required && !o->audit)
		return report_error("--audit-required, --audit", "must be given together");
	if (check_tls(o) < 0)
		return -EINVAL;
	cks_limits_set_defaults(&o->limits, o->max_sessions);
	return set_default_listen(o);
}

/* Gather the options of the command line, and of the file that it names. */
static int gather_options(int argc, char **argv, struct cks_options *o)
{
	struct option options[OPTIONS_MOST + 1];
	int option, ret = 0;

	_Static_assert(CK_LIMITS < OPTIONS_MOST, "the table has room for the limits");
	all_options(options);
	while (ret == 0 && (option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (option < OPT_ROW) {
			fprintf(stderr, "Try 'cricket-rpc-server --help'.\n");
			return -EINVAL;
		}
		if (strcmp(options[option - OPT_ROW].name, "config") == 0)
			o->config = optarg;
		ret = cks_options_give(o, (size_t)(option - OPT_ROW), optarg, NULL);
	}
	return ret == 0 && o->config ? cks_options_read(o, o->config) : ret;
}

int cks_options_parse(int argc, char **argv, struct cks_options *o)
{
	int ret;

	*o = (struct cks_options){.max_sessions = CK_SESSIONS,
				  .socket_group = -1,
				  .tls_required = true,
				  .warm = -1,
				  .standby = -1,
				  .warm_devices = CK_WARM_DEVICES,
				  .criu = "criu"};
	cks_limits_init(&o->limits);
	cks_allowed_peers_parse(CK_ALLOWED_DEFAULT, &o->pool_peers);
	ret = gather_options(argc, argv, o);
	if (ret == 0 && cks_options_gives(o, "new-token") && optind < argc)
		ret = report_error(argv[optind], "unexpected argument");
	if (ret == 0)
		ret = take_all(o);
	if (ret == 0)
		ret = take_rest(argv[0], argv + optind, (size_t)(argc - optind), o);
	if (ret == 0)
		ret = take_environment(o);
	return ret ? ret : resolve_options(o);
}

char **cks_options_arguments(const struct cks_options *o, const char *program)
{
	char **argv = calloc(o->given_count + 2, sizeof(*argv));
	size_t n = 1;

	if (!argv)
		return NULL;
	argv[0] = (char *)(uintptr_t)program;
	for (size_t i = 0; i < o->given_count; i++) {
		const struct cks_given *g = &o->given[i];
		struct cks_option option = cks_option_at(g->index);

		if (option.section == CKS_COMMANDS)
			continue;
		if (asprintf(&argv[n++], option.argument ? "--%s=%s" : "--%s", option.name,
			     g->value) < 0)
			return NULL; /* the process ends */
	}
	return argv;
}
