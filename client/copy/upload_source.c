/*
 * client/copy/upload_source.c - see client/copy/upload_source.h.
 *
 * A file's device, inode, size and times name its content only where the kernel changes a time
 * with every write: on local file systems, and some time after the last change. Elsewhere they are
 * a hint: pages that were hashed before are hashed again. A private mapping may have pages of its
 * own instead of the file's; /proc/self/pagemap tells.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "client/copy/upload_source.h"
#include "rpc/compress.h"
#include "util/process/fd.h"
#include "util/process/proc_file.h"
#include "util/util.h"

#define NS 1000000000ll
/* By default, the kernel has written to the disk by then what waited for that. */
#define OLD_NS (60 * NS)
#define SAMPLES 64u /* of other memory */
#define SAMPLE 64u

/* A line of /proc/self/maps. */
struct mapping {
	unsigned long lo, hi, offset, inode;
	unsigned int major, minor;
	char rights[5];
	const char *path;
};

static bool read_mapping(const char *line, struct mapping *m)
{
	int at = 0;

	if (sscanf(line, "%lx-%lx %4s %lx %x:%x %lu %n", &m->lo, &m->hi, m->rights, &m->offset,
		   &m->major, &m->minor, &m->inode, &at) < 7 ||
	    at == 0)
		return false;
	m->path = line + at;
	return true;
}

/* Find the mapping that contains all of [lo, hi). @line is its text, from malloc. */
static bool find_mapping(uintptr_t lo, uintptr_t hi, struct mapping *m, char **line)
{
	struct ck_proc_lines lines = {0};
	struct ck_proc_file maps;
	bool found = false;
	const char *next;

	*line = NULL;
	if (ck_proc_file_open(&maps, "/proc/self/maps") < 0)
		return false;
	while (!found && (next = ck_proc_file_line(&maps, &lines)) != NULL) {
		if (!read_mapping(next, m))
			continue;
		if (m->lo > lo)
			break;
		found = hi <= m->hi;
	}
	ck_proc_file_close(&maps);
	if (found)
		*line = strdup(next);
	return *line && read_mapping(*line, m);
}

static int64_t ns_of(struct timespec t)
{
	return (int64_t)t.tv_sec * NS + t.tv_nsec;
}

static void set_state(const struct stat *st, struct ckc_chunk_key *key)
{
	key->device = st->st_dev;
	key->inode = st->st_ino;
	key->size = (uint64_t)st->st_size;
	key->mtime_ns = ns_of(st->st_mtim);
	key->ctime_ns = ns_of(st->st_ctim);
}

/* Does the kernel itself note each change of a file there? Not in memory, where a mapping is
 * written without a note; and others' servers keep their own time. */
static bool file_system_is_local(const char *path)
{
	static const uint32_t local[] = {
		0xef53,	    /* ext2, ext3, ext4 */
		0x58465342, /* XFS */
		0x9123683e, /* Btrfs */
		0xf2f52010, /* F2FS */
		0xca451a4e, /* bcachefs */
		0x2fc12fc1, /* ZFS */
	};
	struct statfs fs;

	if (statfs(path, &fs) < 0)
		return false;
	for (size_t i = 0; i < sizeof(local) / sizeof(local[0]); i++) {
		if ((uint32_t)fs.f_type == local[i])
			return true;
	}
	return false;
}

bool ckc_upload_source_is_old(int64_t mtime_ns, int64_t ctime_ns, int64_t now_ns)
{
	return now_ns - ck_max(mtime_ns, ctime_ns) >= OLD_NS;
}

/* A program that writes a shared mapping changes the time only at its first write to a page, until
 * the kernel has written the page to the disk. Have it do so: the next write changes the time. */
static bool pages_are_written(const char *path, uint64_t offset, size_t size)
{
	const unsigned int flags =
		SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	bool are;

	if (fd < 0)
		return false;
	are = sync_file_range(fd, (off64_t)offset, (off64_t)size, flags) == 0;
	close(fd);
	return are;
}

/* For as long as one look: a program may close what it does not know. */
static bool open_pagemap(struct ck_proc_file *pagemap)
{
	return ck_proc_file_open(pagemap, "/proc/self/pagemap") == 0;
}

/* Pages of the mapping may be the program's own, unless it is shared. False: it cannot be told. */
static bool pages_can_be_told(const struct mapping *m, struct ckc_upload_source *s)
{
	struct ck_proc_file pagemap;

	s->private = m->rights[3] != 's';
	if (!s->private)
		return m->rights[1] != 'w'; /* the program may be writing it */
	if (!open_pagemap(&pagemap))
		return false;
	ck_proc_file_close(&pagemap);
	return true;
}

