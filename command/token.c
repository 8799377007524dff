/*
 * command/token.c - see token.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "command/command.h"
#include "command/place.h"
#include "command/token.h"

#define LINE (CKX_TEXT + CKX_TOKEN + 2)

static int fail(const char *path, int error)
{
	ckx_error("%s: %s", path, strerror(error));
	return -error;
}

/* The token in @line if it is that of @address; else NULL. */
static char *token_of(char *line, const char *address)
{
	size_t size = strlen(address);

	line[strcspn(line, "\r\n")] = '\0';
	return strncmp(line, address, size) == 0 && line[size] == ' ' ? line + size + 1 : NULL;
}

/* Open the file; NULL with *@ret 0: there is none. */
static FILE *open_own(const char *path, int *ret)
{
	FILE *f = fopen(path, "re");
	struct stat st;

	*ret = 0;
	if (!f) {
		*ret = errno == ENOENT ? 0 : fail(path, errno);
		return NULL;
	}
	if (fstat(fileno(f), &st) == 0 && !(st.st_mode & 077))
		return f;
	ckx_error("%s: others can read it, so its tokens are not used; run: chmod 600 %s", path,
		  path);
	*ret = -EPERM;
	fclose(f);
	return NULL;
}

int ckx_token_find(const char *address, char out[CKX_TOKEN])
{
	char path[CKX_PATH], line[LINE];
	const char *token;
	FILE *f;
	int ret;

	out[0] = '\0';
	if (ckx_place_own("tokens", path) < 0)
		return 0;
	f = open_own(path, &ret);
	while (f && !out[0] && fgets(line, sizeof(line), f)) {
		token = token_of(line, address);
		if (token)
			snprintf(out, CKX_TOKEN, "%s", token);
	}
	explicit_bzero(line, sizeof(line));
	if (f)
		fclose(f);
	return ret;
}

int ckx_token_read(const char *path, char out[CKX_TOKEN])
{
	FILE *f = fopen(path, "re");

	if (!f)
		return fail(path, errno);
	if (!fgets(out, CKX_TOKEN, f))
		out[0] = '\0';
	fclose(f);
	out[strcspn(out, "\r\n")] = '\0';
	return out[0] ? 0 : fail(path, ENODATA);
}

/* Copy all lines but that of @address; true: it was there. */
static bool copy_others(FILE *in, FILE *out, const char *address)
{
	char line[LINE], copy[LINE];
	bool found = false;

	while (in && fgets(line, sizeof(line), in)) {
		strcpy(copy, line);
		if (token_of(copy, address))
			found = true;
		else
			fputs(line, out);
	}
	explicit_bzero(line, sizeof(line));
	explicit_bzero(copy, sizeof(copy));
	return found;
}

static int make_folders(char *path)
{
	for (char *c = path + 1; (c = strchr(c, '/')) != NULL; *c++ = '/') {
		*c = '\0';
		if (mkdir(path, 0700) < 0 && errno != EEXIST)
			return fail(path, errno);
	}
	return 0;
}

int ckx_token_keep(const char *address, const char *token)
{
	char path[CKX_PATH], fresh[CKX_PATH + 8];
	FILE *in, *out;
	bool found, ok;
	int ret, fd;

	ret = ckx_place_own("tokens", path);
	if (ret < 0)
		return fail("~/.config/cricket/tokens", -ret);
	ret = make_folders(path);
	in = ret == 0 ? open_own(path, &ret) : NULL;
	if (ret < 0)
		return ret;
	snprintf(fresh, sizeof(fresh), "%s.XXXXXX", path);
	fd = mkostemp(fresh, O_CLOEXEC); /* mode 0600 */
	out = fd >= 0 ? fdopen(fd, "w") : NULL;
	if (!out) {
		if (in)
			fclose(in);
		return fail(fresh, errno);
	}
	found = copy_others(in, out, address);
	if (in)
		fclose(in);
	if (token)
		fprintf(out, "%s %s\n", address, token);
	ok = !ferror(out);
	ok = fclose(out) == 0 && ok && rename(fresh, path) == 0;
	if (!ok) {
		ret = fail(path, errno);
		unlink(fresh);
	}
	return ret < 0 ? ret : token || found ? 0 : -ENOENT;
}
