/*
 * rpc/transport/shm_file.c - the memory file of a connection: made by the client, checked by the
 * server, mapped by both.
 *
 * The file's contents are not trusted, because the other end can change them at any time. Sizes
 * are read once and checked; the seals ensure that pages cannot be removed.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "rpc/transport/shm.h"
#include "rpc/transport/transport.h"
#include "util/env.h"
#include "util/page.h"
#include "util/util.h"

#define CK_SHM_MAGIC 0x68736b63u /* "ckhs" */
#define CK_SHM_LAYOUT 1		 /* version of the file's layout */
#define CK_SHM_PAGE ((unsigned int)CK_PAGE_MOST)
#define CK_SHM_SMALLEST (CK_SHM_PAGE > 16u << 10 ? CK_SHM_PAGE : 16u << 10)
#define CK_SHM_LARGEST (64u << 20)
#define CK_SHM_FIRST (64u << 10) /* bytes of a ring that have pages from the start */
#define CK_SHM_SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14; on older kernels pages come when they are used */
#endif

_Static_assert(sizeof(struct ck_shm_header) <= CK_SHM_PAGE, "the header is one page");

static void unmap_ring(struct ck_pipe *ring)
{
	if (ring->data)
		munmap(ring->data, 2 * ring->size);
}

void ck_shm_free(struct ck_shm *shm)
{
	if (!shm)
		return;
	unmap_ring(&shm->in);
	unmap_ring(&shm->out);
	if (shm->header)
		munmap(shm->header, CK_SHM_PAGE);
	ck_private_fd_close(&shm->file);
	free(shm);
}

/*
 * Map the @size bytes at @offset of the file twice in a row. The client, which owns the file, gets
 * the pages of the first messages now. Getting all of them would take milliseconds of each start.
 */
static int map_ring(struct ck_shm *shm, off_t offset, size_t size, struct ck_pipe_control *control,
		    struct ck_pipe *ring)
{
	unsigned char *at =
		mmap(NULL, 2 * size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (at == MAP_FAILED)
		return -errno;
	*ring = (struct ck_pipe){.control = control, .data = at, .size = size};
	for (int i = 0; i < 2; i++) {
		if (mmap(at + (size_t)i * size, size, PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_FIXED, ck_private_fd_number(&shm->file),
			 offset) == MAP_FAILED)
			return -errno;
	}
	if (shm->client)
		madvise(at, ck_min(size, (size_t)CK_SHM_FIRST), MADV_POPULATE_WRITE);
	return 0;
}

/* Map the rings of @shm->file with sizes @size; the header is mapped already. */
static int map_rings(struct ck_shm *shm, const uint32_t size[2])
{
	struct ck_pipe *to_server = shm->client ? &shm->out : &shm->in;
	struct ck_pipe *to_client = shm->client ? &shm->in : &shm->out;
	int ret = map_ring(shm, CK_SHM_PAGE, size[0], &shm->header->ring[0], to_server);

	return ret < 0 ? ret
		       : map_ring(shm, CK_SHM_PAGE + (off_t)size[0], size[1], &shm->header->ring[1],
				  to_client);
}

static int map_header(struct ck_shm *shm)
{
	void *at = mmap(NULL, CK_SHM_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED,
			ck_private_fd_number(&shm->file), 0);

	if (at == MAP_FAILED)
		return -errno;
	shm->header = at;
	return 0;
}

static bool size_allowed(uint32_t size)
{
	return size >= CK_SHM_SMALLEST && size <= CK_SHM_LARGEST && (size & (size - 1)) == 0;
}

/* The channel closes: wake those who sleep at its rings, in this process and the other one. */
static void release_rings(struct ck_chan *chan)
{
	ck_pipe_wake(&chan->shm->in);
	ck_pipe_wake(&chan->shm->out);
	ck_shm_free(chan->shm);
}

static void give_rings(struct ck_chan *chan, struct ck_shm *shm)
{
	chan->shm = shm;
	chan->release = release_rings;
}

int ck_chan_offer_rings(struct ck_chan *chan, size_t to_server, size_t to_client)
{
	const uint32_t size[2] = {(uint32_t)to_server, (uint32_t)to_client};
	struct ck_shm *shm;
	int ret;

	if (chan->ops != &ck_transport_unix || ck_env_word_number("CRICKET_DEBUG", "shm") == 0)
		return -EOPNOTSUPP;
	if (chan->shm || !size_allowed(size[0]) || !size_allowed(size[1]))
		return -EINVAL;
	shm = calloc(1, sizeof(*shm));
	if (!shm)
		return -ENOMEM;
	shm->client = true;
	ret = ck_private_fd_memory(&shm->file, "cricket-rings",
				   CK_SHM_PAGE + (size_t)size[0] + size[1], false);
	if (ret == 0)
		ret = map_header(shm);
	if (ret == 0)
		ret = map_rings(shm, size);
	if (ret < 0) {
		ck_shm_free(shm);
		return ret;
	}
	shm->header->magic = CK_SHM_MAGIC;
	shm->header->layout = CK_SHM_LAYOUT;
	memcpy(shm->header->size, size, sizeof(size));
	give_rings(chan, shm);
	chan->offer = &shm->file;
	return 0;
}

/* Check that the file has the size it claims, and that the size is sealed. */
static int check_file(struct ck_shm *shm, uint32_t size[2])
{
	struct stat st;
	int fd = ck_private_fd_number(&shm->file), seals = fcntl(fd, F_GET_SEALS);
	int ret;

	if (seals < 0 || (seals & CK_SHM_SEALS) != CK_SHM_SEALS)
		return -EPROTO;
	if (fstat(fd, &st) < 0 || st.st_size < (off_t)CK_SHM_PAGE)
		return -EPROTO;
	ret = map_header(shm);
	if (ret < 0)
		return ret;
	memcpy(size, shm->header->size, 2 * sizeof(size[0]));
	if (shm->header->magic != CK_SHM_MAGIC || shm->header->layout != CK_SHM_LAYOUT ||
	    !size_allowed(size[0]) || !size_allowed(size[1]) ||
	    st.st_size != (off_t)CK_SHM_PAGE + size[0] + size[1])
		return -EPROTO;
	return 0;
}

int ck_chan_take_rings(struct ck_chan *chan)
{
	uint32_t size[2];
	struct ck_shm *shm = NULL;
	int fd = chan->ops == &ck_transport_unix ? ck_chan_take_fd(chan) : -EOPNOTSUPP;
	int ret = ck_env_word_number("CRICKET_DEBUG", "shm") == 0 ? -EOPNOTSUPP : -ENOMEM;

	if (fd < 0)
		return fd;
	if (ret != -EOPNOTSUPP && !chan->shm)
		shm = calloc(1, sizeof(*shm));
	if (!shm) {
		close(fd);
		return ret;
	}
	ck_private_fd_plain(&shm->file, fd);
	ret = check_file(shm, size);
	if (ret == 0)
		ret = map_rings(shm, size);
	if (ret < 0) {
		ck_shm_free(shm);
		return ret;
	}
	atomic_store(&shm->header->taken, 1);
	ck_private_fd_close(&shm->file);
	give_rings(chan, shm);
	return 0;
}
