/*
 * command/snapshot/files.h - the folder of a snapshot: $XDG_DATA_HOME/cricket/snapshots/NAME, else
 * below ~/.local/share.
 *
 *     snapshot.json   what it is, and each file with size and hash; a folder without it is not
 *                     complete
 *     server          REMOTE_GPU_ADDRESS=file: of the program (client/link/repair.h)
 *     program/        CRIU's files of the program's processes
 *     session-N/      its sessions, as `cricket checkpoint` writes them
 *
 * All of it is for its owner only: it holds the program's memory, and who can change it can have
 * the owner run anything.
 */
#ifndef CK_COMMAND_SNAPSHOT_FILES_H
#define CK_COMMAND_SNAPSHOT_FILES_H

#include <jansson.h>
#include <stdint.h>

#include "command/config/install_paths.h"

#define CKX_SNAPSHOT_SESSIONS 16
#define CKX_SNAPSHOT_FOLDER (CKX_PATH - 512) /* leaves room for a file's name */

struct ckx_snapshot {
	const char *name;
	char folder[CKX_SNAPSHOT_FOLDER];
	int lock; /* keeps another `cricket snapshot` of this name away; -1: none */
};

/* The folder of @name, which need not exist. -EINVAL, printed: that is no name. */
int ckx_snapshot_find(const char *name, struct ckx_snapshot *s);

/* Make the folder, in place of one that is not complete. -errno, printed. */
int ckx_snapshot_create(const char *name, struct ckx_snapshot *s);
/* Remove it. -errno, printed. */
int ckx_snapshot_remove(struct ckx_snapshot *s);

/* The path of @file in the folder. Returns @out. */
const char *ckx_snapshot_path(const struct ckx_snapshot *s, const char *file, char out[CKX_PATH]);

/* Make the snapshot complete: write @about, which it takes, and the list of files. *@bytes: their
 * size. -errno, printed. */
int ckx_snapshot_complete(const struct ckx_snapshot *s, json_t *about, uint64_t *bytes);

/* Read its description; NULL, printed: it is not there, not this user's, or of another release. */
json_t *ckx_snapshot_read(const struct ckx_snapshot *s);
/* Compare all files with the list. -errno, printed. */
int ckx_snapshot_verify(const struct ckx_snapshot *s, const json_t *about);

/* hash.c: the size of the file @path, and a hash of its content as hex digits. -errno. */
#define CKX_SNAPSHOT_HASH 65
int ckx_snapshot_hash(const char *path, uint64_t *size, char hash[CKX_SNAPSHOT_HASH]);

#endif
