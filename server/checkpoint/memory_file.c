/*
 * server/checkpoint/memory_file.c - see memory_file.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/checkpoint/memory_file.h"
#include "server/checkpoint/worker_memory.h"
#include "server/processes/pool_table.h"
#include "util/util.h"

#define CK_MEMORY_NAME "memory.bin"
#define CK_MEMORY_THREADS 8
#define CK_MEMORY_SHARED (CK_MEMORY_ZERO - 1) /* the slot of another piece */
#define CK_MEMORY_ALIGN 4096		      /* of O_DIRECT */
#define CK_MEMORY_MAX 131072		      /* pieces: their list fits into a manifest */

/* One pass over all pieces. */
struct pass {
	struct cks_memory_file *memory;
	pid_t pid;
	int fd;
	int (*one)(struct pass *pass, struct cks_memory_piece *piece, unsigned char *buffer);
	atomic_size_t next;
	atomic_int error;
	atomic_uint slots;
	_Atomic uint32_t *table; /* of save: numbers of pieces plus 1, by hash; 0: free */
	size_t room;		 /* of the table, a power of two */
};

int cks_memory_file_add(struct cks_memory_file *m, uint64_t at, uint64_t size)
{
	size_t more = size / CK_MEMORY_PIECE;
	struct cks_memory_piece *pieces;

	if (size % CK_MEMORY_PIECE || more > CK_MEMORY_MAX - m->count)
		return -EINVAL;
	pieces = realloc(m->pieces, (m->count + more + 1) * sizeof(*pieces));
	if (!pieces)
		return -ENOMEM;
	m->pieces = pieces;
	for (size_t i = 0; i < more; i++)
		pieces[m->count++] = (struct cks_memory_piece){.at = at + i * CK_MEMORY_PIECE};
	return 0;
}

void cks_memory_file_free(struct cks_memory_file *m)
{
	free(m->pieces);
	*m = (struct cks_memory_file){.count = 0};
}

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

static int open_file(int dir, int flags)
{
	int fd = openat(dir, CK_MEMORY_NAME, flags | O_DIRECT | O_NOFOLLOW | O_CLOEXEC, 0600);

	if (fd < 0 && errno == EINVAL) {
		/* an older kernel may have made the file before it refused the flag */
		flags &= ~O_EXCL;
		fd = openat(dir, CK_MEMORY_NAME, flags | O_NOFOLLOW | O_CLOEXEC, 0600);
	}
	return fd < 0 ? -errno : fd;
}

/* Some file systems refuse O_DIRECT only at the first transfer. True: try again without it. */
static bool refuses_direct(int fd)
{
	int flags = errno == EINVAL ? fcntl(fd, F_GETFL) : -1;

	return flags >= 0 && flags & O_DIRECT && fcntl(fd, F_SETFL, flags & ~O_DIRECT) == 0;
}

static int transfer_slot(int fd, unsigned char *data, uint32_t slot, bool out)
{
	off_t base = (off_t)slot * (off_t)CK_MEMORY_PIECE;
	size_t done = 0;
	ssize_t n;

	while (done < CK_MEMORY_PIECE) {
		size_t rest = CK_MEMORY_PIECE - done;
		off_t at = base + (off_t)done;

		n = out ? pwrite(fd, data + done, rest, at) : pread(fd, data + done, rest, at);
		if (n == 0)
			return out ? -EIO : -ENODATA;
		if (n > 0)
			done += (size_t)n;
		else if (errno != EINTR && !refuses_direct(fd))
			return -errno;
	}
	return 0;
}

/* --- to the file */

static bool is_zero(const unsigned char *data)
{
	return data[0] == 0 && memcmp(data, data + 1, CK_MEMORY_PIECE - 1) == 0;
}

/* The first piece with its hash: itself, if none was there. */
static struct cks_memory_piece *find_first(struct pass *pass, struct cks_memory_piece *piece)
{
	struct cks_memory_piece *all = pass->memory->pieces;
	uint32_t own = (uint32_t)(piece - all) + 1;
	size_t i;

