/*
 * server/evacuation/piece_hasher.c - see piece_hasher.h.
 *
 * The kernel reads the list of places from pinned host memory, and writes the hashes there: it
 * takes no device memory, of which there may be none.
 */
#define _GNU_SOURCE
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "cricket.h"
#include "server/evacuation/piece_hasher.h"
#include "server/session/driver.h"
#include "server/session/session.h"
#include "util/log.h"
#include "util/page.h"
#include "util/util.h"

CK_LOG_DEFINE("server");

#define CK_HASH_THREADS 256
#define CK_REGISTERED (CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP)

/* hash.ptx, with a NUL behind it. */
extern const char cks_hash_ptx[];
__asm__(".pushsection .rodata\n"
	".hidden cks_hash_ptx\n"
	".global cks_hash_ptx\n"
	"cks_hash_ptx:\n"
	".incbin \"server/evacuation/hash.ptx\"\n"
	".byte 0\n"
	".popsection\n");

struct cks_piece_hasher {
	CUlibrary library; /* of no context, so a reset does not end it; NULL: not loaded */
	CUkernel kernel;
	char *room; /* for the list and the hashes */
	size_t size;
};

struct cks_piece_hasher *cks_piece_hasher_create(void)
{
	return calloc(1, sizeof(struct cks_piece_hasher));
}

void cks_piece_hasher_destroy(struct cks_piece_hasher *h)
{
	if (h && h->size > 0)
		munmap(h->room, h->size);
	free(h);
}

static bool is_supported(void)
{
	return ck_driver.cuLibraryLoadData && ck_driver.cuLibraryGetKernel &&
	       ck_driver.cuLibraryUnload && ck_driver.cuLaunchKernel &&
	       ck_driver.cuMemHostRegister_v2 && ck_driver.cuMemHostUnregister;
}

static CUresult load_kernel(struct cks_piece_hasher *h)
{
	CUresult err;

	if (h->library)
		return CUDA_SUCCESS;
	err = ck_driver.cuLibraryLoadData(&h->library, cks_hash_ptx, NULL, NULL, 0, NULL, NULL, 0);
	if (err) {
		h->library = NULL;
		return err;
	}
	err = ck_driver.cuLibraryGetKernel(&h->kernel, h->library, "cricket_hash_pieces");
	if (err) {
		ck_driver.cuLibraryUnload(h->library);
		h->library = NULL;
	}
	return err;
}

static CUresult make_room(struct cks_piece_hasher *h, size_t count)
{
	size_t size =
		CK_ALIGN_UP(count * (sizeof(uint64_t) + sizeof(struct cks_piece_hash)), ck_page());

	if (h->size >= size)
		return CUDA_SUCCESS;
	if (h->size > 0)
		munmap(h->room, h->size);
	h->room = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	h->size = h->room == MAP_FAILED ? 0 : size;
	return h->size ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult launch(const struct cks_piece_hasher *h, size_t count,
		       const struct cks_piece_key *key, CUstream stream)
{
	CUdeviceptr places = (uintptr_t)h->room, hashes = places + count * sizeof(uint64_t);
	struct cks_piece_key own = *key;
	void *arguments[] = {&places, &hashes, &own.word[0], &own.word[1]};
	CUresult err = ck_driver.cuLaunchKernel((CUfunction)h->kernel, (unsigned int)count, 1, 1,
						CK_HASH_THREADS, 1, 1, 0, stream, arguments, NULL);

	return err ? err : ck_driver.cuStreamSynchronize(stream);
}

/* The context knows the room during the call only: if it ended in between, and the room with it,
 * the kernel would fault. */
static CUresult run(struct cks_piece_hasher *h, const uint64_t *places, size_t count,
		    const struct cks_piece_key *key, CUstream stream)
{
	CUresult err = ck_driver.cuMemHostRegister_v2(h->room, h->size, CK_REGISTERED);

	if (err)
		return err;
	memcpy(h->room, places, count * sizeof(*places));
	err = launch(h, count, key, stream);
	ck_driver.cuMemHostUnregister(h->room);
	return err;
}

CUresult cks_piece_hasher_run(struct cks_piece_hasher *h, CUstream stream, const uint64_t *places,
			      size_t count, const struct cks_piece_key *key,
			      const struct cks_piece_hash **hashes)
{
	CUresult err = is_supported() ? load_kernel(h) : CUDA_ERROR_NOT_SUPPORTED;

	if (!err)
		err = make_room(h, count);
	if (!err)
		err = run(h, places, count, key, stream);
	if (err)
		ck_info("all device memory is copied, because it cannot be hashed on the GPU: %s",
			cks_error_name(err));
	*hashes = (const void *)(h->room + count * sizeof(*places));
	return err;
}
