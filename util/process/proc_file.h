/*
 * util/process/proc_file.h - files of /proc that are read in the middle of a program. The program
 * may close all descriptors at any moment and open files of its own at their numbers: no byte of
 * these is taken, and they stay open.
 */
#ifndef CK_UTIL_PROCESS_PROC_FILE_H
#define CK_UTIL_PROCESS_PROC_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define CK_PROC_FILE_LINE 2048 /* longer lines are cut */

struct ck_proc_file {
	int fd;
	dev_t dev;
	ino_t ino;
};

/* Lines that are read one after the other; zeros at first. */
struct ck_proc_lines {
	off_t at; /* of the next bytes in the file */
	size_t begin, end;
	char bytes[CK_PROC_FILE_LINE];
};

/* Open @path; close it after use if this has succeeded. 0 or -errno. */
int ck_proc_file_open(struct ck_proc_file *f, const char *path);
void ck_proc_file_close(struct ck_proc_file *f);

/* Read up to @size bytes from @at, as pread(2): their number, 0 at the end. -errno; -EBADF: the
 * program has closed the file. */
ssize_t ck_proc_file_read(const struct ck_proc_file *f, void *data, size_t size, off_t at);

/* The next line, without its end, valid until the next call. NULL: there is none, or it cannot be
 * read. */
char *ck_proc_file_line(const struct ck_proc_file *f, struct ck_proc_lines *lines);

/* --- a process */

struct ck_proc_stat {
	char state; /* 'Z', 'X': it has ended */
	pid_t parent;
	unsigned long long start; /* when the kernel made it, in its ticks */
};

/* /proc's facts of process @pid (0: this one). 0 or -errno; -EINVAL: it tells something else. */
int ck_proc_stat(pid_t pid, struct ck_proc_stat *out);

/* --- the mappings of this process */

struct ck_own_mapping {
	uint64_t lo, hi;
	char rights[5]; /* as "rw-p" */
	char name[32];	/* cut off if longer; "": none */
};

/* Are all bytes of [lo, lo+size) mapped, by mappings that satisfy @such? False as well if the file
 * cannot be read. */
bool ck_mappings_all(uint64_t lo, uint64_t size, bool (*such)(const struct ck_own_mapping *m));

/* For ck_mappings_all: the program may read it; read and write it. */
bool ck_mapping_readable(const struct ck_own_mapping *m);
bool ck_mapping_writable(const struct ck_own_mapping *m);

#endif
