/*
 * server/store/start_list.c - see server/store/start_list.h.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/modules/cachedir.h"
#include "server/session/locks.h"
#include "server/store/chunk_store.h"
#include "server/store/start_list.h"
#include "util/map.h"
#include "util/process/fd.h"
#include "util/util.h"

#define FOLDER "starts"
#define FILES ((size_t)64)	    /* programs of an identity; the least recently used ones go */
#define HASHES_MOST ((size_t)65536) /* 128 GiB of chunks */

struct hashes {
	struct ck_hash *list;
	size_t count, room;
	struct ck_map *places; /* a hash to its number, counted from 1 */
};

struct cks_start_list {
	struct ck_mutex lock;
	struct cks_chunk_store *store;
	struct ck_hash file; /* its name */
	struct hashes last, now;
	size_t written; /* hashes of the new list */
};

static bool make_room(struct hashes *h)
{
	size_t room = h->room ? 2 * h->room : 64;
	struct ck_hash *list;

	if (h->count < h->room)
		return true;
	list = realloc(h->list, room * sizeof(*list));
	if (!list)
		return false;
	h->list = list;
	h->room = room;
	return true;
}

/* Each hash once, where it came first. */
static void add_hash(struct hashes *h, const struct ck_hash *hash)
{
	if (h->count < HASHES_MOST && make_room(h) &&
	    ck_map_insert(h->places, hash, sizeof(*hash), (void *)(uintptr_t)(h->count + 1)) == 0)
		h->list[h->count++] = *hash;
}

static void free_hashes(struct hashes *h)
{
	ck_map_destroy(h->places);
	free(h->list);
}

/* A list that cannot be read is empty. */
static void read_last(struct cks_start_list *l)
{
	int dir = cks_chunk_store_folder(l->store, FOLDER);
	int fd = dir >= 0 ? cks_cachedir_read(dir, &l->file) : -1;
	struct stat st;
	struct ck_hash *all;
	size_t count;

	if (fd >= 0 && fstat(fd, &st) == 0 && st.st_size > 0) {
		count = ck_min((size_t)st.st_size / sizeof(*all), HASHES_MOST);
		all = calloc(count, sizeof(*all));
		if (all && ck_fd_pread_full(fd, all, count * sizeof(*all), 0) == 0) {
			for (size_t i = 0; i < count; i++)
				add_hash(&l->last, &all[i]);
		}
		free(all);
	}
	if (fd >= 0)
		close(fd);
	if (dir >= 0)
		close(dir);
}

struct cks_start_list *cks_start_list_open(struct cks_chunk_store *store, const char *program)
{
	struct cks_start_list *l = store ? calloc(1, sizeof(*l)) : NULL;

	if (!l)
		return NULL;
	l->lock = (struct ck_mutex)CK_MUTEX(CK_RANK_START_LIST);
	l->store = store;
	ck_hash(program, strlen(program), &l->file);
	l->last.places = ck_map_create();
	l->now.places = ck_map_create();
	if (!l->last.places || !l->now.places) {
		cks_start_list_close(l);
		return NULL;
	}
	read_last(l);
	return l;
}

void cks_start_list_close(struct cks_start_list *l)
{
	if (!l)
		return;
	free_hashes(&l->last);
	free_hashes(&l->now);
	ck_mutex_destroy(&l->lock);
	free(l);
}

const struct ck_hash *cks_start_list_after(const struct cks_start_list *l,
					   const struct ck_hash *hash, size_t *count)
{
	size_t place = 0;

	*count = 0;
	if (!l || l->last.count == 0)
		return NULL;
	if (hash) {
		place = (size_t)(uintptr_t)ck_map_find(l->last.places, hash, sizeof(*hash));
		if (place == 0)
			return NULL;
	}
	*count = l->last.count - place;
	return l->last.list + place;
}

void cks_start_list_note(struct cks_start_list *l, const struct ck_hash *hash)
{
	if (!l)
		return;
	ck_lock(&l->lock);
	add_hash(&l->now, hash);
	ck_unlock(&l->lock);
}

/* Call with the lock held. */
static void write_now(struct cks_start_list *l)
{
	int dir = cks_chunk_store_folder(l->store, FOLDER);
	struct cks_cachefile *files = NULL;
	long count;

	if (dir < 0)
		return;
	if (cks_cachedir_write(dir, &l->file, l->now.list, l->now.count * sizeof(*l->now.list)) ==
	    0)
		l->written = l->now.count;
	count = cks_cachedir_scan(dir, &files);
	for (long i = (long)FILES; i < count; i++)
		cks_cachedir_remove(dir, &files[i].hash);
	free(files);
	close(dir);
}

void cks_start_list_write(struct cks_start_list *l)
{
	if (!l)
		return;
	ck_lock(&l->lock);
	if (l->now.count > l->written)
		write_now(l);
	ck_unlock(&l->lock);
}

void cks_start_list_end(struct cks_start_list *l)
{
	int dir;

	cks_start_list_write(l);
	if (!l || l->now.count > 0 || l->last.count == 0)
		return;
	dir = cks_chunk_store_folder(l->store, FOLDER);
	if (dir < 0)
		return;
	cks_cachedir_remove(dir, &l->file);
	close(dir);
}
