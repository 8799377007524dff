/*
 * server/processes/token.c - see token.h.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "server/processes/token.h"
#include "util/env.h"
#include "util/hash.h"
#include "util/log.h"

CK_LOG_DEFINE("server");

#define CK_SETTLED_S 2 /* file times are coarse: changes within this time may go unnoticed */

static bool same_time(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

static bool unchanged(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
	       same_time(&a->st_mtim, &b->st_mtim) && same_time(&a->st_ctim, &b->st_ctim);
}

/* Read the secret, or the named tokens, from the open file @f: 0 or -errno; *@line: what is wrong, if not 0. */
static int read_token(FILE *f, struct cks_token *token, unsigned int *line)
{
	size_t n;
	int ret;

	if (fstat(fileno(f), &token->file) < 0)
		return -errno;
	n = fread(token->text, 1, sizeof(token->text) - 1, f);
	if (ferror(f) || !feof(f))
		return -EFBIG;
	token->text[n] = '\0';
	ret = ck_holders_check(token->text, line);
	token->named = ret == 0;
	if (ret != -ENOENT)
		return ret;
	*line = 0;
	if (n >= CK_TOKEN_MAX)
		return -EFBIG;
	while (n > 0 && strchr("\r\n", token->text[n - 1]))
		n--;
	token->size = n;
	return n > 0 ? 0 : -EINVAL; /* an empty secret would admit clients without one */
}

/* Read @file into @token, unless it is unchanged. -errno; *@line as above. */
static int refresh(struct cks_token *token, const char *file, unsigned int *line)
{
	struct stat now;
	FILE *f;
	int ret;

	*line = 0;
	if (token->known && stat(file, &now) == 0 && unchanged(&now, &token->file))
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

static const char *reason(int error)
{
	if (error == -EINVAL)
		return "it is empty, or not as it should be";
	return error == -EFBIG ? "it is too long" : strerror(-error);
}

int cks_token_check(const char *file)
{
	struct cks_token token = {.known = false};
	unsigned int line;
	int ret = file ? refresh(&token, file, &line) : 0;

	if (ret < 0 && line)
		fprintf(stderr,
			"cricket-rpc-server: %s:%u: not NAME:HASH or NAME:HASH:YYYY-MM-DD\n", file,
			line);
	else if (ret < 0)
		fprintf(stderr, "cricket-rpc-server: --token-file %s: %s\n", file, reason(ret));
	return ret;
}

bool cks_token_admits(struct cks_token *token, const char *file, const void *bytes, size_t size)
{
	struct ck_hash ours, theirs;
	const char *secret = token->text;
	unsigned int line;
	size_t n;
	int ret;

	token->holder[0] = '\0';
	if (file) {
		ret = refresh(token, file, &line);
		if (ret < 0) {
			ck_err("token file %s: %s", file, reason(ret));
			return false;
		}
		if (token->named)
			return ck_holders_find(token->text, bytes, size, time(NULL), token->holder);
		n = token->size;
	} else if (cks_token_wanted(NULL)) {
		secret = ck_env_string("CRICKET_TOKEN");
		n = strlen(secret);
	} else {
		return true;
	}
	/* Hashes have equal lengths: comparing them reveals nothing about the secret's length. */
	ck_hash(secret, n, &ours);
	ck_hash(bytes, size, &theirs);
	return ck_secret_equal(ours.bytes, theirs.bytes, sizeof(ours.bytes));
}