	memcpy(&i, piece->hash.bytes, sizeof(i));
	for (i &= pass->room - 1;; i = (i + 1) & (pass->room - 1)) {
		uint32_t there = 0;

		if (atomic_compare_exchange_strong(&pass->table[i], &there, own))
			return piece;
		if (ck_hash_equal(&all[there - 1].hash, &piece->hash))
			return &all[there - 1];
	}
}

/* Those that share a slot: it is known when all threads have ended. */
static void share_slots(struct pass *pass)
{
	for (size_t i = 0; i < pass->memory->count; i++) {
		struct cks_memory_piece *piece = &pass->memory->pieces[i];

		if (piece->slot == CK_MEMORY_SHARED)
			piece->slot = find_first(pass, piece)->slot;
	}
	pass->memory->slots = atomic_load(&pass->slots);
}

static int save_piece(struct pass *pass, struct cks_memory_piece *piece, unsigned char *buffer)
{
	int ret = cks_worker_memory_read(pass->pid, piece->at, buffer, CK_MEMORY_PIECE);

	if (ret < 0)
		return ret;
	piece->slot = CK_MEMORY_ZERO;
	if (is_zero(buffer))
		return 0;
	ck_hash(buffer, CK_MEMORY_PIECE, &piece->hash);
	piece->slot = CK_MEMORY_SHARED;
	if (find_first(pass, piece) != piece)
		return 0;
	piece->slot = atomic_fetch_add(&pass->slots, 1);
	return transfer_slot(pass->fd, buffer, piece->slot, true);
}

int cks_memory_file_save(struct cks_memory_file *m, pid_t pid, int dir, struct cks_why *why)
{
	struct pass pass = {.memory = m,
			    .pid = pid,
			    .fd = open_file(dir, O_WRONLY | O_CREAT | O_EXCL),
			    .one = save_piece,
			    .room = 2};
	int ret = pass.fd < 0 ? pass.fd : 0;

	while (pass.room < 2 * m->count)
		pass.room *= 2;
	pass.table = calloc(pass.room, sizeof(*pass.table));
	if (ret == 0)
		ret = pass.table ? run_threads(&pass) : -ENOMEM;
	if (ret == 0)
		share_slots(&pass);
	if (ret == 0 && fsync(pass.fd) < 0)
		ret = -errno;
	if (pass.fd >= 0)
		close(pass.fd);
	free(pass.table);
	return ret < 0 ? cks_why_set(why, -ret, CK_MEMORY_NAME ": writing: %m") : 0;
}

/* --- from the file */

