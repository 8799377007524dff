/*
 * server/processes/token.c - see token.h.
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "server/processes/token.h"
#include "util/env.h"
#include "util/hash.h"
#include "util/log.h"

CK_LOG_DEFINE("server");

#define CK_TOKEN_MAX 1024

bool ck_secret_equal(const void *a, const void *b, size_t size)
{
	const volatile uint8_t *x = a, *y = b;
	uint8_t differ = 0;

	for (size_t i = 0; i < size; i++)
		differ |= x[i] ^ y[i];
	return differ == 0;
}

/* The secret of @file in @out: its length, or -errno. */
static long read_token(const char *file, char out[CK_TOKEN_MAX])
{
	FILE *f = fopen(file, "re");
	size_t n;

	if (!f)
		return -errno;
	n = fread(out, 1, CK_TOKEN_MAX, f);
	if (ferror(f) || n == CK_TOKEN_MAX) {
		fclose(f);
		return -EFBIG;
	}
	fclose(f);
	while (n > 0 && strchr("\r\n", out[n - 1]))
		n--;
	return n > 0 ? (long)n : -EINVAL; /* an empty secret would admit everyone who says none */
}

bool ck_token_wanted(const char *file)
{
	const char *secret = ck_env_string("CRICKET_TOKEN");

	return file || (secret && *secret);
}

bool ck_token_admits(const char *file, const void *token, size_t size)
{
	struct ck_hash ours, theirs;
	char text[CK_TOKEN_MAX];
	const char *secret = text;
	long n;

	if (file) {
		n = read_token(file, text);
		if (n < 0) {
			ck_err("token file %s: %s", file, strerror((int)-n));
			return false;
		}
	} else if (ck_token_wanted(NULL)) {
		secret = ck_env_string("CRICKET_TOKEN");
		n = (long)strlen(secret);
	} else {
		return true;
	}
	/* Hashes have one length: comparing them tells nothing of the secret's. */
	ck_hash(secret, (size_t)n, &ours);
	ck_hash(token, size, &theirs);
	return ck_secret_equal(ours.bytes, theirs.bytes, sizeof(ours.bytes));
}
