/*
 * server/checkpoint/memory_file.h - large memory of a process in files of its own, beside CRIU's
 * images.
 *
 * The files (memory_parts.h) have slots of one size. Each piece of memory is in the slot that the
 * manifest names, with the hash of its content; equal pieces share one, and a piece of zeros has
 * none. A piece that an earlier checkpoint has is not written again. Several threads read, hash and
 * write, with O_DIRECT where the file system has it. Blocking calls in threads reach the rate of
 * the disk: hashing takes a thread's time in any case.
 */
#ifndef CK_SERVER_CHECKPOINT_MEMORY_FILE_H
#define CK_SERVER_CHECKPOINT_MEMORY_FILE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "server/checkpoint/failure_text.h"
#include "server/checkpoint/memory_parts.h"
#include "util/hash.h"
#include "server/processes/piece_hash.h"

#define CK_MEMORY_MAX 131072	  /* pieces: their list fits into a manifest */
#define CK_MEMORY_ZERO UINT32_MAX /* the slot of a piece of zeros */
/* Most slots for so many pieces: files keep slots that no piece needs any more. */
#define CK_MEMORY_SLOTS(pieces) (3 * (pieces))

struct cks_memory_piece {
	uint64_t at; /* in the process */
	uint32_t slot;
	struct ck_hash hash;
	struct cks_piece_hash mark; /* as the worker knows its content; zeros: it does not */
};

struct cks_memory_file {
	struct cks_memory_piece *pieces;
	size_t count;
	struct cks_memory_parts parts;
	uint32_t slots; /* of all parts */
	uint32_t added; /* of them, those of the last save */
	/* address of the state of struct cks_pool_table (worker_memory.h) */
	uint64_t state;
	struct cks_piece_key key; /* of the marks */
};

/* Where the bytes of the pieces are: in process @pid; or one behind the other in the file @pool,
 * which has left the process (pool_table.h); -1: not there. */
struct cks_memory_source {
	pid_t pid;
	int pool;
};

/* Add @size bytes at @at, a multiple of CK_MEMORY_PIECE. 0 or -errno. */
int cks_memory_file_add(struct cks_memory_file *memory, uint64_t at, uint64_t size);
void cks_memory_file_free(struct cks_memory_file *memory);

/*
 * Write all pieces into a new file in @dir, which is on the disk afterwards. Pieces that @base has,
 * an earlier checkpoint of the same session in @base_dir, are linked instead, unless its files are
 * not as they were written; NULL: there is none.
 */
int cks_memory_file_save(struct cks_memory_file *memory, const struct cks_memory_source *source,
			 int dir, const struct cks_memory_file *base, int base_dir,
			 struct cks_why *why);

/* If process @pid has dropped its pieces: read them, compare their hashes, and set the state. After
 * an error some may be there, and the state is as before. */
int cks_memory_file_fill(const struct cks_memory_file *memory, pid_t pid, int dir,
			 struct cks_why *why);
/* The same from the pool of @source, which nothing was written from yet. */
int cks_memory_file_give_back(const struct cks_memory_file *memory,
			      const struct cks_memory_source *source, struct cks_why *why);

/* Read the bytes of @piece, which is not one of zeros, as cks_memory_files_read(), and compare
 * their hash. 0 or -errno; and the text of such an error, which it returns. */
int cks_memory_piece_read(const struct cks_memory_piece *piece,
			  const struct cks_memory_files *files, unsigned char *data);
int cks_memory_file_failed(int error, struct cks_why *why);

/*
 * memory_load.c: read all pieces into @file, one behind the other, as the pool of a worker has
 * them, which maps that file then. No process can change its size any more. @asker: a socket whose
 * other end is closed when the file is not needed any more: then that is an error.
 */
int cks_memory_file_load(const struct cks_memory_file *memory, int dir, int file, int asker,
			 struct cks_why *why);

/* memory_list.c: as JSON; and back: false: not valid. */
json_t *cks_memory_file_json(const struct cks_memory_file *memory);
bool cks_memory_file_take(const json_t *json, struct cks_memory_file *memory);

#endif
