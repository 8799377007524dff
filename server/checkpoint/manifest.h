/*
 * server/checkpoint/manifest.h - the description of a checkpoint: manifest.json.
 *
 * CRIU's own files do not say whether a server can take the worker. The manifest does, and names
 * each file with size and hash.
 */
#ifndef CK_SERVER_CHECKPOINT_MANIFEST_H
#define CK_SERVER_CHECKPOINT_MANIFEST_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "server/checkpoint/compress.h"
#include "server/checkpoint/external_fds.h"
#include "server/checkpoint/failure_text.h"
#include "server/checkpoint/memory_file.h"

/* 2: with memory in memory.bin; 3: with memory in other files. Each manifest has the lowest that
 * describes it. */
#define CK_MANIFEST_FORMAT 3
#define CK_MANIFEST_TEXT 128
#define CK_MANIFEST_DEVICES 64
#define CK_MANIFEST_ID 17 /* 16 digits and the NUL */

struct cks_manifest_device {
	char name[CK_MANIFEST_TEXT], uuid[48];
};

/* The processor, the driver and the devices, which must be the same at the restore. */
struct cks_manifest_gpu {
	char machine[32];	       /* as uname -m prints it */
	char driver[CK_MANIFEST_TEXT]; /* as of --driver */
	int version;		       /* of the driver, as of cuDriverGetVersion */
	struct cks_manifest_device devices[CK_MANIFEST_DEVICES];
	size_t count;
	struct cks_manifest_device
		hidden[CK_MANIFEST_DEVICES]; /* of the machine, but not the server's */
	size_t hidden_count;
};

struct cks_manifest {
	char id[CK_MANIFEST_ID]; /* of the session, on each server; empty: of an older release */
	char release[CK_MANIFEST_TEXT], session[CK_MANIFEST_TEXT], application[CK_MANIFEST_TEXT];
	long long created; /* seconds since 1970 */
	uint64_t memory;   /* bytes of GPU memory that it has */
	struct cks_manifest_gpu gpu;
	pid_t pid;
	pid_t *threads; /* their ids, which the restore takes again */
	size_t thread_count;
	struct cks_external_fds outside;
	struct cks_packed *images;
	size_t image_count;
	struct cks_memory_file file; /* memory that the images lack */
	struct ck_hash hash;	     /* of the file that it was read from */
};

/* Add a file to its images. 0 or -errno. */
int cks_manifest_add(struct cks_manifest *manifest, const struct cks_packed *image);

/* The manifest as JSON, the caller's to release. NULL: a name in it is not UTF-8. */
json_t *cks_manifest_json(const struct cks_manifest *manifest);

/* Write it to @dir/manifest.json, which is on the disk afterwards, in place of an older one. */
int cks_manifest_write(int dir, const struct cks_manifest *manifest, struct cks_why *why);

/* Read and check it. On success the caller calls cks_manifest_free. */
int cks_manifest_read(int dir, struct cks_manifest *manifest, struct cks_why *why);

/* The same from JSON. */
int cks_manifest_take(const json_t *json, struct cks_manifest *manifest, struct cks_why *why);

/* The same from text; the file's name is in messages only. */
int cks_manifest_parse(const char *text, size_t size, struct cks_manifest *manifest,
		       struct cks_why *why);

void cks_manifest_free(struct cks_manifest *manifest);

/* The GPUs alone as JSON, and back; false: in another form. */
json_t *cks_manifest_gpu_json(const struct cks_manifest_gpu *gpu);
bool cks_manifest_gpu_take(const json_t *json, struct cks_manifest_gpu *gpu);

/* Is a GPU of this UUID among the server's? */
bool cks_manifest_names(const struct cks_manifest_gpu *gpu, const char *uuid);

/* Can a server with @here take a worker of one with @there? Else -EXDEV and the difference. */
int cks_manifest_fits(const struct cks_manifest_gpu *there, const struct cks_manifest_gpu *here,
		      struct cks_why *why);

#endif
