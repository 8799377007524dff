/*
 * emu/core/usage.c - the table of processes and the device memory that they use, in a file in
 * memory.
 *
 * Each process writes only its own row. A row belongs to a process by its id and its start time, so
 * that other processes recognise the row of a killed one, and take or clear it. A process of
 * another PID namespace cannot be checked; the file's name keeps them apart.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "emu/core/emu.h"
#include "emu/core/usage.h"
#include "util/env.h"
#include "util/log.h"
#include "util/process/proc_file.h"

CK_LOG_DEFINE("emu");

struct row {
	_Atomic uint64_t
		owner; /* process id, and the lower half of the time of its start; 0: none */
	_Atomic uint64_t used[CK_EMU_MAX_DEVICES];
	_Atomic uint64_t busy_ns[CK_EMU_MAX_DEVICES];
};

static struct row alone; /* of a process without a table */

static struct {
	struct row *rows;
	unsigned int count;
	struct row *own;
	uint64_t owner;
	int shared; /* the file, to lock: the processes share the memory; or -1 */
} table = {.shared = -1, .rows = &alone, .count = 1, .own = &alone};

/* The owner's mark of a living process; 0: there is none. */
static uint64_t mark_of(unsigned int pid)
{
	struct ck_proc_stat stat;

	if (ck_proc_stat((pid_t)pid, &stat) < 0 || stat.state == 'Z' || stat.state == 'X')
		return 0; /* its memory has gone */
	return (uint64_t)pid << 32 | (uint32_t)stat.start;
}

static bool alive(uint64_t owner)
{
	return owner == table.owner || mark_of((unsigned int)(owner >> 32)) == owner;
}

/* The file's name: the user's setting, or one made from the user and the PID namespace. */
static void name_table(char *path, size_t room)
{
	struct stat space;

	if (ck_env_word("CRICKET_EMU", "usage", path, room) < 0)
		snprintf(path, room, "/dev/shm/cricket-emu-%u-%lu", (unsigned int)geteuid(),
			 stat("/proc/self/ns/pid", &space) ? 0ul : (unsigned long)space.st_ino);
}

/* The rows of the file @path, made at need; NULL: there can be none. */
static struct row *rows_map(const char *path)
{
	const size_t size = CK_EMU_USERS * sizeof(struct row);
	int fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0600);
	void *at = MAP_FAILED;
	struct stat st;

	/* in a folder that all may write the name may be another user's; room is taken at once */
	if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
	    posix_fallocate(fd, 0, (off_t)size) == 0)
		at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED)
		ck_info("%s: no table of processes: NVML shows this one alone", path);
	if (at != MAP_FAILED && ck_env_word_number("CRICKET_EMU", "shared"))
		table.shared = fd;
	else if (fd >= 0)
		close(fd);
	return at == MAP_FAILED ? NULL : at;
}

/* A row that is free, or whose owner has died, becomes ours; NULL: all are in use. */
static struct row *row_take(struct row *rows)
{
	for (unsigned int pass = 0; pass < 2; pass++) {
		for (unsigned int i = 0; i < CK_EMU_USERS; i++) {
			uint64_t owner = atomic_load(&rows[i].owner);

			if ((owner && (!pass || alive(owner))) ||
			    !atomic_compare_exchange_strong(&rows[i].owner, &owner, table.owner))
				continue;
			for (int d = 0; d < CK_EMU_MAX_DEVICES; d++) {
				atomic_store(&rows[i].used[d], 0);
				atomic_store(&rows[i].busy_ns[d], 0);
			}
			return &rows[i];
		}
	}
	return NULL;
}

void ck_emu_usage_join(void)
{
	struct row *rows, *own;
	char path[4096];

	table.owner = mark_of((unsigned int)getpid());
	if (!table.owner)
		table.owner = (uint64_t)getpid() << 32;
	atomic_store(&alone.owner, table.owner);
	table.rows = table.own = &alone;
	table.count = 1;
	name_table(path, sizeof(path));
	rows = *path ? rows_map(path) : NULL;
	own = rows ? row_take(rows) : NULL;
	if (own) {
		table.rows = rows;
		table.count = CK_EMU_USERS;
		table.own = own;
	} else if (rows) {
		munmap(rows, CK_EMU_USERS * sizeof(*rows));
	}
}

void ck_emu_usage_rejoin(void)
{
	uint64_t mark = mark_of((unsigned int)getpid());

	if (mark && mark != table.owner)
		ck_emu_usage_join();
}

void ck_emu_usage_leave(void)
{
	uint64_t owner = table.owner;

	atomic_compare_exchange_strong(&table.own->owner, &owner, 0);
}

void ck_emu_usage_set(int number, uint64_t bytes)
{
	if (atomic_load_explicit(&table.own->owner, memory_order_relaxed) == table.owner)
		atomic_store_explicit(&table.own->used[number], bytes, memory_order_relaxed);
}

void ck_emu_usage_busy(int number, uint64_t ns)
{
	if (atomic_load_explicit(&table.own->owner, memory_order_relaxed) == table.owner)
		atomic_fetch_add_explicit(&table.own->busy_ns[number], ns, memory_order_relaxed);
}

/* The living processes that use the device: its memory, or @busy: its time. */
static unsigned int list_users(int number, bool busy, struct ck_emu_use list[CK_EMU_USERS])
{
	unsigned int count = 0;

	for (unsigned int i = 0; i < table.count; i++) {
		struct row *row = &table.rows[i];
		uint64_t owner = atomic_load(&row->owner), used = atomic_load(&row->used[number]);
		uint64_t ns = atomic_load(&row->busy_ns[number]);

		if (!owner || !(busy ? ns : used))
			continue;
		if (alive(owner))
			list[count++] = (struct ck_emu_use){(unsigned int)(owner >> 32), used, ns};
		else
			atomic_compare_exchange_strong(&row->owner, &owner, 0);
	}
	return count;
}

unsigned int ck_emu_usage_list(int number, struct ck_emu_use list[CK_EMU_USERS])
{
	return list_users(number, false, list);
}

unsigned int ck_emu_usage_list_busy(int number, struct ck_emu_use list[CK_EMU_USERS])
{
	return list_users(number, true, list);
}

uint64_t ck_emu_usage_others(int number)
{
	struct ck_emu_use list[CK_EMU_USERS];
	unsigned int count = table.shared < 0 ? 0 : ck_emu_usage_list(number, list);
	uint64_t bytes = 0;

	for (unsigned int i = 0; i < count; i++) {
		if (list[i].pid != (unsigned int)(table.owner >> 32))
			bytes += list[i].bytes;
	}
	return bytes;
}

bool ck_emu_usage_claim(int number, uint64_t bytes, uint64_t total)
{
	bool fits = true;

	if (table.shared >= 0) {
		flock(table.shared, LOCK_EX);
		fits = bytes <= total && ck_emu_usage_others(number) <= total - bytes;
	}
	if (fits)
		ck_emu_usage_set(number, bytes);
	if (table.shared >= 0)
		flock(table.shared, LOCK_UN);
	return fits;
}
