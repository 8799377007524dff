/*
 * command/config/token_store.c - see token_store.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "command/config/command.h"
#include "command/config/install_paths.h"
#include "command/config/token_store.h"
#include "util/address/address.h"
#include "util/process/replace.h"

#define LINE (CKX_TEXT + CKX_TOKEN + 2)

static int report_error(const char *path, int error)
{
	ckx_error("%s: %s", path, strerror(error));
	return -error;
}

/* The token in @line if it is that of @address, in any spelling; else NULL. */
static char *token_of(char *line, const char *address)
{
	char *token = strchr(line, ' ');

	if (!token)
		return NULL;
	line[strcspn(line, "\r\n")] = '\0';
	*token++ = '\0';
	return ck_address_same(line, address) ? token : NULL;
}

/* Open the file; NULL with *@ret 0: there is none. */
static FILE *open_own(const char *path, int *ret)
{
	FILE *f = fopen(path, "re");
	struct stat st;

	*ret = 0;
	if (!f) {
		*ret = errno == ENOENT ? 0 : report_error(path, errno);
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
	if (ckx_install_path_own("tokens", path) < 0)
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
	int ret = ck_token_read(path, out);

	return ret < 0 ? report_error(path, -ret) : 0;
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

int ckx_token_keep(const char *address, const char *token)
{
	struct ck_replace file;
	char path[CKX_PATH];
	bool found = false;
	FILE *in;
	int ret = ckx_install_path_own_folder("tokens", path);

	if (ret < 0)
		return -EACCES;
	in = open_own(path, &ret);
	if (ret < 0)
		return ret;
	ret = ck_replace_begin(&file, path, 0600);
	if (ret == 0) {
		found = copy_others(in, file.out, address);
		if (token)
			fprintf(file.out, "%s %s\n", address, token);
		if (in && ferror(in)) { /* the rest would lose tokens */
			ck_replace_end(&file, false);
			ret = -EIO;
		} else {
			ret = ck_replace_end(&file, true);
		}
	}
	if (in)
		fclose(in);
	return ret < 0 ? report_error(path, -ret) : token || found ? 0 : -ENOENT;
}
