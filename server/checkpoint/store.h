/*
 * server/checkpoint/store.h - the folder of a checkpoint: there as a whole, or not at all.
 *
 * It contains a process's memory, and who can write it can have the server run anything. So it
 * belongs to the server's user, and no other user may read it.
 */
#ifndef CK_SERVER_CHECKPOINT_STORE_H
#define CK_SERVER_CHECKPOINT_STORE_H

#include <stdbool.h>

#include "server/checkpoint/failure_text.h"

#define CK_STORE_PATH 3840 /* leaves room for a file's name */

/* A folder that is being filled; its files get their place all at once. */
struct cks_store {
	char path[CK_STORE_PATH];      /* where it will be */
	char part[CK_STORE_PATH + 16]; /* where it is */
	int dir;		       /* of @part */
};

/* Create @store->part beside @path. @path must not exist, unless @replace and it is a folder. */
int cks_store_begin(const char *path, bool replace, struct cks_store *store, struct cks_why *why);

/* Give it its name; a folder that has the name is removed afterwards. */
int cks_store_commit(struct cks_store *store, struct cks_why *why);

/* Remove it. Does nothing after a commit. */
void cks_store_abandon(struct cks_store *store);

/* Open the finished folder @path, if it belongs to the server's user alone; or -errno. */
int cks_store_open(const char *path, struct cks_why *why);

/* Remove a folder and all that it contains; symbolic links are not followed. */
void cks_store_remove(const char *path);

#endif
