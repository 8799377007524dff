/*
 * util/process/proc_file.c - see proc_file.h.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/process/fd.h"
#include "util/process/proc_file.h"
#include "util/util.h"

/* Does an emulator of another processor (qemu-user) answer for this process's files? It hands out
 * copies of them, which are not the named files. It leaves the names of threads alone. */
static bool emulated(void)
{
	char process[256], thread[256]; /* their beginnings */
	ssize_t a = readlink("/proc/self/exe", process, sizeof(process));
	ssize_t b = readlink("/proc/thread-self/exe", thread, sizeof(thread));

	return a > 0 && b > 0 && (a != b || memcmp(process, thread, (size_t)a) != 0);
}

/* The file's name tells which one it is: the descriptor may be the program's already. */
int ck_proc_file_open(struct ck_proc_file *f, const char *path)
{
	struct stat st;

	f->fd = open(path, O_RDONLY | O_CLOEXEC);
	if (f->fd < 0)
		return -errno;
	if (stat(path, &st) < 0) {
		close(f->fd);
		return -ENOENT;
	}
	if (!ck_fd_is(f->fd, st.st_dev, st.st_ino) && (!emulated() || fstat(f->fd, &st) < 0))
		return -EBADF;
	f->dev = st.st_dev;
	f->ino = st.st_ino;
	return 0;
}

void ck_proc_file_close(struct ck_proc_file *f)
{
	if (ck_fd_is(f->fd, f->dev, f->ino))
		close(f->fd);
}

ssize_t ck_proc_file_read(const struct ck_proc_file *f, void *data, size_t size, off_t at)
{
	ssize_t n = pread(f->fd, data, size, at);

	if (n < 0)
		return -errno;
	return ck_fd_is(f->fd, f->dev, f->ino) ? n : -EBADF;
}

/* Append bytes to those that are not used yet; false: there are no more, or there is no room. */
static bool read_more(const struct ck_proc_file *f, struct ck_proc_lines *l)
{
	ssize_t n;

	memmove(l->bytes, l->bytes + l->begin, l->end - l->begin);
	l->end -= l->begin;
	l->begin = 0;
	if (l->end == sizeof(l->bytes) - 1)
		return false;
	n = ck_proc_file_read(f, l->bytes + l->end, sizeof(l->bytes) - 1 - l->end, l->at);
	if (n <= 0)
		return false;
	l->at += n;
	l->end += (size_t)n;
	return true;
}

/* Go to the end of a line whose first part fills the buffer. */
static void skip_rest(const struct ck_proc_file *f, struct ck_proc_lines *l)
{
	char byte = 0;

	while (byte != '\n' && ck_proc_file_read(f, &byte, 1, l->at) == 1)
		l->at++;
}

char *ck_proc_file_line(const struct ck_proc_file *f, struct ck_proc_lines *l)
{
	char *line, *end;

	while (!(end = memchr(l->bytes + l->begin, '\n', l->end - l->begin)) && read_more(f, l))
		;
	line = l->bytes + l->begin;
	if (!end && l->begin == l->end)
		return NULL;
	if (end) {
		l->begin = (size_t)(end - l->bytes) + 1;
	} else {
		end = l->bytes + l->end;
		l->begin = l->end = 0;
		skip_rest(f, l);
	}
	*end = '\0';
	return line;
}

/* --- a process */

int ck_proc_stat(pid_t pid, struct ck_proc_stat *out)
{
	char path[32] = "/proc/self/stat", text[1024], *end;
	struct ck_proc_file f;
	ssize_t n;
	int ret;

	if (pid > 0)
		snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	ret = ck_proc_file_open(&f, path);
	if (ret < 0)
		return ret;
	n = ck_proc_file_read(&f, text, sizeof(text) - 1, 0);
	ck_proc_file_close(&f);
	text[ck_max(n, (ssize_t)0)] = '\0';
	end = strrchr(text, ')'); /* the name in parentheses may hold anything */
	if (!end || sscanf(end + 1,
			   " %c %d %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s "
			   "%*s %*s %llu",
			   &out->state, &out->parent, &out->start) != 3)
		return -EINVAL;
	return 0;
}

/* --- the mappings of this process */

static bool next_mapping(const struct ck_proc_file *maps, struct ck_proc_lines *lines,
			 struct ck_own_mapping *m)
{
	const char *line = ck_proc_file_line(maps, lines);

	if (!line)
		return false;
	m->name[0] = '\0';
	return sscanf(line, "%lx-%lx %4s %*s %*s %*s %31s", &m->lo, &m->hi, m->rights, m->name) >=
	       3;
}

bool ck_mappings_all(uint64_t lo, uint64_t size, bool (*such)(const struct ck_own_mapping *m))
{
	struct ck_own_mapping m;
	bool are = true;
	uint64_t hi;
	struct ck_proc_lines lines = {0};
	struct ck_proc_file maps;

	if (ck_add_overflow(lo, size, &hi))
		return false;
	if (ck_proc_file_open(&maps, "/proc/self/maps") < 0)
		return false;
	while (are && lo < hi && next_mapping(&maps, &lines, &m)) {
		if (m.hi <= lo)
			continue;
		are = m.lo <= lo && such(&m);
		lo = m.hi;
	}
	ck_proc_file_close(&maps);
	return are && lo >= hi;
}

bool ck_mapping_readable(const struct ck_own_mapping *m)
{
	return m->rights[0] == 'r';
}

bool ck_mapping_writable(const struct ck_own_mapping *m)
{
	return m->rights[0] == 'r' && m->rights[1] == 'w';
}
