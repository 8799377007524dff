/*
 * server/checkpoint/compress.c - see compress.h.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include "server/checkpoint/compress.h"
#include "util/process/fd.h"
#include "util/util.h"

#define CK_PACK_LEVEL 1 /* memory of programs: speed counts more than the last tenth of the size */
#define CK_PACK_THREADS 4 /* of libzstd, if it was built with them */
#define CK_PACK_BLOCK ((size_t)1 << 20)

/* A copy from one file to another through libzstd. */
struct flow {
	const char *name;
	int in, out;
	ZSTD_CCtx *compress;   /* or */
	ZSTD_DCtx *decompress; /* not both */
	unsigned char *from, *to;
	uint64_t read, written, most; /* bytes that may be written */
};

bool cks_pack_name_valid(const char *name)
{
	size_t n = strlen(name);

	for (size_t i = 0; i < n; i++) {
		if (name[i] <= ' ' || name[i] >= 0x7f || name[i] == '/')
			return false;
	}
	return n > 0 && n < CK_PACK_NAME && name[0] != '.';
}

int cks_pack_each(const char *path,
		  int (*each)(int dir, const char *name, void *data, struct cks_why *why),
		  void *data, struct cks_why *why)
{
	DIR *dir = opendir(path);
	struct dirent *entry;
	int ret = 0;

	if (!dir)
		return cks_why_set(why, errno, "%s: %m", path);
	while (ret == 0 && (entry = readdir(dir))) {
		if (cks_pack_name_valid(entry->d_name))
			ret = each(dirfd(dir), entry->d_name, data, why);
	}
	closedir(dir);
	return ret;
}

