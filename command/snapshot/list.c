/*
 * command/snapshot/list.c - `cricket snapshots`: list and remove them.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "command/config/command.h"
#include "command/snapshot/files.h"
#include "util/text.h"

static void print_row(const char *name)
{
	const char *program = "?", *release = "?";
	char path[CKX_PATH], text[48] = "?", shown[64];
	json_int_t created = 0, memory = 0;
	struct ckx_snapshot s;
	json_t *about;
	time_t when;

	if (ckx_snapshot_find(name, &s) < 0)
		return;
	about = json_load_file(ckx_snapshot_path(&s, "snapshot.json", path), 0, NULL);
	json_unpack(about, "{s:s, s:s, s:I, s:I}", "program", &program, "release", &release,
		    "created", &created, "memory", &memory);
	when = (time_t)created;
	if (about)
		strftime(text, sizeof(text), "%Y-%m-%d %H:%M", localtime(&when));
	ck_text_copy(shown, sizeof(shown), program);
	printf("%-20s %-16s %8lld MiB  %-10s %s\n", name, text, (long long)memory >> 20, release,
	       about ? shown : "(not complete)");
	json_decref(about);
}

static int is_shown(const struct dirent *entry)
{
	return entry->d_name[0] != '.';
}

static int list(void)
{
	struct ckx_snapshot any;
	struct dirent **found;
	char *slash;
	int count;

	if (ckx_snapshot_find("any", &any) < 0)
		return CKX_FAILED;
	slash = strrchr(any.folder, '/');
	*slash = '\0';
	count = scandir(any.folder, &found, is_shown, alphasort);
	if (count < 0 && errno != ENOENT)
		return ckx_error("%s: %s", any.folder, strerror(errno));
	if (count > 0)
		printf("%-20s %-16s %12s  %-10s %s\n", "NAME", "CREATED", "MEMORY", "RELEASE",
		       "PROGRAM");
	for (int i = 0; i < count; i++) {
		print_row(found[i]->d_name);
		free(found[i]);
	}
	if (count >= 0)
		free(found);
	return CKX_OK;
}

static int remove_one(const char *name)
{
	struct ckx_snapshot s;
	struct stat st;

	if (ckx_snapshot_find(name, &s) < 0)
		return CKX_FAILED;
	if (lstat(s.folder, &st) < 0)
		return ckx_error("there is no snapshot %s", name);
	return ckx_snapshot_remove(&s) < 0 ? CKX_FAILED : CKX_OK;
}

int ckx_snapshots(const struct ckx_command *self, int argc, char **argv)
{
	int status = CKX_OK;

	if (argc == 1)
		return list();
	if (strcmp(argv[1], "rm") != 0 || argc == 2)
		return ckx_usage(self);
	for (int i = 2; i < argc; i++) {
		if (remove_one(argv[i]) != CKX_OK)
			status = CKX_FAILED;
	}
	return status;
}
