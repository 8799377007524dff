/*
 * command/login/token.c - `cricket token`: the list of the tokens that a server of this host
 * accepts.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "command/config/command.h"
#include "util/address/server_files.h"
#include "util/address/token_file_edit.h"
#include "util/util.h"
#include "util/process/home.h"

static const struct option options[] = {{"file", required_argument, NULL, 'f'},
					{"expires", required_argument, NULL, 'e'},
					{NULL, 0, NULL, 0}};

#define NO_NAME "not a name of 1 to %d letters, digits and .-_@"

/* One run of the command. */
struct request {
	const char *name, *date; /* NULL: none */
	const char *path;	 /* of the list */
	struct ck_server_files files;
	bool own; /* the list is the usual one */
};

static int report_error(const struct request *r, int error, unsigned int line)
{
	if (line)
		return ckx_error("%s:%u: %s", r->path, line, CK_TOKEN_FILE_WRONG);
	if (error == -EINVAL)
		return ckx_error("%s: it is a single secret, not a list: give the server another "
				 "file (--token-file)",
				 r->path);
	if (error == -EFBIG)
		return ckx_error("%s: a list has at most %d bytes", r->path,
				 CK_TOKEN_FILE_SIZE - 1);
	return ckx_error("%s: %s", r->path, strerror(-error));
}

static int add_token(const struct request *r)
{
	char token[CK_HOLDER_TOKEN], line[CK_HOLDER_LINE];
	unsigned int wrong;
	size_t expired;
	int ret = ck_token_file_new(r->name, r->date, token, line);

	if (ret < 0)
		return ckx_error(NO_NAME ", or not a date as in 2027-01-31: %s%s%s",
				 CK_HOLDER_NAME - 1, r->name, r->date ? ", " : "",
				 r->date ? r->date : "");
	ck_token_file_count(line, time(NULL), &expired);
	if (expired > 0)
		return ckx_error("this day is over: %s", r->date);
	ret = r->own ? ck_server_files_make(&r->files) : 0;
	if (ret == 0)
		ret = ck_token_file_add(r->path, 0600, r->name, r->date, token, &wrong);
	else
		wrong = 0;
	if (ret == 0 && r->own)
		ret = ck_server_files_share(&r->files, r->path);
	if (ret < 0)
		return report_error(r, ret, wrong);
	puts(token);
	explicit_bzero(token, sizeof(token));
	if (fflush(stdout) != 0)
		return ckx_error("the token could not be shown: `cricket token revoke %s`, and add "
				 "another",
				 r->name);
	if (isatty(STDOUT_FILENO))
		printf("This is the token of %s, for `cricket login`. Its hash is in %s; it is not "
		       "shown again.\n",
		       r->name, r->path);
	return CKX_OK;
}

static int revoke_tokens(const struct request *r)
{
	unsigned int wrong;
	size_t count;
	int ret;

	if (!ck_token_file_is_name(r->name, strlen(r->name)))
		return ckx_error(NO_NAME ": %s", CK_HOLDER_NAME - 1, r->name);
	ret = ck_token_file_revoke(r->path, r->name, &count, &wrong);
	if (ret < 0)
		return report_error(r, ret, wrong);
	if (count == 0)
		return ckx_error("%s: it has no token of %s", r->path, r->name);
	printf("%zu token%s of %s %s revoked. Running sessions continue; `cricket end` ends "
	       "them.\n",
	       count, count == 1 ? "" : "s", r->name, count == 1 ? "is" : "are");
	return CKX_OK;
}

static int list_tokens(const struct request *r)
{
	static char text[CK_TOKEN_FILE_SIZE];
	unsigned int wrong;
	char today[16];
	time_t now = time(NULL);
	int ret = ck_token_file_read(r->path, text, &wrong);

	if (ret == 0 && access(r->path, F_OK) < 0)
		ret = -errno;
	if (ret == -ENOENT && r->own) {
		printf("There are no tokens: there is no %s. `cricket token add NAME` makes it.\n",
		       r->path);
		return CKX_OK;
	}
	if (ret < 0)
		return report_error(r, ret, wrong);
	strftime(today, sizeof(today), "%Y-%m-%d", gmtime(&now));
	printf("%-20s %-10s %s\n", "NAME", "HASH", "EXPIRES");
	for (char *line = strtok(text, "\r\n"); line; line = strtok(NULL, "\r\n")) {
		const char *hash = strchr(line, ':'), *date;

		if (*line == '#' || !hash)
			continue;
		date = strchr(hash + 1, ':');
		printf("%-20.*s %-10.8s %s%s\n", (int)(hash - line), line, hash + 1,
		       date ? date + 1 : "never",
		       date && strncmp(date + 1, today, strlen(today)) < 0 ? " (expired)" : "");
	}
	return CKX_OK;
}

static const struct {
	const char *verb;
	int (*run)(const struct request *r);
	bool name, date; /* it has one */
} verbs[] = {{"add", add_token, true, true},
	     {"list", list_tokens, false, false},
	     {"revoke", revoke_tokens, true, false}};

static int run_verb(const struct ckx_command *self, struct request *r, const char *verb)
{
	int ret;

	for (size_t i = 0; i < CK_ARRAY_SIZE(verbs); i++) {
		if (strcmp(verbs[i].verb, verb) != 0)
			continue;
		if (verbs[i].name != (r->name != NULL) || (r->date && !verbs[i].date))
			return ckx_usage(self);
		if (r->path && !*r->path)
			return ckx_error("--file names no file: it is empty");
		ret = ck_server_files_find(&r->files);
		r->own = !r->path;
		if (r->own && ret < 0)
			return ckx_error("%s", ret == -ENOENT ? CK_HOME_NONE : strerror(-ret));
		if (r->own)
			r->path = r->files.tokens;
		return verbs[i].run(r);
	}
	return ckx_usage(self);
}

int ckx_token(const struct ckx_command *self, int argc, char **argv)
{
	struct request request = {.name = NULL};
	int option;

	while ((option = getopt_long(argc, argv, "f:e:", options, NULL)) != -1) {
		if (option == '?')
			return ckx_usage(self);
		if (option == 'f')
			request.path = optarg;
		else
			request.date = optarg;
	}
	if (argc - optind < 1 || argc - optind > 2)
		return ckx_usage(self);
	request.name = argv[optind + 1];
	return run_verb(self, &request, argv[optind]);
}
