/*
 * server/checkpoint/worker_memory.c - see worker_memory.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "server/checkpoint/worker_memory.h"
#include "server/processes/pool_table.h"
#include "util/until.h"
#include "util/util.h"

#define CK_DROP_MS 10000

int cks_worker_memory_read(pid_t pid, uint64_t at, void *data, size_t size)
{
	struct iovec here = {.iov_base = data, .iov_len = size};
	struct iovec there = {.iov_base = (void *)(uintptr_t)at, .iov_len = size};

	return process_vm_readv(pid, &here, 1, &there, 1, 0) == (ssize_t)size ? 0 : -EFAULT;
}

int cks_worker_memory_write(pid_t pid, uint64_t at, void *data, size_t size)
{
	struct iovec here = {.iov_base = data, .iov_len = size};
	struct iovec there = {.iov_base = (void *)(uintptr_t)at, .iov_len = size};

	return process_vm_writev(pid, &here, 1, &there, 1, 0) == (ssize_t)size ? 0 : -EFAULT;
}

static int list_pieces(pid_t pid, const struct cks_pool_table *table, struct cks_memory_file *file)
{
	struct cks_pool_piece piece;
	size_t left = table->used, size;
	int ret = 0;

	for (size_t i = 0; i < table->count && i < CK_POOL_PIECES && left > 0 && ret == 0; i++) {
		ret = cks_worker_memory_read(pid, (uintptr_t)(table->pieces + i), &piece,
					     sizeof(piece));
		if (ret < 0)
			break;
		size = ck_min(piece.size, CK_ALIGN_UP(left, CK_MEMORY_PIECE));
		ret = cks_memory_file_add(file, (uintptr_t)piece.bytes, size);
		left -= ck_min(left, size);
	}
	return ret == 0 && left > 0 ? -EINVAL : ret;
}

int cks_worker_memory_saved(pid_t pid, uint64_t at, struct cks_pool_saved *saved,
			    struct cks_piece_hash **marks)
{
	int ret = cks_worker_memory_read(pid, at, saved, sizeof(*saved));

	*marks = NULL;
	if (ret == 0 && saved->count > CK_MEMORY_MAX)
		ret = -EINVAL;
	if (ret == 0 && !(*marks = calloc(saved->count + 1, sizeof(**marks))))
		ret = -ENOMEM;
	if (ret == 0 && saved->count > 0)
		ret = cks_worker_memory_read(pid, saved->marks, *marks,
					     saved->count * sizeof(**marks));
	if (ret == 0)
		return 0;
	free(*marks);
	*marks = NULL;
	return ret;
}

int cks_worker_memory_marks(pid_t pid, uint64_t at, struct cks_memory_file *file)
{
	struct cks_pool_saved saved;
	struct cks_piece_hash *marks;
	int ret = cks_worker_memory_saved(pid, at, &saved, &marks);

	if (ret < 0)
		return ret;
	file->key = saved.key;
	for (size_t i = 0; i < file->count && i < saved.count; i++)
		file->pieces[i].mark = marks[i];
	free(marks);
	return 0;
}

int cks_worker_memory_pool(pid_t pid, int fd)
{
	int process = (int)syscall(SYS_pidfd_open, pid, 0);
	int pool = process < 0 ? -errno : (int)syscall(SYS_pidfd_getfd, process, fd, 0);

	if (process >= 0 && pool < 0)
		pool = -errno;
	if (process >= 0)
		close(process);
	/* reading any other kind of file could wait */
	if (pool >= 0 && fcntl(pool, F_GET_SEALS) < 0) {
		close(pool);
		pool = -EBADF;
	}
	return pool;
}

uint64_t cks_worker_memory_state(uint64_t table)
{
	return table + offsetof(struct cks_pool_table, state);
}

int cks_worker_memory_list(pid_t pid, uint64_t at, struct cks_memory_file *file)
{
	struct cks_pool_table table;
	int ret = cks_worker_memory_read(pid, at, &table, sizeof(table));

	if (ret == 0)
		ret = list_pieces(pid, &table, file);
	if (ret < 0)
		cks_memory_file_free(file);
	else
		file->state = cks_worker_memory_state(at);
	return ret;
}

int cks_worker_memory_wait(pid_t pid, uint64_t at, bool expected)
{
	const struct timespec step = {.tv_nsec = 1000000};
	int64_t until = ck_now_ms() + CK_DROP_MS;
	uint64_t state;

	for (;;) {
		if (cks_worker_memory_read(pid, at, &state, sizeof(state)) < 0)
			return -EFAULT;
		if (state == CK_POOL_DROPPED || (state == CK_POOL_COMPLETE && !expected))
			return (int)state;
		if (ck_now_ms() >= until)
			return state == CK_POOL_COMPLETE ? CK_POOL_COMPLETE : -ETIMEDOUT;
		nanosleep(&step, NULL);
	}
}
