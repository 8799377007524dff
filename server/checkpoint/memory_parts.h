/*
 * server/checkpoint/memory_parts.h - the files that memory_file.h keeps pieces in: memory.bin, and
 * memory-N.bin with the pieces that the Nth checkpoint of the session has changed.
 *
 * A file is written once. A later checkpoint that needs its pieces has a hard link to it, so each
 * folder is complete. Slots are numbered through all files of a folder.
 */
#ifndef CK_SERVER_CHECKPOINT_MEMORY_PARTS_H
#define CK_SERVER_CHECKPOINT_MEMORY_PARTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/checkpoint/failure_text.h"

#define CK_MEMORY_PIECE ((size_t)2 << 20)
#define CK_MEMORY_PARTS 128 /* most files: the next checkpoint writes all pieces again */
#define CK_MEMORY_NAME 24
#define CK_MEMORY_ALIGN 4096 /* of O_DIRECT */

struct cks_memory_part {
	uint32_t number; /* 0: memory.bin */
	uint32_t slots;
	int64_t written; /* its time of change, in ns; 0: not known */
};

struct cks_memory_parts {
	struct cks_memory_part list[CK_MEMORY_PARTS];
	size_t count;
};

/* All slots. */
uint32_t cks_memory_parts_slots(const struct cks_memory_parts *parts);

/* Are all files in @dir, with all of their slots? 0, or -errno and the name of the first that is
 * not. With @unchanged: also as they were written. */
int cks_memory_parts_check(const struct cks_memory_parts *parts, int dir, bool unchanged,
			   struct cks_why *why);

/* Link the files of @from into @to. 0 or -errno. */
int cks_memory_parts_link(const struct cks_memory_parts *parts, int from, int to);
/* Remove those that are in @dir. */
void cks_memory_parts_unlink(const struct cks_memory_parts *parts, int dir);

/* Descriptors of them, for cks_memory_files_read(). */
struct cks_memory_files {
	const struct cks_memory_parts *parts;
	int fds[CK_MEMORY_PARTS];
};

/* 0, or -errno: none is open. */
int cks_memory_files_open(struct cks_memory_files *files, const struct cks_memory_parts *parts,
			  int dir);
void cks_memory_files_close(struct cks_memory_files *files);
/* Read @slot, CK_MEMORY_PIECE bytes, to @data, which is aligned to CK_MEMORY_ALIGN. */
int cks_memory_files_read(const struct cks_memory_files *files, uint32_t slot, unsigned char *data);

/* A new file in @dir; its descriptor, or -errno. */
int cks_memory_part_create(int dir, uint32_t number);
int cks_memory_part_write(int fd, uint32_t slot, unsigned char *data);
/* It is complete, with @slots: on the disk, and described in *part. 0 or -errno. */
int cks_memory_part_finish(int fd, uint32_t number, uint32_t slots, struct cks_memory_part *part);

#endif
