/*
 * server/checkpoint/memory_file.c - see memory_file.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/checkpoint/memory_file.h"
#include "server/checkpoint/worker_memory.h"
#include "server/processes/pool_table.h"
#include "util/log.h"
#include "util/util.h"

CK_LOG_DEFINE("server");

#define CK_MEMORY_THREADS 8
#define CK_MEMORY_SHARED (CK_MEMORY_ZERO - 1) /* the slot of another piece */

/* Pieces by their marks or by their hashes: numbers plus 1; 0: free. */
struct index {
	_Atomic uint32_t *table;
	size_t room; /* a power of two */
};

/* The content of an earlier checkpoint. */
struct base {
	const struct cks_memory_file *file; /* NULL: nothing */
	struct index marks, hashes;
};

/* One pass over all pieces. */
struct pass {
	struct cks_memory_file *memory;
	const struct cks_memory_source *source;
	int (*one)(struct pass *pass, struct cks_memory_piece *piece, unsigned char *buffer);
	atomic_size_t next;
	atomic_int error;
	/* of save: */
	int fd;
	uint32_t first;		    /* slots of files that are linked */
	struct cks_piece_hash zero; /* the mark of zeros, if pieces have marks */
	struct base base;
	struct index index;
	atomic_uint slots;
	/* of fill: */
	struct cks_memory_files files;
};

/* --- passes */

static void *run_pass(void *data)
{
	struct pass *pass = data;
	unsigned char *buffer = aligned_alloc(CK_MEMORY_ALIGN, CK_MEMORY_PIECE);
	int ret = buffer ? 0 : -ENOMEM;
	size_t i;

	while (ret == 0 && !atomic_load(&pass->error) &&
	       (i = atomic_fetch_add(&pass->next, 1)) < pass->memory->count)
		ret = pass->one(pass, &pass->memory->pieces[i], buffer);
	if (ret < 0)
		atomic_store(&pass->error, ret);
	free(buffer);
	return NULL;
}

static int run_threads(struct pass *pass)
{
	pthread_t threads[CK_MEMORY_THREADS];
	long processors = sysconf(_SC_NPROCESSORS_ONLN);
	size_t most = ck_min((size_t)CK_MEMORY_THREADS, (size_t)ck_max(processors, 1L) * 2);
	size_t count = 0;

	while (count + 1 < most && count + 1 < pass->memory->count &&
	       pthread_create(&threads[count], NULL, run_pass, pass) == 0)
		count++;
	run_pass(pass);
	while (count > 0)
		pthread_join(threads[--count], NULL);
	return atomic_load(&pass->error);
}

/* The bytes of @piece, from where they are. */
static int read_piece(const struct pass *pass, const struct cks_memory_piece *piece,
		      unsigned char *buffer)
{
	off_t at = (off_t)((size_t)(piece - pass->memory->pieces) * CK_MEMORY_PIECE);
	size_t done = 0;
	ssize_t n;

	if (pass->source->pool < 0)
		return cks_worker_memory_read(pass->source->pid, piece->at, buffer,
					      CK_MEMORY_PIECE);
	while (done < CK_MEMORY_PIECE) {
		n = pread(pass->source->pool, buffer + done, CK_MEMORY_PIECE - done,
			  at + (off_t)done);
		if (n == 0 || (n < 0 && errno != EINTR))
			return n == 0 ? -ENODATA : -errno;
		done += n > 0 ? (size_t)n : 0;
	}
	return 0;
}

/* --- tables of pieces */

static int make_index(struct index *index, size_t count)
{
	for (index->room = 2; index->room < 2 * count;)
		index->room *= 2;
	index->table = calloc(index->room, sizeof(*index->table));
	return index->table ? 0 : -ENOMEM;
}

/* The first of @all with the hash of @piece, or with its mark. @own: the number of @piece in @all
 * plus 1: it becomes the first if none was there; 0: it is not to. NULL: there is none. */
