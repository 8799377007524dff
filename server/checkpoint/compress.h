/*
 * server/checkpoint/compress.h - compresses one file of an image, and makes it again.
 */
#ifndef CK_SERVER_CHECKPOINT_COMPRESS_H
#define CK_SERVER_CHECKPOINT_COMPRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "server/checkpoint/failure_text.h"
#include "util/hash.h"

#define CK_PACK_NAME 128

/* A file of an image, and how it is stored: compressed, as NAME.zst. */
struct cks_packed {
	char name[CK_PACK_NAME];
	bool plain;	       /* not compressed, as NAME, and without a hash */
	uint64_t size, stored; /* bytes, and those of its compressed form */
	struct ck_hash hash;   /* of the compressed form */
};

/* May a file of an image have this name? False for any that leads out of its folder, or that is not
 * fit for a terminal. */
bool cks_pack_name_valid(const char *name);

/* Call @each for every file of folder @path with such a name, until it returns an error, with an
 * open descriptor of the folder. 0, or the error. */
int cks_pack_each(const char *path,
		  int (*each)(int dir, const char *name, void *data, struct cks_why *why),
		  void *data, struct cks_why *why);

/* Compress @from/@name into the new file @to/@name.zst, which is on the disk afterwards. */
int cks_pack_file(int from, int to, const char *name, struct cks_packed *packed,
		  struct cks_why *why);

/* Check @from/@packed->name.zst and make the new file @to/@packed->name of it. Nothing of a file
 * with another hash is decompressed, and no more than its size is written. */
int cks_unpack_file(int from, int to, const struct cks_packed *packed, struct cks_why *why);

#endif
