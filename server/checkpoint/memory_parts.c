/*
 * server/checkpoint/memory_parts.c - see memory_parts.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/checkpoint/memory_parts.h"
#include "util/until.h"

static void part_name(uint32_t number, char name[CK_MEMORY_NAME])
{
	if (number == 0)
		snprintf(name, CK_MEMORY_NAME, "memory.bin");
	else
		snprintf(name, CK_MEMORY_NAME, "memory-%u.bin", (unsigned int)number);
}

uint32_t cks_memory_parts_slots(const struct cks_memory_parts *parts)
{
	uint32_t slots = 0;

	for (size_t i = 0; i < parts->count; i++)
		slots += parts->list[i].slots;
	return slots;
}

static int64_t time_of_change(const struct stat *st)
{
	return (int64_t)st->st_mtim.tv_sec * (int64_t)(1000 * CK_NS_PER_MS) + st->st_mtim.tv_nsec;
}

static int check_part(const struct cks_memory_part *part, int dir, bool unchanged,
		      struct cks_why *why)
{
	unsigned long long size = (unsigned long long)part->slots * CK_MEMORY_PIECE;
	char name[CK_MEMORY_NAME];
	struct stat st;

	part_name(part->number, name);
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return cks_why_set(why, errno, "%s: %m", name);
	if (!S_ISREG(st.st_mode) || (unsigned long long)st.st_size != size)
		return cks_why_set(why, EBADMSG, "%s: it does not have %llu bytes", name, size);
	if (unchanged && (part->written == 0 || part->written != time_of_change(&st)))
		return cks_why_set(why, ESTALE, "%s: it is not as it was written", name);
	return 0;
}

int cks_memory_parts_check(const struct cks_memory_parts *parts, int dir, bool unchanged,
			   struct cks_why *why)
{
	int ret = 0;

	for (size_t i = 0; i < parts->count && ret == 0; i++)
		ret = check_part(&parts->list[i], dir, unchanged, why);
	return ret;
}

int cks_memory_parts_link(const struct cks_memory_parts *parts, int from, int to)
{
	char name[CK_MEMORY_NAME];

	for (size_t i = 0; i < parts->count; i++) {
		part_name(parts->list[i].number, name);
		if (linkat(from, name, to, name, 0) < 0)
			return -errno;
	}
	return 0;
}

void cks_memory_parts_unlink(const struct cks_memory_parts *parts, int dir)
{
	char name[CK_MEMORY_NAME];

	for (size_t i = 0; i < parts->count; i++) {
		part_name(parts->list[i].number, name);
		unlinkat(dir, name, 0);
	}
}

/* --- transfers */

static int open_part(int dir, uint32_t number, int flags)
{
	char name[CK_MEMORY_NAME];
	int fd;

	part_name(number, name);
	fd = openat(dir, name, flags | O_DIRECT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0 && errno == EINVAL) {
		/* an older kernel may have made the file before it refused the flag */
		flags &= ~O_EXCL;
		fd = openat(dir, name, flags | O_NOFOLLOW | O_CLOEXEC, 0600);
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

int cks_memory_files_open(struct cks_memory_files *files, const struct cks_memory_parts *parts,
			  int dir)
{
	int ret = 0;

	files->parts = parts;
	for (size_t i = 0; i < parts->count; i++) {
		files->fds[i] = ret < 0 ? -1 : open_part(dir, parts->list[i].number, O_RDONLY);
		if (ret == 0 && files->fds[i] < 0)
			ret = files->fds[i];
	}
	if (ret < 0)
		cks_memory_files_close(files);
	return ret;
}

void cks_memory_files_close(struct cks_memory_files *files)
{
	for (size_t i = 0; i < files->parts->count; i++) {
		if (files->fds[i] >= 0)
			close(files->fds[i]);
	}
}

int cks_memory_files_read(const struct cks_memory_files *files, uint32_t slot, unsigned char *data)
{
	const struct cks_memory_parts *parts = files->parts;

	for (size_t i = 0; i < parts->count; slot -= parts->list[i++].slots) {
		if (slot < parts->list[i].slots)
			return transfer_slot(files->fds[i], data, slot, false);
	}
	return -EBADMSG;
}

int cks_memory_part_create(int dir, uint32_t number)
{
	return open_part(dir, number, O_WRONLY | O_CREAT | O_EXCL);
}

int cks_memory_part_write(int fd, uint32_t slot, unsigned char *data)
{
	return transfer_slot(fd, data, slot, true);
}

int cks_memory_part_finish(int fd, uint32_t number, uint32_t slots, struct cks_memory_part *part)
{
	struct stat st;

	if (fsync(fd) < 0 || fstat(fd, &st) < 0)
		return -errno;
	*part = (struct cks_memory_part){
		.number = number, .slots = slots, .written = time_of_change(&st)};
	return 0;
}
