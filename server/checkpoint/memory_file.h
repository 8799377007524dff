/*
 * server/checkpoint/memory_file.h - large memory of a process in a file of its own, beside CRIU's
 * images.
 *
 * The file, memory.bin, has slots of one size. Each piece of memory is in the slot that the
 * manifest names, with the hash of its content; equal pieces share one, and a piece of zeros has
 * none. Several threads read, hash and write, with O_DIRECT where the file system has it. Blocking
 * calls in threads reach the rate of the disk: hashing takes a thread's time in any case.
 */
#ifndef CK_SERVER_CHECKPOINT_MEMORY_FILE_H
#define CK_SERVER_CHECKPOINT_MEMORY_FILE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "server/checkpoint/failure_text.h"
#include "util/hash.h"

#define CK_MEMORY_PIECE ((size_t)2 << 20)
#define CK_MEMORY_ZERO UINT32_MAX /* the slot of a piece of zeros */

struct cks_memory_piece {
	uint64_t at; /* in the process */
	uint32_t slot;
	struct ck_hash hash;
};

struct cks_memory_file {
	struct cks_memory_piece *pieces;
	size_t count;
	uint32_t slots;
	uint64_t state; /* address of the state of struct cks_pool_table (worker_memory.h) */
};

/* Add @size bytes at @at, a multiple of CK_MEMORY_PIECE. 0 or -errno. */
int cks_memory_file_add(struct cks_memory_file *memory, uint64_t at, uint64_t size);
void cks_memory_file_free(struct cks_memory_file *memory);

/* Write all pieces of process @pid into a new file in @dir, which is on the disk afterwards. */
int cks_memory_file_save(struct cks_memory_file *memory, pid_t pid, int dir, struct cks_why *why);

/* Is the file there, with all of its slots? */
int cks_memory_file_check(const struct cks_memory_file *memory, int dir, struct cks_why *why);

/* If process @pid has dropped its pieces: read them, compare their hashes, and set the state. After
 * an error some may be there, and the state is as before. */
int cks_memory_file_fill(const struct cks_memory_file *memory, pid_t pid, int dir,
			 struct cks_why *why);

/* As JSON; and back: false: not valid. */
json_t *cks_memory_file_json(const struct cks_memory_file *memory);
bool cks_memory_file_take(const json_t *json, struct cks_memory_file *memory);

#endif
