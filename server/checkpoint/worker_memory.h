/*
 * server/checkpoint/worker_memory.h - the memory of a worker, from another process of its user: the
 * pages in which it keeps device memory (server/processes/pool_table.h).
 */
#ifndef CK_SERVER_CHECKPOINT_WORKER_MEMORY_H
#define CK_SERVER_CHECKPOINT_WORKER_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "server/checkpoint/memory_file.h"
#include "server/processes/pool_table.h"

/* Copy @size bytes from @at of process @pid to @data, and the other way. 0 or -EFAULT. */
int cks_worker_memory_read(pid_t pid, uint64_t at, void *data, size_t size);
int cks_worker_memory_write(pid_t pid, uint64_t at, void *data, size_t size);

/* Add the pages that the table at @table describes, and the address of its state. 0, or -errno:
 * they cannot be read, or are too many; then @file is empty. */
int cks_worker_memory_list(pid_t pid, uint64_t table, struct cks_memory_file *file);

/* The pool's records in process @pid: struct cks_pool_saved at @at, and its marks, which the caller
 * frees. 0 or -errno. */
int cks_worker_memory_saved(pid_t pid, uint64_t at, struct cks_pool_saved *saved,
			    struct cks_piece_hash **marks);
/* The same of the pages in @file: their marks, and the key of these. 0 or -errno. */
int cks_worker_memory_marks(pid_t pid, uint64_t saved, struct cks_memory_file *file);
/* The file that has them, its descriptor @fd: one for this process; -errno: that is no such
 * file. */
int cks_worker_memory_pool(pid_t pid, int fd);

/* The address of the state of the table at @table. */
uint64_t cks_worker_memory_state(uint64_t table);

/*
 * The state at address @at (CK_POOL_...), when the worker does not change it any more. With
 * @expected: it is about to drop the pages. After 10 s it is COMPLETE if the worker has not begun
 * with that: its supervisor has ended. -ETIMEDOUT: it has not finished. -EFAULT: it has ended.
 */
int cks_worker_memory_wait(pid_t pid, uint64_t at, bool expected);

#endif
