/*
 * command/snapshot/hash.c - the hash of a file; see files.h.
 *
 * The hash of the hashes of its pieces, which threads make: one of them is slower than a disk.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "command/snapshot/files.h"
#include "util/hash.h"
#include "util/process/fd.h"
#include "util/util.h"

#define PIECE (4u << 20)
#define THREADS 8

struct hashing {
	int fd;
	uint64_t size;
	size_t count;
	struct ck_hash *hashes; /* of the pieces */
	atomic_size_t next;
	atomic_int error; /* -errno */
};

static void *hash_pieces(void *arg)
{
	struct hashing *h = arg;
	char *piece = malloc(PIECE);
	size_t i;

	if (!piece)
		h->error = -ENOMEM;
	while (h->error == 0 && (i = atomic_fetch_add(&h->next, 1)) < h->count) {
		uint64_t at = (uint64_t)i * PIECE;
		size_t size = (size_t)ck_min(h->size - at, (uint64_t)PIECE);
		int ret = ck_fd_pread_full(h->fd, piece, size, (off_t)at);

		if (ret < 0)
			h->error = ret;
		else
			ck_hash(piece, size, &h->hashes[i]);
	}
	free(piece);
	return NULL;
}

static void hash_all(struct hashing *h)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	size_t most = ck_min(h->count, (size_t)ck_min(cpus, (long)THREADS)), n = 0;
	pthread_t threads[THREADS];

	while (n + 1 < most && pthread_create(&threads[n], NULL, hash_pieces, h) == 0)
		n++;
	hash_pieces(h);
	while (n > 0)
		pthread_join(threads[--n], NULL);
}

int ckx_snapshot_hash(const char *path, uint64_t *size, char hash[CKX_SNAPSHOT_HASH])
{
	struct hashing h = {.fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC)};
	struct ck_hash all;
	struct stat st;

	_Static_assert(CKX_SNAPSHOT_HASH == CK_HASH_TEXT, "a hash as text");
	if (h.fd < 0)
		return -errno;
	if (fstat(h.fd, &st) < 0 || !S_ISREG(st.st_mode)) {
		close(h.fd);
		return -EINVAL;
	}
	*size = h.size = (uint64_t)st.st_size;
	h.count = (size_t)((h.size + PIECE - 1) / PIECE);
	h.hashes = calloc(h.count + 1, sizeof(*h.hashes));
	if (h.hashes)
		hash_all(&h);
	else
		h.error = -ENOMEM;
	close(h.fd);
	if (h.error == 0)
		ck_hash(h.hashes, h.count * sizeof(*h.hashes), &all);
	free(h.hashes);
	if (h.error == 0)
		ck_hash_print(&all, hash);
	return h.error;
}
