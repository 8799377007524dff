/*
 * command/exporter/access.c - see access.h. The list of tokens is read for each question: it is
 * small, and may have changed.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "command/config/command.h"
#include "command/exporter/access.h"
#include "util/hash.h"
#include "util/address/token_file.h"
#include "util/util.h"

#define LIST_MAX 65536		    /* bytes, as for the server */
#define SINGLE "the token's holder" /* the identity of all who have a server's only token */

/* The text of @file, and its kind (ck_token_file_check()). -errno; *@line: what is wrong, if not
 * 0. */
static int read_list(const char *file, char text[LIST_MAX], unsigned int *line)
{
	FILE *f = fopen(file, "re");
	size_t n;
	int ret;

	*line = 0;
	text[0] = '\0';
	if (!f)
		return -errno;
	n = fread(text, 1, LIST_MAX - 1, f);
	ret = ferror(f) ? -errno : !feof(f) ? -EFBIG : 0;
	fclose(f);
	text[n] = '\0';
	if (ret == 0)
		ret = ck_token_file_check(text, n, line);
	if (ret != -EINVAL)
		*line = 0;
	return ret;
}

int ckx_access_check(const char *file)
{
	char text[LIST_MAX];
	unsigned int line;
	int ret = read_list(file, text, &line);

	if (ret < 0 && line)
		ckx_error("%s:%u: %s", file, line, CK_TOKEN_FILE_WRONG);
	else if (ret < 0)
		ckx_error("%s: %s", file, ret == -ENODATA ? "it is empty" : strerror(-ret));
	explicit_bzero(text, sizeof(text));
	return ck_min(ret, 0);
}

/* Equal in a time that does not depend on where they differ. */
static bool secrets_are_equal(const char *a, const char *b)
{
	struct ck_hash one, other;

	ck_hash(a, strlen(a), &one);
	ck_hash(b, strlen(b), &other);
	return ck_secret_equal(one.bytes, other.bytes, sizeof(one.bytes));
}

static bool find_holder(const char *file, const char *token, char identity[CKX_IDENTITY])
{
	char text[LIST_MAX], name[CK_HOLDER_NAME] = "";
	unsigned int line;
	bool found = false;
	int ret = read_list(file, text, &line);

	if (ret == 0) {
		found = ck_token_file_find(text, token, strlen(token), time(NULL), name);
		snprintf(identity, CKX_IDENTITY, "%s", name);
	} else if (ret == CK_TOKEN_FILE_SECRET) {
		text[strcspn(text, "\r\n")] = '\0';
		found = text[0] && secrets_are_equal(text, token);
		snprintf(identity, CKX_IDENTITY, "%s", SINGLE);
	}
	explicit_bzero(text, sizeof(text));
	return found;
}

bool ckx_access_find(const struct ckx_access *a, const char *secret, struct ckx_asker *asker)
{
	*asker = (struct ckx_asker){.all = !a->password && !a->token_file};
	if (asker->all)
		return true;
	if (!secret || !secret[0])
		return false;
	asker->all = a->password && secrets_are_equal(a->password, secret);
	return asker->all || (a->token_file && find_holder(a->token_file, secret, asker->identity));
}

/* The entries of @list that are of @identity. */
static json_t *filter_entries(const json_t *list, const char *identity)
{
	json_t *kept = json_array(), *entry;
	size_t i;

	json_array_foreach(list, i, entry)
	{
		const char *name = json_string_value(json_object_get(entry, "identity"));

		if (name && strcmp(name, identity) == 0)
			json_array_append(kept, entry);
	}
	return kept;
}

/* The parts of a report that all users of the host may see too (docs/status.md), and the GPUs. */
static const char *const common[] = {
	"version",	"release", "driver",	    "pid",    "session_count",
	"max_sessions", "time",	   "waiting_count", "spares", "gpus",
};

json_t *ckx_access_filter(json_t *report, const struct ckx_asker *asker)
{
	json_t *shown;

	if (!report || asker->all)
		return json_incref(report);
	shown = json_pack("{s:b, s:o, s:o}", "all", 0, "sessions",
			  filter_entries(json_object_get(report, "sessions"), asker->identity),
			  "waiting",
			  filter_entries(json_object_get(report, "waiting"), asker->identity));
	for (size_t i = 0; shown && i < CK_ARRAY_SIZE(common); i++) {
		json_t *value = json_object_get(report, common[i]);

		if (value)
			json_object_set(shown, common[i], value);
	}
	return shown;
}
