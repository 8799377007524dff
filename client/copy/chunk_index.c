/*
 * client/copy/chunk_index.c - see client/copy/chunk_index.h.
 *
 * The file is a table of buckets. A key's bucket is chosen by its hash, and read and written as a
 * whole record each, without locks: two writers may lose a record, never make a wrong one.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/copy/chunk_index.h"
#include "util/util.h"

#define BUCKETS 2048u
#define BUCKET 4096u
#define RECORDS (BUCKET / sizeof(struct record))
#define FRESH 3600u /* seconds for which a use is not recorded again */
#define CHECK 16

struct record {
	struct ckc_chunk_key key;
	struct ck_hash hash;
	uint32_t used; /* seconds */
	uint32_t sure;
	unsigned char check[CHECK]; /* of the bytes before it */
};

_Static_assert(sizeof(struct record) == 112, "the same on all machines that share a folder");

static int open_in(const char *base, const char *rest)
{
	char path[PATH_MAX];
	struct stat st;
	int fd;

	if (!base || *base != '/' ||
	    snprintf(path, sizeof(path), "%s%s", base, rest) >= (int)sizeof(path))
		return -ENOENT;
	mkdir(path, 0700); /* the folder of caches */
	if (strlen(path) + sizeof("/cricket/chunks") > sizeof(path))
		return -ENAMETOOLONG;
	strcat(path, "/cricket");
	mkdir(path, 0700);
	strcat(path, "/chunks");
	fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	/* files that others can write say nothing about this user's files */
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid() ||
	    (st.st_mode & 022)) {
		close(fd);
		return -EPERM;
	}
	return fd;
}

int ckc_chunk_index_open(void)
{
	int fd = open_in(getenv("XDG_CACHE_HOME"), "");

	return fd >= 0 ? fd : open_in(getenv("HOME"), "/.cache");
}

static void make_check(const struct record *r, unsigned char check[CHECK])
{
	struct ck_hash hash;

	ck_hash(r, offsetof(struct record, check), &hash);
	memcpy(check, hash.bytes, CHECK);
}

static bool record_is_whole(const struct record *r)
{
	unsigned char check[CHECK];

	make_check(r, check);
	return memcmp(check, r->check, CHECK) == 0;
}

/* Where the key's bucket is in the file. */
static off_t bucket_of(const struct ckc_chunk_key *key)
{
	return (off_t)(ck_hash_key(key, sizeof(*key)) % BUCKETS) * BUCKET;
}

/* Beyond its end, the file reads as zeros, which are no record. */
static void read_bucket(int index, off_t at, struct record records[RECORDS])
{
	ssize_t n = pread(index, records, RECORDS * sizeof(records[0]), at);
	size_t have = n > 0 ? (size_t)n : 0;

	memset((char *)records + have, 0, RECORDS * sizeof(records[0]) - have);
}

/* The signal of a file that becomes too large would end the program. */
static bool may_write(void)
{
	struct rlimit most;

	return getrlimit(RLIMIT_FSIZE, &most) == 0 && most.rlim_cur >= (rlim_t)BUCKETS * BUCKET;
}

static void write_record(int index, off_t bucket, size_t i, struct record *r)
{
	if (!may_write())
		return;
	make_check(r, r->check);
	if (pwrite(index, r, sizeof(*r), bucket + (off_t)(i * sizeof(*r))) < 0)
		return; /* the next start sends this chunk again */
}

bool ckc_chunk_index_find(int index, const struct ckc_chunk_key *key, uint32_t now,
			  struct ckc_chunk_entry *entry)
{
	struct record records[RECORDS];
	off_t bucket = bucket_of(key);

	read_bucket(index, bucket, records);
	for (size_t i = 0; i < RECORDS; i++) {
		struct record *r = &records[i];

		if (memcmp(&r->key, key, sizeof(*key)) != 0 || !record_is_whole(r))
			continue;
		*entry = (struct ckc_chunk_entry){.hash = r->hash, .sure = r->sure == 1};
		if (now - r->used > FRESH) {
			r->used = now;
			write_record(index, bucket, i, r);
		}
		return true;
	}
	return false;
}

/* The record to replace: the key's own, else one that is not whole, else the oldest. */
static size_t choose_record(const struct record records[RECORDS], const struct ckc_chunk_key *key)
{
	size_t oldest = 0, broken = RECORDS;

	for (size_t i = 0; i < RECORDS; i++) {
		if (memcmp(&records[i].key, key, sizeof(*key)) == 0)
			return i;
		if (records[i].used < records[oldest].used)
			oldest = i;
		if (broken == RECORDS && !record_is_whole(&records[i]))
			broken = i;
	}
	return broken < RECORDS ? broken : oldest;
}

void ckc_chunk_index_put(int index, const struct ckc_chunk_key *key, uint32_t now,
			 const struct ckc_chunk_entry *entry)
{
	struct record records[RECORDS];
	off_t bucket = bucket_of(key);
	struct record r = {.key = *key, .hash = entry->hash, .used = now, .sure = entry->sure};

	read_bucket(index, bucket, records);
	write_record(index, bucket, choose_record(records, key), &r);
}
