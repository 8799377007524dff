/*
 * server/policy/token.c - see token.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "server/policy/token.h"
#include "util/address/token.h"
#include "util/env.h"
#include "util/hash.h"
#include "util/log.h"

CK_LOG_DEFINE("server");

#define CK_SETTLED_S 2 /* file times are coarse: changes within this time may go unnoticed */

static bool same_time(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

static bool file_is_unchanged(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
	       same_time(&a->st_mtim, &b->st_mtim) && same_time(&a->st_ctim, &b->st_ctim);
}

/*
 * Read the secret, or the named tokens, from the open file @f: 0 or -errno; *@line: what is wrong,
 * if not 0. -ESTALE: a list has become a secret, as when an editor has written only the beginning
 * of a file.
 */
static int read_token(FILE *f, struct cks_token *token, unsigned int *line)
{
	size_t n;
	int ret;

	if (fstat(fileno(f), &token->file) < 0)
		return -errno;
	n = fread(token->text, 1, sizeof(token->text) - 1, f);
	if (ferror(f))
		return S_ISDIR(token->file.st_mode) ? -EISDIR : -EIO;
	if (!feof(f))
		return -EFBIG;
	token->text[n] = '\0';
	ret = ck_token_file_check(token->text, n, line);
	token->named |= ret == 0;
	if (ret != -EINVAL)
		*line = 0;
	if (ret != CK_TOKEN_FILE_SECRET)
		return ret;
	if (token->named)
		return -ESTALE;
	if (n >= CK_TOKEN_MAX)
		return -EFBIG;
	while (n > 0 && strchr("\r\n", token->text[n - 1]))
		n--;
	token->size = n;
	return 0;
}

/* Read @file into @token, unless it is unchanged. -errno; *@line as above. */
static int refresh_token(struct cks_token *token, const char *file, unsigned int *line)
{
	struct stat now;
	FILE *f;
	int ret;

	*line = 0;
	if (token->known && stat(file, &now) == 0 && file_is_unchanged(&now, &token->file))
		return 0;
	token->known = false;
	f = fopen(file, "re");
	if (!f)
		return -errno;
	ret = read_token(f, token, line);
	fclose(f);
	token->known = ret == 0 && S_ISREG(token->file.st_mode) &&
		       time(NULL) - token->file.st_ctim.tv_sec > CK_SETTLED_S;
	return ret;
}

bool cks_token_wanted(const char *file)
{
	const char *secret = ck_env_string("CRICKET_TOKEN");

	return file || (secret && *secret);
}

/* "FILE:LINE: what is wrong", or "FILE: why". */
static const char *describe_error(const char *file, unsigned int line, int error,
				  char out[CK_TOKEN_WHY])
{
	const char *why = strerror(-error);

	if (line)
		return snprintf(out, CK_TOKEN_WHY, "%.200s:%u: %s", file, line,
				CK_TOKEN_FILE_WRONG),
		       out;
	if (error == -ENODATA)
		why = "it is empty";
	else if (error == -EFBIG)
		why = "it is too long";
	else if (error == -ESTALE)
		why = "it was a list of named tokens, and is a single secret now: write the list "
		      "again, "
		      "or restart the server";
	return snprintf(out, CK_TOKEN_WHY, "%.200s: %s", file, why), out;
}

int cks_token_read(const char *file, struct cks_token *token, char why[CK_TOKEN_WHY])
{
	unsigned int line;
	int ret = refresh_token(token, file, &line);

	if (ret < 0)
		describe_error(file, line, ret, why);
	return ret;
}

int cks_token_check(const char *file, char why[CK_TOKEN_WHY])
{
	struct cks_token token = {.known = false};
	int ret = file ? cks_token_read(file, &token, why) : 0;

	explicit_bzero(&token, sizeof(token));
	return ret;
}

bool cks_token_admits(struct cks_token *token, const char *file, const void *bytes, size_t size)
{
	struct ck_hash ours, theirs;
	const char *secret = token->text;
	char why[CK_TOKEN_WHY];
	unsigned int line;
	size_t n;
	int ret;

	token->holder[0] = '\0';
	if (file) {
		ret = refresh_token(token, file, &line);
		if (ret < 0) {
			ck_err("no client is admitted: token file %s",
			       describe_error(file, line, ret, why));
			return false;
		}
		if (token->named)
			return ck_token_file_find(token->text, bytes, size, time(NULL),
						  token->holder);
		n = token->size;
	} else if (cks_token_wanted(NULL)) {
		secret = ck_env_string("CRICKET_TOKEN");
		n = ck_token_length(secret);
		if (n == 0) /* a line break alone is no token, and admits none */
			return false;
	} else {
		return true;
	}
	/* Hashes have equal lengths: comparing them reveals nothing about the secret's length. */
	ck_hash(secret, n, &ours);
	ck_hash(bytes, size, &theirs);
	return ck_secret_equal(ours.bytes, theirs.bytes, sizeof(ours.bytes));
}