static const struct cks_memory_piece *find_first(const struct index *index,
						 const struct cks_memory_file *all, bool by_mark,
						 const struct cks_memory_piece *piece, uint32_t own)
{
	const struct cks_memory_piece *found;
	uint32_t there;
	size_t i;

	memcpy(&i, by_mark ? (const void *)&piece->mark : (const void *)&piece->hash, sizeof(i));
	for (i &= index->room - 1;; i = (i + 1) & (index->room - 1)) {
		there = atomic_load(&index->table[i]);
		if (there == 0 &&
		    (own == 0 || atomic_compare_exchange_strong(&index->table[i], &there, own)))
			return own ? piece : NULL;
		found = &all->pieces[there - 1];
		if (by_mark ? cks_piece_hash_equal(&found->mark, &piece->mark)
			    : ck_hash_equal(&found->hash, &piece->hash))
			return found;
	}
}

static int index_base(struct base *base)
{
	const struct cks_memory_file *all = base->file;
	int ret = make_index(&base->marks, all->count);

	if (ret == 0)
		ret = make_index(&base->hashes, all->count);
	for (size_t i = 0; ret == 0 && i < all->count; i++) {
		if (all->pieces[i].slot == CK_MEMORY_ZERO)
			continue;
		find_first(&base->hashes, all, false, &all->pieces[i], (uint32_t)i + 1);
		if (cks_piece_hash_known(&all->pieces[i].mark))
			find_first(&base->marks, all, true, &all->pieces[i], (uint32_t)i + 1);
	}
	return ret;
}

/* --- to the file */

static bool is_zero(const unsigned char *data)
{
	return data[0] == 0 && memcmp(data, data + 1, CK_MEMORY_PIECE - 1) == 0;
}

/* Those that share a slot: it is known when all threads have ended. */
static void share_slots(struct pass *pass)
{
	struct cks_memory_file *m = pass->memory;

	for (size_t i = 0; i < m->count; i++) {
		if (m->pieces[i].slot == CK_MEMORY_SHARED)
			m->pieces[i].slot =
				find_first(&pass->index, m, false, &m->pieces[i], 0)->slot;
	}
}

/* Does the earlier checkpoint have the piece, by its mark or by its hash? */
static bool take_from_base(struct pass *pass, struct cks_memory_piece *piece, bool by_mark)
{
	const struct cks_memory_piece *found;
	struct base *base = &pass->base;

	if (!base->file || (by_mark && !cks_piece_hash_known(&piece->mark)))
		return false;
	found = find_first(by_mark ? &base->marks : &base->hashes, base->file, by_mark, piece, 0);
	if (!found)
		return false;
	piece->slot = found->slot;
	piece->hash = found->hash;
	return true;
}

/* The pool may be in use again already: a later way off the GPU changes it. */
static bool is_marked(const struct pass *pass, const struct cks_memory_piece *piece,
		      const unsigned char *buffer)
{
	struct cks_piece_hash mark;

	if (pass->source->pool < 0 || !cks_piece_hash_known(&piece->mark))
		return true;
	cks_piece_hash(buffer, CK_MEMORY_PIECE, &pass->memory->key, &mark);
	return cks_piece_hash_equal(&mark, &piece->mark);
}

static int save_piece(struct pass *pass, struct cks_memory_piece *piece, unsigned char *buffer)
{
	uint32_t number = (uint32_t)(piece - pass->memory->pieces) + 1;
	int ret;

	piece->slot = CK_MEMORY_ZERO;
	if (cks_piece_hash_known(&piece->mark) && cks_piece_hash_equal(&piece->mark, &pass->zero))
		return 0;
	if (take_from_base(pass, piece, true))
		return 0;
	ret = read_piece(pass, piece, buffer);
	if (ret < 0)
		return ret;
	if (!is_marked(pass, piece, buffer))
		return -ESTALE;
	if (is_zero(buffer))
		return 0;
	ck_hash(buffer, CK_MEMORY_PIECE, &piece->hash);
	if (take_from_base(pass, piece, false))
		return 0;
	piece->slot = CK_MEMORY_SHARED;
	if (find_first(&pass->index, pass->memory, false, piece, number) != piece)
		return 0;
	piece->slot = pass->first + atomic_fetch_add(&pass->slots, 1);
	return cks_memory_part_write(pass->fd, piece->slot - pass->first, buffer);
}

