/*
 * server/checkpoint/memory_load.c - the memory of a checkpoint for all workers that are made of it
 * at the same time; see memory_file.h.
 *
 * Each piece is read straight into the file, and compared with its hash there.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include "server/checkpoint/crew.h"
#include "server/checkpoint/memory_file.h"
#include "util/process/available_memory.h"
#include "util/util.h"

/* A worker maps all of its pool, which may be larger than what is in use. Nothing is there. */
#define SIZE (2 * (off_t)CK_MEMORY_MAX * (off_t)CK_MEMORY_PIECE)

struct loading {
	const struct cks_memory_file *memory;
	struct cks_memory_files files;
	unsigned char *bytes;
	int errors[CKS_CREW_AHEAD]; /* of these jobs */
};

/* A job. */
static void load_piece(void *data, size_t job)
{
	struct loading *l = data;
	const struct cks_memory_piece *piece = &l->memory->pieces[job];
	int ret = 0;

	if (piece->slot != CK_MEMORY_ZERO) /* a new file has zeros */
		ret = cks_memory_piece_read(piece, &l->files, l->bytes + job * CK_MEMORY_PIECE);
	l->errors[job % CKS_CREW_AHEAD] = ret;
}

static bool has_gone(int asker)
{
	struct pollfd p = {.fd = asker, .events = POLLRDHUP};

	return poll(&p, 1, 0) > 0;
}

static int load_pieces(struct loading *l, int asker)
{
	size_t count = l->memory->count;
	struct cks_crew crew;
	int ret = 0;

	cks_crew_start(&crew, load_piece, l);
	for (size_t i = 0; i < count && ret == 0; i++) {
		cks_crew_release(&crew, ck_min(count, i + CKS_CREW_AHEAD));
		cks_crew_wait(&crew, i);
		ret = has_gone(asker) ? -ECANCELED : l->errors[i % CKS_CREW_AHEAD];
	}
	cks_crew_end(&crew);
	return ret;
}

static int check_room(const struct cks_memory_file *m, struct cks_why *why)
{
	uint64_t available = ck_available_memory(), bytes = 0;

	for (size_t i = 0; i < m->count; i++)
		bytes += m->pieces[i].slot == CK_MEMORY_ZERO ? 0 : CK_MEMORY_PIECE;
	if (available == 0 || bytes <= available)
		return 0;
	return cks_why_set(why, ENOMEM, "%llu MiB of host memory for the session: %m",
			   (unsigned long long)bytes >> 20);
}

static int load_file(const struct cks_memory_file *m, int dir, int file, int asker)
{
	struct loading l = {.memory = m};
	size_t size = m->count * CK_MEMORY_PIECE;
	int ret = ftruncate(file, SIZE) < 0 ? -errno : 0;

	if (ret == 0)
		ret = cks_memory_files_open(&l.files, &m->parts, dir);
	if (ret < 0)
		return ret;
	l.bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (l.bytes == MAP_FAILED) {
		ret = -errno;
	} else {
		ret = load_pieces(&l, asker);
		munmap(l.bytes, size);
	}
	cks_memory_files_close(&l.files);
	if (ret == 0 && fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
		ret = -errno;
	return ret;
}

int cks_memory_file_load(const struct cks_memory_file *m, int dir, int file, int asker,
			 struct cks_why *why)
{
	int ret = m->count == 0 ? cks_why_set(why, EINVAL, "no memory: %m")
				: cks_memory_parts_check(&m->parts, dir, false, why);

	if (ret == 0)
		ret = check_room(m, why);
	if (ret < 0)
		return ret;
	ret = load_file(m, dir, file, asker);
	return ret < 0 ? cks_memory_file_failed(ret, why) : 0;
}
