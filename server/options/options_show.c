/*
 * server/options/options_show.c - prints for --show-config and `--ctl config` each option with its
 * origin, and the files that belong to them.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "server/options/option_table.h"
#include "server/options/options.h"
#include "server/policy/policy.h"
#include "server/policy/token.h"

#define CK_COLUMN 44 /* of the origins */

static void print_option(FILE *out, const char *before, const char *name, const char *value,
			 const char *origin)
{
	int n = fprintf(out, "%s%s = %s", before, name, value);

	fprintf(out, "%*s # %s\n", n < CK_COLUMN ? CK_COLUMN - n : 0, "", origin);
}

static void show_option(const struct cks_options *options, size_t index, FILE *out)
{
	struct cks_option o = cks_option_at(index);
	bool given = false;

	for (size_t i = 0; i < options->given_count; i++) {
		const struct cks_given *g = &options->given[i];

		if (g->index != index)
			continue;
		given = true;
		print_option(out, "", o.name, g->value ? g->value : "yes",
			     g->origin ? g->origin : "command line");
	}
	if (!given)
		print_option(out, "#", o.name, o.usual ? o.usual : "no", "default");
}

int cks_options_wrong(FILE *out, const char *option, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fprintf(out, "# WRONG: %s: ", option);
	vfprintf(out, format, args);
	fputc('\n', out);
	va_end(args);
	return -EINVAL;
}

bool cks_options_service_makes(FILE *out, const char *option, const char *path)
{
	/* StateDirectory= and others of cricket-rpc-server.service */
	static const char *const folders[] = {"/var/lib/cricket", "/var/log/cricket",
					      "/var/cache/cricket", "/run/cricket"};

	for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
		size_t n = strlen(folders[i]);

		if (strncmp(path, folders[i], n) != 0 || (path[n] && path[n] != '/') ||
		    access(folders[i], F_OK) == 0)
			continue;
		fprintf(out, "# %s: the service's unit makes %s\n", option, folders[i]);
		return true;
	}
	return false;
}

static int show_tokens(const char *file, FILE *out)
{
	static struct cks_token token;
	char why[CK_TOKEN_WHY];
	int ret = cks_token_read(file, &token, why);
	size_t expired = 0, count = 0;

	if (ret == 0 && token.named)
		count = ck_token_file_count(token.text, time(NULL), &expired);
	if (ret < 0)
		cks_options_wrong(out, "token-file", "%s", why);
	else if (token.named)
		fprintf(out, "# %s: %zu tokens, %zu of them expired\n", file, count, expired);
	else
		fprintf(out, "# %s: one token, without a name\n", file);
	explicit_bzero(&token, sizeof(token));
	token = (struct cks_token){.known = false};
	return ret;
}

static int show_policy(const char *file, FILE *out)
{
	struct cks_policy *policy;
	char why[CK_POLICY_WHY];
	int ret = cks_policy_read(file, &policy, why);

	if (ret < 0)
		cks_options_wrong(out, "policy", "%s", why);
	else
		fprintf(out, "# %s: %zu identities, and the default\n", file,
			cks_policy_count(policy));
	cks_policy_free(policy);
	return ret;
}

int cks_options_show(const struct cks_options *options, FILE *out)
{
	int tokens = 0, policy = 0;

	for (int section = 0; section < CKS_COMMANDS; section++) {
		fprintf(out, "%s# --- %s\n", section ? "\n" : "",
			cks_section_title((enum cks_section)section));
		for (size_t i = 0; i < cks_option_count(); i++) {
			if ((int)cks_option_at(i).section == section)
				show_option(options, i, out);
		}
	}
	fprintf(out, "\n# --- What the files have\n");
	if (!options->token_file && cks_token_wanted(NULL))
		fprintf(out, "# CRICKET_TOKEN: one token, without a name\n");
	if (options->token_file)
		tokens = show_tokens(options->token_file, out);
	if (options->policy)
		policy = show_policy(options->policy, out);
	return tokens < 0 ? tokens : policy;
}