int cks_memory_file_check(const struct cks_memory_file *m, int dir, struct cks_why *why)
{
	unsigned long long size = (unsigned long long)m->slots * CK_MEMORY_PIECE;
	struct stat st;

	if (m->count == 0)
		return 0;
	if (fstatat(dir, CK_MEMORY_NAME, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return cks_why_set(why, errno, CK_MEMORY_NAME ": %m");
	if (!S_ISREG(st.st_mode) || (unsigned long long)st.st_size != size)
		return cks_why_set(why, EBADMSG, CK_MEMORY_NAME ": it does not have %llu bytes",
				   size);
	return 0;
}

static int fill_piece(struct pass *pass, struct cks_memory_piece *piece, unsigned char *buffer)
{
	struct ck_hash hash;
	int ret;

	if (piece->slot == CK_MEMORY_ZERO)
		return 0; /* dropped pages are zeros */
	ret = transfer_slot(pass->fd, buffer, piece->slot, false);
	if (ret < 0)
		return ret;
	ck_hash(buffer, CK_MEMORY_PIECE, &hash);
	if (!ck_hash_equal(&hash, &piece->hash))
		return -EBADMSG;
	return cks_worker_memory_write(pass->pid, piece->at, buffer, CK_MEMORY_PIECE);
}

static int fill_all(const struct cks_memory_file *m, pid_t pid, int dir)
{
	struct cks_memory_file all = *m;
	struct pass pass = {
		.memory = &all, .pid = pid, .fd = open_file(dir, O_RDONLY), .one = fill_piece};
	uint64_t complete = CK_POOL_COMPLETE;
	int ret;

	if (pass.fd < 0)
		return pass.fd;
	ret = run_threads(&pass);
	close(pass.fd);
	if (ret < 0)
		return ret;
	return cks_worker_memory_write(pid, m->state, &complete, sizeof(complete));
}

int cks_memory_file_fill(const struct cks_memory_file *m, pid_t pid, int dir, struct cks_why *why)
{
	int ret = m->count > 0 ? cks_worker_memory_wait(pid, m->state, false) : CK_POOL_COMPLETE;

	if (ret == CK_POOL_DROPPED) {
		ret = cks_memory_file_check(m, dir, why);
		if (ret < 0)
			return ret;
		ret = fill_all(m, pid, dir);
	}
	if (ret == -EBADMSG)
		return cks_why_set(why, EBADMSG, CK_MEMORY_NAME ": its content has changed");
	return ret < 0 ? cks_why_set(why, -ret, CK_MEMORY_NAME ": reading: %m") : 0;
}

/* --- the manifest's part */

json_t *cks_memory_file_json(const struct cks_memory_file *m)
{
	json_t *list = json_array();
	char hash[CK_HASH_TEXT];

	for (size_t i = 0; i < m->count; i++) {
		const struct cks_memory_piece *p = &m->pieces[i];

		ck_hash_print(&p->hash, hash);
		json_array_append_new(list, p->slot == CK_MEMORY_ZERO
						    ? json_pack("[I]", (json_int_t)p->at)
						    : json_pack("[I, I, s]", (json_int_t)p->at,
								(json_int_t)p->slot, hash));
	}
	return json_pack("{s:I, s:I, s:o}", "slots", (json_int_t)m->slots, "state",
			 (json_int_t)m->state, "pieces", list);
}

static int compare_addresses(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* Threads fill the pieces in any order: each address is in at most one. The state, which is set
 * after them, is in none. */
static bool pieces_are_apart(const struct cks_memory_file *m)
{
	uint64_t *places = malloc((m->count + 1) * sizeof(*places));
	bool apart = places != NULL;

	for (size_t i = 0; apart && i < m->count; i++) {
		uint64_t at = m->pieces[i].at;

		places[i] = at;
		apart = m->state + sizeof(uint64_t) <= at || m->state >= at + CK_MEMORY_PIECE;
	}
	if (apart)
		qsort(places, m->count, sizeof(*places), compare_addresses);
	for (size_t i = 1; apart && i < m->count; i++)
		apart = places[i] - places[i - 1] >= CK_MEMORY_PIECE;
	free(places);
	return apart;
}

static bool take_address(const json_t *json, size_t room, uint64_t *out)
{
	json_int_t at = json_integer_value(json);

	*out = (uint64_t)at;
	return at > 0 && *out <= (uint64_t)INT64_MAX - room;
}

static bool take_piece(const json_t *entry, uint32_t slots, struct cks_memory_piece *p)
{
	json_int_t slot = json_integer_value(json_array_get(entry, 1));
	const char *hash = json_string_value(json_array_get(entry, 2));

	p->slot = CK_MEMORY_ZERO;
	if (!take_address(json_array_get(entry, 0), CK_MEMORY_PIECE, &p->at))
		return false;
	if (json_array_size(entry) == 1)
		return true;
	p->slot = (uint32_t)slot;
	return json_is_integer(json_array_get(entry, 1)) && slot >= 0 && slot < slots && hash &&
	       ck_hash_parse(hash, &p->hash) == 0;
}

bool cks_memory_file_take(const json_t *json, struct cks_memory_file *m)
{
	const json_t *list = json_object_get(json, "pieces"), *entry;
	json_int_t slots = json_integer_value(json_object_get(json, "slots"));
	size_t i;

	if (!json_is_array(list) || json_array_size(list) > CK_MEMORY_MAX || slots < 0 ||
	    (size_t)slots > json_array_size(list))
		return false;
	m->pieces = calloc(json_array_size(list) + 1, sizeof(*m->pieces));
	if (!m->pieces)
		return false;
	m->slots = (uint32_t)slots;
	if (!take_address(json_object_get(json, "state"), sizeof(uint64_t), &m->state))
		return false;
	json_array_foreach(list, i, entry)
	{
		if (!take_piece(entry, m->slots, &m->pieces[m->count++]))
			return false;
	}
	return pieces_are_apart(m);
}