static int mark_zeros(struct pass *pass)
{
	const struct cks_memory_file *m = pass->memory;
	void *zeros;

	if (m->count == 0 || !cks_piece_hash_known(&m->pieces[0].mark))
		return 0;
	zeros = calloc(1, CK_MEMORY_PIECE);
	if (!zeros)
		return -ENOMEM;
	cks_piece_hash(zeros, CK_MEMORY_PIECE, &m->key, &pass->zero);
	free(zeros);
	return 0;
}

/* An earlier checkpoint whose files can be linked, and do not keep too much that is not needed. */
static void choose_base(struct pass *pass, const struct cks_memory_file *base, int base_dir,
			int dir)
{
	struct cks_memory_file *m = pass->memory;
	struct cks_why why = {.text = ""};
	int ret;

	m->parts.count = 0;
	if (!base || base->parts.count == CK_MEMORY_PARTS ||
	    base->slots > CK_MEMORY_SLOTS(m->count) - m->count)
		return;
	ret = cks_memory_parts_check(&base->parts, base_dir, true, &why);
	if (ret == 0 && cks_memory_parts_link(&base->parts, base_dir, dir) < 0)
		ret = cks_why_set(&why, EXDEV, "its files cannot be linked");
	if (ret < 0) {
		ck_info("all memory is written again, because of the earlier checkpoint's %s",
			why.text);
		cks_memory_parts_unlink(&base->parts, dir);
		return;
	}
	m->parts = base->parts;
	pass->first = base->slots;
	pass->base.file = base;
}

/* Is the slot of any piece in @part, whose first one is @first? */
static bool is_needed(const struct cks_memory_file *m, const struct cks_memory_part *part,
		      uint32_t first)
{
	for (size_t i = 0; i < m->count; i++) {
		if (m->pieces[i].slot >= first && m->pieces[i].slot - first < part->slots)
			return true;
	}
	return false;
}

/* Remove files that no piece needs, and number the slots again. */
static void drop_parts(struct cks_memory_file *m, int dir)
{
	struct cks_memory_parts all = m->parts;
	uint32_t first = 0;

	m->parts.count = 0;
	for (size_t i = 0; i < all.count; i++) {
		struct cks_memory_part *part = &all.list[i];

		if (all.count == 1 || is_needed(m, part, first)) {
			m->parts.list[m->parts.count++] = *part;
			first += part->slots;
			continue;
		}
		cks_memory_parts_unlink(&(struct cks_memory_parts){.list = {*part}, .count = 1},
					dir);
		for (size_t k = 0; k < m->count; k++) {
			if (m->pieces[k].slot < CK_MEMORY_SHARED && m->pieces[k].slot >= first)
				m->pieces[k].slot -= part->slots;
		}
	}
	m->slots = cks_memory_parts_slots(&m->parts);
}

static int write_part(struct pass *pass, int dir)
{
	struct cks_memory_file *m = pass->memory;
	size_t old = m->parts.count;
	uint32_t number = old ? m->parts.list[old - 1].number + 1 : 0;
	int ret;

	pass->fd = cks_memory_part_create(dir, number);
	if (pass->fd < 0)
		return pass->fd;
	ret = run_threads(pass);
	if (ret == 0)
		share_slots(pass);
	if (ret == 0) {
		m->added = atomic_load(&pass->slots);
		ret = cks_memory_part_finish(pass->fd, number, m->added, &m->parts.list[old]);
		m->parts.count = old + 1;
	}
	close(pass->fd);
	return ret;
}

