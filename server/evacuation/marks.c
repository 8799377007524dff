/*
 * server/evacuation/marks.c - see marks.h.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "server/evacuation/marks.h"
#include "util/util.h"

#define SLOT CKS_HASHED_PIECE

struct cks_marks *cks_marks_create(void)
{
	struct cks_marks *m = calloc(1, sizeof(*m));

	if (m && getrandom(&m->key, sizeof(m->key), 0) != (ssize_t)sizeof(m->key)) {
		free(m);
		m = NULL;
	}
	return m;
}

void cks_marks_destroy(struct cks_marks *m)
{
	if (!m)
		return;
	free(m->pool);
	free(m->device);
	free(m);
}

static int grow(struct cks_piece_hash **list, size_t from, size_t to)
{
	struct cks_piece_hash *more = realloc(*list, to * sizeof(*more));

	if (!more)
		return -ENOMEM;
	memset(more + from, 0, (to - from) * sizeof(*more));
	*list = more;
	return 0;
}

int cks_marks_grow(struct cks_marks *m, size_t size)
{
	size_t count = (size + SLOT - 1) / SLOT;

	if (count <= m->count)
		return 0;
	if (grow(&m->pool, m->count, count) < 0 || grow(&m->device, m->count, count) < 0)
		return -ENOMEM;
	m->count = count;
	return 0;
}

void cks_marks_forget(struct cks_marks *m)
{
	if (m->count > 0)
		memset(m->pool, 0, m->count * sizeof(*m->pool));
}

void cks_marks_set_device(struct cks_marks *m, size_t slot, const struct cks_piece_hash *hash)
{
	m->device[slot] = hash ? *hash : (struct cks_piece_hash){.sum = {0, 0}};
}

static bool is_stale(const struct cks_marks *m, size_t slot)
{
	return !cks_piece_hash_known(&m->device[slot]) ||
	       !cks_piece_hash_equal(&m->device[slot], &m->pool[slot]);
}

size_t cks_marks_next(const struct cks_marks *m, size_t *from, size_t end)
{
	size_t at = *from, begin;

	while (at < end && !is_stale(m, at / SLOT))
		at = (at / SLOT + 1) * SLOT;
	begin = at;
	while (at < end && is_stale(m, at / SLOT))
		at = (at / SLOT + 1) * SLOT;
	*from = ck_min(begin, end);
	return ck_min(at, end) - *from;
}

void cks_marks_begin_copy(struct cks_marks *m, size_t from, size_t size)
{
	for (size_t done = 0; done < size; done += SLOT)
		m->pool[(from + done) / SLOT] = (struct cks_piece_hash){.sum = {0, 0}};
}

void cks_marks_set_copied(struct cks_marks *m, size_t from, size_t size, const char *bytes,
			  bool changing)
{
	for (size_t done = 0; done < size; done += SLOT) {
		size_t slot = (from + done) / SLOT;

		if (!changing && cks_piece_hash_known(&m->device[slot]))
			m->pool[slot] = m->device[slot];
		else
			cks_piece_hash(bytes + done, SLOT, &m->key, &m->pool[slot]);
	}
}
