/*
 * server/rules/uids.c - see uids.h.
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

#include "server/modules/cachedir.h"
#include "server/rules/uids.h"

#define CK_FOLDER "users"
#define CK_FOLDER_NAME (CK_HASH_TEXT + 16)

struct row {
	struct row *next;
	struct ck_hash identity;
	uid_t user;
	unsigned int sessions;
};

struct cks_uids {
	struct cks_user_range range;
	struct row *rows;
};

struct cks_uids *cks_uids_create(const struct cks_user_range *range)
{
	struct cks_uids *uids = calloc(1, sizeof(*uids));

	if (uids)
		uids->range = *range;
	return uids;
}

void cks_uids_destroy(struct cks_uids *uids)
{
	while (uids && uids->rows) {
		struct row *row = uids->rows;

		uids->rows = row->next;
		free(row);
	}
	free(uids);
}

static struct row *row_of(struct cks_uids *uids, const struct ck_hash *identity)
{
	struct row *row = uids->rows;

	while (row && !ck_hash_equal(&row->identity, identity))
		row = row->next;
	return row;
}

static bool is_taken(const struct cks_uids *uids, uid_t user)
{
	const struct row *row = uids->rows;

	while (row && row->user != user)
		row = row->next;
	return row != NULL;
}

static int add_row(struct cks_uids *uids, const struct ck_hash *identity, uid_t user)
{
	struct row *row = calloc(1, sizeof(*row));

	if (!row)
		return -ENOMEM;
	*row = (struct row){.next = uids->rows, .identity = *identity, .user = user, .sessions = 1};
	uids->rows = row;
	return 0;
}

int cks_uids_take(struct cks_uids *uids, const struct ck_hash *identity, uid_t *user)
{
	struct row *row = row_of(uids, identity);
	uint64_t count = (uint64_t)uids->range.last - uids->range.first + 1, first;

	if (row) {
		row->sessions++;
		*user = row->user;
		return 0;
	}
	memcpy(&first, identity->bytes, sizeof(first));
	for (uint64_t i = 0; i < count; i++) {
		*user = (uid_t)(uids->range.first + (first % count + i) % count);
		if (!is_taken(uids, *user))
			return add_row(uids, identity, *user);
	}
	return -EUSERS;
}

int cks_uids_claim(struct cks_uids *uids, const struct ck_hash *identity, uid_t user)
{
	struct row *row = row_of(uids, identity);

	if (!cks_users_has(&uids->range, user))
		return 0;
	if (row && row->user == user) {
		row->sessions++;
		return 0;
	}
	/* as two users, if the identity has another by now: the rows are found by user */
	return is_taken(uids, user) ? -EEXIST : add_row(uids, identity, user);
}

void cks_uids_leave(struct cks_uids *uids, uid_t user)
{
	struct row **at = uids ? &uids->rows : NULL, *row;

	while (at && *at && (*at)->user != user)
		at = &(*at)->next;
	row = at ? *at : NULL;
	if (!row || --row->sessions > 0)
		return;
	*at = row->next;
	free(row);
}

static int open_folder(int dir, const char *name, mode_t mode)
{
	int fd;

	if (mkdirat(dir, name, 0700) < 0 && errno != EEXIST)
		return -errno;
	fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd >= 0 && fchmod(fd, mode) == 0)
		return fd;
	if (fd >= 0)
		close(fd);
	return -errno;
}

static void name_folder(const struct ck_hash *identity, uid_t user, char name[CK_FOLDER_NAME])
{
	char hash[CK_HASH_TEXT];

	ck_hash_print(identity, hash);
	snprintf(name, CK_FOLDER_NAME, "%s.%u", hash, (unsigned int)user);
}

/* Each has a folder since its first session. */
bool cks_uids_had(const char *cache_dir, const struct ck_hash *identity, uid_t user)
{
	char name[CK_FOLDER_NAME], path[CK_FOLDER_NAME + 8];
	int dir = cks_cachedir_open(cache_dir);
	bool had;

	if (dir < 0)
		return false;
	name_folder(identity, user, name);
	snprintf(path, sizeof(path), CK_FOLDER "/%s", name);
	had = faccessat(dir, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
	close(dir);
	return had;
}

int cks_uids_cache(const char *cache_dir, const struct ck_hash *identity, uid_t user)
{
	char name[CK_FOLDER_NAME];
	int dir = cks_cachedir_open(cache_dir), users, fd;

	if (dir < 0)
		return dir;
	users = open_folder(dir, CK_FOLDER, 0700);
	close(dir);
	if (users < 0)
		return users;
	name_folder(identity, user, name);
	fd = open_folder(users, name, 0777);
	close(users);
	return fd;
}
