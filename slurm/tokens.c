/*
 * slurm/tokens.c - see tokens.h.
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <errno.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "slurm/tokens.h"
#include "util/hash.h"

#define LINE (CK_SLURM_NAME + CK_HASH_TEXT + 2)

int ck_slurm_token_new(char token[CK_SLURM_TOKEN])
{
	struct ck_hash bytes;

	if (getrandom(bytes.bytes, sizeof(bytes.bytes), 0) != sizeof(bytes.bytes))
		return -EIO;
	ck_hash_print(&bytes, token);
	return 0;
}

static size_t line_of(const char *name, const char *token, char line[LINE])
{
	struct ck_hash hash;
	char hex[CK_HASH_TEXT];

	ck_hash(token, strlen(token), &hash);
	ck_hash_print(&hash, hex);
	return (size_t)snprintf(line, LINE, "%s:%s\n", name, hex);
}

int ck_slurm_token_add(const char *path, const char *name, const char *token)
{
	char line[LINE], *text, *all;
	size_t have, more = line_of(name, token, line);
	bool open_line;
	int ret;

	text = ck_slurm_read(path, &ret);
	if (!text)
		return ret;
	have = strlen(text);
	open_line = have > 0 && text[have - 1] != '\n';
	ret = have + more + 1 >= CK_SLURM_FILE ? -EFBIG : 0;
	all = ret == 0 ? malloc(have + more + 2) : NULL;
	if (all) {
		snprintf(all, have + more + 2, "%s%s%s", text, open_line ? "\n" : "", line);
		ret = ck_slurm_write(path, all, strlen(all));
	} else if (ret == 0) {
		ret = -ENOMEM;
	}
	free(all);
	free(text);
	return ret;
}

int ck_slurm_token_remove(const char *path, const char *name, const char *token)
{
	char line[LINE], *text, *at;
	size_t size = line_of(name, token, line);
	int ret;

	text = ck_slurm_read(path, &ret);
	if (!text)
		return ret;
	at = strstr(text, line);
	if (at && (at == text || at[-1] == '\n')) {
		memmove(at, at + size, strlen(at + size) + 1);
		/* An empty file would stop the server from starting; a comment does not. */
		ret = *text ? ck_slurm_write(path, text, strlen(text))
			    : ck_slurm_write(path, "# tokens of jobs\n", 17);
	}
	free(text);
	return ret;
}

void ck_slurm_token_name(uid_t uid, char name[CK_SLURM_NAME])
{
	char buffer[4096];
	struct passwd entry, *found = NULL;
	const char *user = NULL;

	if (getpwuid_r(uid, &entry, buffer, sizeof(buffer), &found) == 0 && found)
		user = found->pw_name;
	for (size_t i = 0; user && user[i]; i++)
		if (i > CK_SLURM_NAME - 8 ||
		    (!isalnum((unsigned char)user[i]) && !strchr(".-_", user[i])))
			user = NULL;
	if (user && *user)
		snprintf(name, CK_SLURM_NAME, "%s@slurm", user);
	else
		snprintf(name, CK_SLURM_NAME, "%u@slurm", (unsigned int)uid);
}