static int flow_open(struct flow *flow, int from, const char *from_name, int to,
		     const char *to_name, struct cks_why *why)
{
	flow->from = malloc(CK_PACK_BLOCK);
	flow->to = malloc(CK_PACK_BLOCK);
	if (!flow->from || !flow->to || (!flow->compress && !flow->decompress))
		return cks_why_set(why, ENOMEM, "%s: %m", flow->name);
	flow->in = openat(from, from_name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (flow->in < 0)
		return cks_why_set(why, errno, "%s: %m", from_name);
	flow->out = openat(to, to_name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (flow->out < 0)
		return cks_why_set(why, errno, "%s: %m", to_name);
	return 0;
}

static void flow_close(struct flow *flow)
{
	if (flow->in >= 0)
		close(flow->in);
	if (flow->out >= 0)
		close(flow->out);
	ZSTD_freeCCtx(flow->compress);
	ZSTD_freeDCtx(flow->decompress);
	free(flow->from);
	free(flow->to);
}

static int set_wrong_size(struct cks_why *why, const char *name, uint64_t size)
{
	return cks_why_set(why, EBADMSG, "%s: it does not have %llu bytes", name,
			   (unsigned long long)size);
}

/* Put a piece through libzstd; @more: the work that is left, 0 at the end of the frame. */
static size_t run_codec(struct flow *flow, ZSTD_outBuffer *out, ZSTD_inBuffer *in, bool last)
{
	if (flow->compress)
		return ZSTD_compressStream2(flow->compress, out, in,
					    last ? ZSTD_e_end : ZSTD_e_continue);
	return ZSTD_decompressStream(flow->decompress, out, in);
}

/* One block of the input, @last without more behind it. The rest of the frame, or -errno. */
static long long process_block(struct flow *flow, size_t size, bool last, struct cks_why *why)
{
	ZSTD_inBuffer in = {.src = flow->from, .size = size};
	ZSTD_outBuffer out;
	size_t rest;
	int ret;

	do {
		out = (ZSTD_outBuffer){.dst = flow->to, .size = CK_PACK_BLOCK};
		rest = run_codec(flow, &out, &in, last);
		if (ZSTD_isError(rest))
			return cks_why_set(why, EBADMSG, "%s: %s", flow->name,
					   ZSTD_getErrorName(rest));
		if (out.pos > flow->most - flow->written)
			return set_wrong_size(why, flow->name, flow->most);
		ret = ck_fd_write_full(flow->out, flow->to, out.pos);
		if (ret < 0)
			return cks_why_set(why, -ret, "%s: writing: %m", flow->name);
		flow->written += out.pos;
	} while (in.pos < in.size || (rest && (out.pos == out.size || (flow->compress && last))));
	return (long long)rest;
}

/* All of the input; a frame that has no end is an error. */
static int process_input(struct flow *flow, struct cks_why *why)
{
	long long rest = 1;
	ssize_t n;

	do {
		n = read(flow->in, flow->from, CK_PACK_BLOCK);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return cks_why_set(why, errno, "%s: reading: %m", flow->name);
		if (n == 0 && flow->decompress)
			break;
		flow->read += (uint64_t)n;
		rest = process_block(flow, (size_t)n, n == 0, why);
		if (rest < 0)
			return (int)rest;
	} while (n != 0);
	return rest == 0 ? 0 : cks_why_set(why, EBADMSG, "%s: it ends too early", flow->name);
}

static int hash_file(int fd, uint64_t size, struct ck_hash *hash)
{
	void *data = "";

	if (size > 0)
		data = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (data == MAP_FAILED)
		return -errno;
	ck_hash(data, size, hash);
	if (size > 0)
		munmap(data, size);
	return 0;
}

static int finish_pack(struct flow *flow, int to, const char *stored, struct cks_packed *packed,
		       struct cks_why *why)
{
	int ret, fd;

	packed->size = flow->read;
	packed->stored = flow->written;
	if (fsync(flow->out) < 0)
		return cks_why_set(why, errno, "%s: writing to the disk: %m", stored);
	fd = openat(to, stored, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	ret = fd < 0 ? -errno : hash_file(fd, packed->stored, &packed->hash);
	if (fd >= 0)
		close(fd);
	return ret < 0 ? cks_why_set(why, -ret, "%s: %m", stored) : 0;
}

int cks_pack_file(int from, int to, const char *name, struct cks_packed *packed,
		  struct cks_why *why)
{
	struct flow flow = {.name = name, .in = -1, .out = -1, .most = UINT64_MAX};
	char stored[CK_PACK_NAME + 8];
	int ret;

	if (!cks_pack_name_valid(name))
		return cks_why_set(why, EINVAL, "%s: no name of an image", name);
	flow.compress = ZSTD_createCCtx();
	packed->plain = false;
	snprintf(packed->name, sizeof(packed->name), "%s", name);
	snprintf(stored, sizeof(stored), "%s.zst", name);
	ret = flow_open(&flow, from, name, to, stored, why);
	if (ret == 0) {
		ZSTD_CCtx_setParameter(flow.compress, ZSTD_c_compressionLevel, CK_PACK_LEVEL);
		ZSTD_CCtx_setParameter(flow.compress, ZSTD_c_nbWorkers, CK_PACK_THREADS);
		ret = process_input(&flow, why);
	}
	if (ret == 0)
		ret = finish_pack(&flow, to, stored, packed, why);
	flow_close(&flow);
	return ret;
}

static int check_stored(const struct flow *flow, const struct cks_packed *packed,
			struct cks_why *why)
{
	struct ck_hash hash;
	struct stat st;

	if (fstat(flow->in, &st) < 0)
		return cks_why_set(why, errno, "%s: %m", packed->name);
	if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size != packed->stored)
		return cks_why_set(why, EBADMSG, "%s.zst: it does not have %llu bytes",
				   packed->name, (unsigned long long)packed->stored);
	if (hash_file(flow->in, packed->stored, &hash) < 0)
		return cks_why_set(why, errno, "%s.zst: %m", packed->name);
	if (!ck_hash_equal(&hash, &packed->hash))
		return cks_why_set(why, EBADMSG, "%s.zst: its content has changed", packed->name);
	return 0;
}

/* The file itself: @to is a folder in @from. */
static int link_plain(int from, int to, const struct cks_packed *packed, struct cks_why *why)
{
	char target[CK_PACK_NAME + 4];
	struct stat st;

	snprintf(target, sizeof(target), "../%s", packed->name);
	if (fstatat(from, packed->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return cks_why_set(why, errno, "%s: %m", packed->name);
	if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size != packed->size)
		return set_wrong_size(why, packed->name, packed->size);
	/* not a hard link: in a namespace, both folders may be of two mounts */
	if (symlinkat(target, to, packed->name) < 0)
		return cks_why_set(why, errno, "%s: %m", packed->name);
	return 0;
}

int cks_unpack_file(int from, int to, const struct cks_packed *packed, struct cks_why *why)
{
	struct flow flow = {.name = packed->name, .in = -1, .out = -1, .most = packed->size};
	char stored[CK_PACK_NAME + 8];
	int ret;

	if (!cks_pack_name_valid(packed->name))
		return cks_why_set(why, EINVAL, "%s: no name of an image", packed->name);
	if (packed->plain)
		return link_plain(from, to, packed, why);
	flow.decompress = ZSTD_createDCtx();
	snprintf(stored, sizeof(stored), "%s.zst", packed->name);
	ret = flow_open(&flow, from, stored, to, packed->name, why);
	if (ret == 0)
		ret = check_stored(&flow, packed, why);
	if (ret == 0)
		ret = process_input(&flow, why);
	if (ret == 0 && flow.written != packed->size)
		ret = set_wrong_size(why, packed->name, packed->size);
	flow_close(&flow);
	return ret;
}
