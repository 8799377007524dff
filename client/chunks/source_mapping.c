/*
 * client/chunks/source_mapping.c - see client/chunks/source_mapping.h.
 *
 * The list of mappings of a large program has a thousand lines. Newer kernels answer a question
 * about one address.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>

#include "client/chunks/source_mapping.h"
#include "util/process/fd.h"
#include "util/process/proc_file.h"

/* Of linux/fs.h, which may be older than the kernel. */
struct query {
	uint64_t size, flags, address;			   /* of the question */
	uint64_t lo, hi, rights, page_size, offset, inode; /* of the answer */
	uint32_t major, minor;
	uint32_t path_size, build_id_size; /* the room, then the length */
	uint64_t path, build_id;	   /* addresses */
};

_Static_assert(sizeof(struct query) == 104, "as in linux/fs.h");

#define QUERY _IOWR('f', 17, struct query)
enum { READABLE = 1, WRITABLE = 2, EXECUTABLE = 4, SHARED = 8 };

static void name_rights(uint64_t rights, char name[5])
{
	name[0] = rights & READABLE ? 'r' : '-';
	name[1] = rights & WRITABLE ? 'w' : '-';
	name[2] = rights & EXECUTABLE ? 'x' : '-';
	name[3] = rights & SHARED ? 's' : 'p';
	name[4] = '\0';
}

/* The mapping that contains @at. -1: there is none, or the kernel cannot tell. */
static int ask_kernel(const struct ck_proc_file *maps, uintptr_t at, struct ckc_mapping *m)
{
	struct query q = {.size = sizeof(q),
			  .address = at,
			  .path = (uintptr_t)m->path,
			  .path_size = sizeof(m->path)};

	if (ioctl(maps->fd, QUERY, &q) < 0 || !ck_fd_is(maps->fd, maps->dev, maps->ino))
		return -1;
	if (q.path_size == 0)
		m->path[0] = '\0';
	m->lo = q.lo;
	m->hi = q.hi;
	m->offset = q.offset;
	m->inode = q.inode;
	m->major = q.major;
	m->minor = q.minor;
	name_rights(q.rights, m->rights);
	return 0;
}

static bool read_line(const char *line, struct ckc_mapping *m)
{
	int at = 0;

	if (sscanf(line, "%lx-%lx %4s %lx %x:%x %lu %n", &m->lo, &m->hi, m->rights, &m->offset,
		   &m->major, &m->minor, &m->inode, &at) < 7 ||
	    at == 0)
		return false;
	snprintf(m->path, sizeof(m->path), "%s", line + at);
	return true;
}

static bool look_through(const struct ck_proc_file *maps, uintptr_t lo, uintptr_t hi,
			 struct ckc_mapping *m)
{
	struct ck_proc_lines lines = {0};
	const char *next;

	while ((next = ck_proc_file_line(maps, &lines)) != NULL) {
		if (!read_line(next, m))
			continue;
		if (m->lo > lo)
			return false;
		if (hi <= m->hi)
			return true;
	}
	return false;
}

static struct ckc_mapping *find(uintptr_t lo, uintptr_t hi, bool ask)
{
	struct ckc_mapping *m = malloc(sizeof(*m));
	struct ck_proc_file maps;
	bool found;

	if (!m || ck_proc_file_open(&maps, "/proc/self/maps") < 0) {
		free(m);
		return NULL;
	}
	found = ask && ask_kernel(&maps, lo, m) == 0 ? hi <= m->hi : look_through(&maps, lo, hi, m);
	ck_proc_file_close(&maps);
	if (found)
		return m;
	free(m);
	return NULL;
}

struct ckc_mapping *ckc_mapping_find(uintptr_t lo, uintptr_t hi)
{
	return find(lo, hi, true);
}

struct ckc_mapping *ckc_mapping_find_in_list(uintptr_t lo, uintptr_t hi)
{
	return find(lo, hi, false);
}
