/*
 * launcher/processes/block.c - shared blocks and the tickets for them; see block.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "launcher/processes/block.h"
#include "util/process/fd.h"

#define IDLE_MAX ((size_t)1 << 20)

int ckl_block_make(struct ckl_block *block, uint32_t number)
{
	*block = (struct ckl_block){.number = number,
				    .fd = memfd_create("gpu_launcher", MFD_CLOEXEC)};
	return block->fd < 0 ? -errno : 0;
}

int ckl_block_map(struct ckl_block *block, size_t capacity, int extend)
{
	char *map;

	if (capacity <= block->capacity)
		return 0;
	capacity = CK_ALIGN_UP(capacity, (size_t)65536);
	if (extend && ftruncate(block->fd, (off_t)capacity) < 0)
		return -errno;
	if (block->map)
		map = mremap(block->map, block->capacity, capacity, MREMAP_MAYMOVE);
	else
		map = mmap(NULL, capacity, PROT_READ | PROT_WRITE, MAP_SHARED, block->fd, 0);
	if (map == MAP_FAILED)
		return -errno;
	/* A worker that is started later receives the descriptors that it needs. */
	madvise(map, capacity, MADV_DONTFORK);
	block->map = map;
	block->capacity = capacity;
	return 0;
}

void ckl_block_trim(struct ckl_block *block)
{
	if (block->capacity > IDLE_MAX)
		madvise(block->map, block->capacity, MADV_REMOVE);
}

void ckl_block_free(struct ckl_block *block)
{
	if (block->map)
		munmap(block->map, block->capacity);
	if (block->fd >= 0)
		close(block->fd);
	*block = (struct ckl_block){.fd = -1};
}

int ckl_ticket_send(int sock, const struct ckl_ticket *ticket, int fd)
{
	return fd < 0 ? ck_fd_write_full(sock, ticket, sizeof(*ticket))
		      : ck_fd_send(sock, fd, ticket, sizeof(*ticket));
}

int ckl_ticket_receive(int sock, struct ckl_ticket *ticket, int *fd)
{
	return ck_fd_recv(sock, ticket, sizeof(*ticket), fd);
}