int cks_memory_file_save(struct cks_memory_file *m, const struct cks_memory_source *source, int dir,
			 const struct cks_memory_file *base, int base_dir, struct cks_why *why)
{
	struct pass pass = {.memory = m, .source = source, .one = save_piece};
	int ret = make_index(&pass.index, m->count);

	if (ret == 0)
		ret = mark_zeros(&pass);
	choose_base(&pass, base, base_dir, dir);
	if (ret == 0 && pass.base.file)
		ret = index_base(&pass.base);
	if (ret == 0)
		ret = write_part(&pass, dir);
	if (ret == 0)
		drop_parts(m, dir);
	free(pass.index.table);
	free(pass.base.marks.table);
	free(pass.base.hashes.table);
	if (ret == -ESTALE)
		return cks_why_set(why, ESTALE, "the session has been moved off the GPU meanwhile");
	return ret < 0 ? cks_why_set(why, -ret, "memory.bin: writing: %m") : 0;
}

/* --- from the file */

int cks_memory_piece_read(const struct cks_memory_piece *piece,
			  const struct cks_memory_files *files, unsigned char *data)
{
	struct ck_hash hash;
	int ret = cks_memory_files_read(files, piece->slot, data);

	if (ret < 0)
		return ret;
	ck_hash(data, CK_MEMORY_PIECE, &hash);
	return ck_hash_equal(&hash, &piece->hash) ? 0 : -EBADMSG;
}

int cks_memory_file_failed(int error, struct cks_why *why)
{
	if (error == -EBADMSG)
		return cks_why_set(why, EBADMSG, "memory.bin: its content has changed");
	return cks_why_set(why, -error, "memory.bin: reading: %m");
}

static int fill_piece(struct pass *pass, struct cks_memory_piece *piece, unsigned char *buffer)
{
	int ret;

	if (piece->slot == CK_MEMORY_ZERO)
		return 0; /* dropped pages are zeros */
	ret = cks_memory_piece_read(piece, &pass->files, buffer);
	if (ret < 0)
		return ret;
	return cks_worker_memory_write(pass->source->pid, piece->at, buffer, CK_MEMORY_PIECE);
}

static int give_piece(struct pass *pass, struct cks_memory_piece *piece, unsigned char *buffer)
{
	int ret = read_piece(pass, piece, buffer);

	if (ret < 0)
		return ret;
	return cks_worker_memory_write(pass->source->pid, piece->at, buffer, CK_MEMORY_PIECE);
}

/* Fill all pieces, and say so to the process. */
static int fill_all(struct pass *pass)
{
	uint64_t complete = CK_POOL_COMPLETE;
	int ret = run_threads(pass);

	if (ret < 0)
		return ret;
	return cks_worker_memory_write(pass->source->pid, pass->memory->state, &complete,
				       sizeof(complete));
}

static int fill_from_files(const struct cks_memory_file *m, pid_t pid, int dir)
{
	struct cks_memory_source source = {.pid = pid, .pool = -1};
	struct cks_memory_file all = *m;
	struct pass pass = {.memory = &all, .source = &source, .one = fill_piece};
	int ret = cks_memory_files_open(&pass.files, &m->parts, dir);

	if (ret < 0)
		return ret;
	ret = fill_all(&pass);
	cks_memory_files_close(&pass.files);
	return ret;
}

int cks_memory_file_fill(const struct cks_memory_file *m, pid_t pid, int dir, struct cks_why *why)
{
	int ret = m->count > 0 ? cks_worker_memory_wait(pid, m->state, false) : CK_POOL_COMPLETE;

	if (ret == CK_POOL_DROPPED) {
		ret = cks_memory_parts_check(&m->parts, dir, false, why);
		if (ret < 0)
			return ret;
		ret = fill_from_files(m, pid, dir);
	}
	return ret < 0 ? cks_memory_file_failed(ret, why) : 0;
}

int cks_memory_file_give_back(const struct cks_memory_file *m,
			      const struct cks_memory_source *source, struct cks_why *why)
{
	struct cks_memory_file all = *m;
	struct pass pass = {.memory = &all, .source = source, .one = give_piece};
	int ret = cks_worker_memory_wait(source->pid, m->state, false);

	if (ret == CK_POOL_DROPPED)
		ret = fill_all(&pass);
	return ret < 0 ? cks_why_set(why, -ret, "worker %d: its memory: %m", (int)source->pid) : 0;
}