static int describe_file(const struct mapping *m, size_t size, struct ckc_upload_source *s)
{
	uint64_t offset = m->offset + ((uintptr_t)s->bytes - m->lo);
	struct stat st;

	s->path = strdup(m->path);
	if (!s->path)
		return -ENOMEM;
	if (stat(s->path, &st) < 0 || st.st_ino != m->inode || !S_ISREG(st.st_mode) ||
	    (uint64_t)st.st_size < offset + size)
		return -ENOENT;
	s->file = true;
	set_state(&st, &s->key);
	s->key.offset = offset;
	if (!pages_can_be_told(m, s))
		return -ENOENT;
	s->sure = st.st_dev == makedev(m->major, m->minor) && file_system_is_local(s->path) &&
		  ckc_upload_source_is_old(s->key.mtime_ns, s->key.ctime_ns, s->now_ns) &&
		  pages_are_written(s->path, offset, size);
	return 0;
}

/* A few of the bytes tell whether it is worth the time to hash all of them before they are sent. */
static void describe_memory(size_t size, struct ckc_upload_source *s)
{
	unsigned char sample[SAMPLES * SAMPLE];
	size_t step = size / SAMPLES;

	for (size_t i = 0; i < SAMPLES; i++)
		memcpy(sample + i * SAMPLE, s->bytes + i * step, ck_min(step, (size_t)SAMPLE));
	s->key.inode = ck_hash_key(sample, sizeof(sample));
	s->key.size = size;
}

/* Pinned memory of the client lies in a file without a name, as shared anonymous memory may. */
static bool is_memory(const struct mapping *m)
{
	return m->inode == 0 || strncmp(m->path, "/memfd:", strlen("/memfd:")) == 0;
}

int ckc_upload_source_open(const void *bytes, size_t size, struct ckc_upload_source *s)
{
	struct mapping m;
	char *line;
	int ret = 0;

	*s = (struct ckc_upload_source){.bytes = bytes, .now_ns = (int64_t)time(NULL) * NS};
	if (!find_mapping((uintptr_t)bytes, (uintptr_t)bytes + size, &m, &line) ||
	    m.rights[0] != 'r' || size < (size_t)SAMPLES * SAMPLE)
		ret = -ENOENT;
	else if (is_memory(&m))
		describe_memory(size, s);
	else
		ret = describe_file(&m, size, s);
	if (ret == 0) {
		s->lo = m.lo;
		s->hi = m.hi;
	}
	free(line);
	return ret;
}

void ckc_upload_source_close(struct ckc_upload_source *s)
{
	free(s->path);
}

/* Is the file's page at the address, or none yet? */
static bool page_is_of_file(uint64_t entry)
{
	const uint64_t present = 1ull << 63, swapped = 1ull << 62, of_file = 1ull << 61;

	return !(entry & (present | swapped)) || (entry & of_file);
}

static bool entries_are_of_file(const struct ck_proc_file *pagemap, uintptr_t lo, uintptr_t hi)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), last = (hi + page - 1) / page;
	uint64_t entries[512];

	for (size_t at = lo / page, n; at < last; at += n) {
		n = ck_min(last - at, sizeof(entries) / sizeof(entries[0]));
		if (ck_proc_file_read(pagemap, entries, n * sizeof(entries[0]),
				      (off_t)(at * sizeof(entries[0]))) !=
		    (ssize_t)(n * sizeof(entries[0])))
			return false;
		for (size_t i = 0; i < n; i++) {
			if (!page_is_of_file(entries[i]))
				return false;
		}
	}
	return true;
}

static bool pages_are_of_file(uintptr_t lo, uintptr_t hi)
{
	struct ck_proc_file pagemap;
	bool are;

	if (!open_pagemap(&pagemap))
		return false;
	are = entries_are_of_file(&pagemap, lo, hi);
	ck_proc_file_close(&pagemap);
	return are;
}

bool ckc_upload_source_is_intact(const struct ckc_upload_source *s, size_t at, size_t size)
{
	struct ckc_chunk_key now = s->key;
	uintptr_t lo = (uintptr_t)s->bytes + at;
	struct stat st;

	if (!s->file)
		return true;
	if (s->private && !pages_are_of_file(lo, lo + size))
		return false;
	if (stat(s->path, &st) < 0)
		return false;
	set_state(&st, &now);
	return memcmp(&now, &s->key, sizeof(now)) == 0;
}

struct ckc_chunk_key ckc_upload_source_key(const struct ckc_upload_source *s, size_t at,
					   size_t size)
{
	struct ckc_chunk_key key = s->key;

	key.offset += at;
	key.length = size;
	return key;
}

size_t ckc_upload_source_chunk_end(const struct ckc_upload_source *s, size_t at)
{
	return at + CK_CHUNK - (s->key.offset + at) % CK_CHUNK;
}

struct ckc_chunk_key ckc_upload_source_whole(const struct ckc_upload_source *s, size_t at,
					     size_t *begin)
{
	struct ckc_chunk_key key = s->key;

	*begin = (key.offset + at) % CK_CHUNK;
	key.offset += at - *begin;
	key.length = ck_min(key.size - key.offset, CK_CHUNK);
	return key;
}

int ckc_upload_source_read(const struct ckc_upload_source *s, const struct ckc_chunk_key *key,
			   void *bytes)
{
	int fd = open(s->path, O_RDONLY | O_CLOEXEC), ret;

	if (fd < 0)
		return -errno;
	ret = ck_fd_pread_full(fd, bytes, key->length, (off_t)key->offset);
	close(fd);
	return ret;
}
