/*
 * tests/unit/test_server_memory_file.c - memory.bin of a checkpoint: this process's own memory into
 * it, and back.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "server/checkpoint/memory_file.h"
#include "server/checkpoint/store.h"
#include "server/checkpoint/worker_memory.h"
#include "server/processes/pool_table.h"
#include "util/util.h"

#define PIECES 6 /* two are zeros, and two are equal */

struct place {
	char path[64];
	int dir;
	unsigned char *bytes;
	struct cks_pool_piece pool[2];
	struct cks_pool_table table;
	struct cks_memory_file file;
	struct cks_why why;
};

static unsigned char *piece_at(struct place *p, size_t i)
{
	return p->bytes + i * CK_MEMORY_PIECE;
}

static void fill_memory(unsigned char *bytes)
{
	memset(bytes, 0, PIECES * CK_MEMORY_PIECE);
	for (size_t i = 0; i < 3; i++)
		memset(bytes + i * CK_MEMORY_PIECE + 77, (int)i + 1, CK_MEMORY_PIECE - 99);
	memcpy(bytes + 5 * CK_MEMORY_PIECE, bytes, CK_MEMORY_PIECE);
}

static int make_place(void **state)
{
	struct place *p = calloc(1, sizeof(*p));
	size_t size = PIECES * CK_MEMORY_PIECE;

	strcpy(p->path, "/tmp/cricket-memory-XXXXXX");
	assert_non_null(mkdtemp(p->path));
	p->dir = open(p->path, O_RDONLY | O_DIRECTORY);
	p->bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(p->bytes, MAP_FAILED);
	fill_memory(p->bytes);
	p->pool[0] = (struct cks_pool_piece){.bytes = (char *)p->bytes, .size = size / 2};
	p->pool[1] =
		(struct cks_pool_piece){.bytes = (char *)p->bytes + size / 2, .size = size / 2};
	p->table = (struct cks_pool_table){.pieces = p->pool, .count = 2, .used = size - 5};
	*state = p;
	return 0;
}

static int free_place(void **state)
{
	struct place *p = *state;

	cks_memory_file_free(&p->file);
	munmap(p->bytes, PIECES * CK_MEMORY_PIECE);
	close(p->dir);
	cks_store_remove(p->path);
	free(p);
	return 0;
}

static void save_memory(struct place *p)
{
	const struct cks_memory_source own = {.pid = getpid(), .pool = -1};

	assert_int_equal(cks_worker_memory_list(getpid(), (uintptr_t)&p->table, &p->file), 0);
	assert_int_equal(p->file.count, PIECES);
	assert_int_equal(cks_memory_file_save(&p->file, &own, p->dir, NULL, -1, &p->why), 0);
}

static void drop_memory(struct place *p)
{
	madvise(p->bytes, PIECES * CK_MEMORY_PIECE, MADV_DONTNEED);
	p->table.state = CK_POOL_DROPPED;
}

static void dropped_memory_is_filled_again_and_equal_pieces_are_stored_once(void **state)
{
	struct place *p = *state;
	unsigned char *want = malloc(PIECES * CK_MEMORY_PIECE);
	struct stat st;

	save_memory(p);
	assert_int_equal(fstatat(p->dir, "memory.bin", &st, 0), 0);
	assert_int_equal(st.st_size, 3 * CK_MEMORY_PIECE);
	assert_int_equal(st.st_mode & 0777, 0600);
	drop_memory(p);
	assert_int_equal(cks_memory_file_fill(&p->file, getpid(), p->dir, &p->why), 0);
	assert_int_equal(p->table.state, CK_POOL_COMPLETE);
	fill_memory(want);
	assert_memory_equal(p->bytes, want, PIECES * CK_MEMORY_PIECE);
	free(want);
}

/* CRIU has written it, because its worker has not dropped it. */
static void complete_memory_is_not_touched(void **state)
{
	struct place *p = *state;

	save_memory(p);
	memset(piece_at(p, 1), 9, CK_MEMORY_PIECE);
	assert_int_equal(cks_memory_file_fill(&p->file, getpid(), p->dir, &p->why), 0);
	assert_int_equal(piece_at(p, 1)[99], 9);
}

static void flip_byte(struct place *p, off_t at)
{
	int fd = openat(p->dir, "memory.bin", O_RDWR);
	unsigned char byte;

	assert_int_equal(pread(fd, &byte, 1, at), 1);
	byte ^= 1;
	assert_int_equal(pwrite(fd, &byte, 1, at), 1);
	close(fd);
}

static void damaged_files_are_errors_and_the_memory_stays_incomplete(void **state)
{
	struct place *p = *state;

	save_memory(p);
	drop_memory(p);
	flip_byte(p, 3 * CK_MEMORY_PIECE - 1);
	assert_int_equal(cks_memory_file_fill(&p->file, getpid(), p->dir, &p->why), -EBADMSG);
	assert_non_null(strstr(p->why.text, "has changed"));
	assert_int_equal(p->table.state, CK_POOL_DROPPED);
	flip_byte(p, 3 * CK_MEMORY_PIECE - 1);
	assert_int_equal(cks_memory_file_fill(&p->file, getpid(), p->dir, &p->why), 0);
	drop_memory(p);
	unlinkat(p->dir, "memory.bin", 0);
	assert_int_equal(cks_memory_file_fill(&p->file, getpid(), p->dir, &p->why), -ENOENT);
	assert_int_equal(symlinkat("/dev/zero", p->dir, "memory.bin"), 0);
	assert_int_equal(cks_memory_file_fill(&p->file, getpid(), p->dir, &p->why), -EBADMSG);
}

static void the_list_comes_back_from_json(void **state)
{
	struct place *p = *state;
	struct cks_memory_file back = {.count = 0};
	json_t *json;

	save_memory(p);
	json = cks_memory_file_json(&p->file);
	assert_true(cks_memory_file_take(json, &back));
	json_decref(json);
	assert_int_equal(back.count, PIECES);
	assert_int_equal(back.slots, 3);
	assert_int_equal(back.state, (uintptr_t)&p->table.state);
	drop_memory(p);
	assert_int_equal(cks_memory_file_fill(&back, getpid(), p->dir, &p->why), 0);
	cks_memory_file_free(&back);
}

/* --- into the file that copies share */

/* What cks_memory_file_load() returns, with the other end of its socket open, or @gone. */
static int load(struct place *p, int file, bool gone)
{
	int ends[2], ret;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	if (gone)
		close(ends[1]);
	ret = cks_memory_file_load(&p->file, p->dir, file, ends[0], &p->why);
	close(ends[0]);
	if (!gone)
		close(ends[1]);
	return ret;
}

static void a_file_for_all_copies_has_the_memory_as_their_pools(void **state)
{
	struct place *p = *state;
	int file = memfd_create("pool", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	unsigned char *got = malloc(PIECES * CK_MEMORY_PIECE);
	struct stat st;

	save_memory(p);
	assert_int_equal(load(p, file, false), 0);
	assert_int_equal(fstat(file, &st), 0);
	assert_int_equal(st.st_blocks * 512, 4 * CK_MEMORY_PIECE); /* zeros take no memory */
	assert_int_equal(pread(file, got, PIECES * CK_MEMORY_PIECE, 0), PIECES * CK_MEMORY_PIECE);
	assert_memory_equal(got, p->bytes, PIECES * CK_MEMORY_PIECE);
	assert_int_equal(ftruncate(file, 0), -1); /* memory of other processes */
	assert_int_equal(errno, EPERM);
	close(file);
	free(got);
}

static void memory_of_damaged_files_is_not_for_copies(void **state)
{
	struct place *p = *state;
	int file = memfd_create("pool", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	save_memory(p);
	flip_byte(p, 3 * CK_MEMORY_PIECE - 1);
	assert_int_equal(load(p, file, false), -EBADMSG);
	assert_non_null(strstr(p->why.text, "memory.bin: its content has changed"));
	flip_byte(p, 3 * CK_MEMORY_PIECE - 1);
	assert_int_equal(load(p, file, true), -ECANCELED);
	assert_int_equal(load(p, file, false), 0);
	unlinkat(p->dir, "memory.bin", 0);
	assert_int_equal(load(p, file, false), -ENOENT);
	close(file);
}

/* --- on top of an earlier checkpoint */

/* A second folder in the first, with what is saved there. */
struct next {
	int dir;
	struct cks_memory_file file;
};

static void save_next(struct place *p, const struct cks_memory_file *base, int base_dir,
		      const char *name, struct next *next)
{
	const struct cks_memory_source own = {.pid = getpid(), .pool = -1};

	assert_int_equal(mkdirat(p->dir, name, 0700), 0);
	next->dir = openat(p->dir, name, O_RDONLY | O_DIRECTORY);
	next->file = (struct cks_memory_file){.count = 0};
	assert_int_equal(cks_worker_memory_list(getpid(), (uintptr_t)&p->table, &next->file), 0);
	assert_int_equal(
		cks_memory_file_save(&next->file, &own, next->dir, base, base_dir, &p->why), 0);
}

static void free_next(struct next *next)
{
	cks_memory_file_free(&next->file);
	close(next->dir);
}

static off_t size_in(int dir, const char *name)
{
	struct stat st;

	return fstatat(dir, name, &st, 0) < 0 ? -1 : st.st_size;
}

/* The memory comes back from @next as it is now. */
static void check_next(struct place *p, const struct next *next)
{
	unsigned char *want = malloc(PIECES * CK_MEMORY_PIECE);

	memcpy(want, p->bytes, PIECES * CK_MEMORY_PIECE);
	drop_memory(p);
	assert_int_equal(cks_memory_file_fill(&next->file, getpid(), next->dir, &p->why), 0);
	assert_memory_equal(p->bytes, want, PIECES * CK_MEMORY_PIECE);
	free(want);
}

static void only_changed_pieces_are_written_again(void **state)
{
	struct place *p = *state;
	struct next next, third;

	save_memory(p);
	piece_at(p, 1)[5] = 99;
	save_next(p, &p->file, p->dir, "next", &next);
	assert_int_equal(next.file.added, 1);
	assert_int_equal(size_in(next.dir, "memory.bin"), 3 * CK_MEMORY_PIECE);
	assert_int_equal(size_in(next.dir, "memory-1.bin"), CK_MEMORY_PIECE);
	check_next(p, &next);
	/* each folder is complete without the others */
	assert_int_equal(unlinkat(p->dir, "memory.bin", 0), 0);
	check_next(p, &next);
	piece_at(p, 1)[5] = 98;
	save_next(p, &next.file, next.dir, "third", &third);
	assert_int_equal(third.file.added, 1);
	assert_int_equal(third.file.slots, 4); /* a file that no piece needs has gone */
	assert_int_equal(size_in(third.dir, "memory-1.bin"), -1);
	assert_int_equal(size_in(third.dir, "memory-2.bin"), CK_MEMORY_PIECE);
	check_next(p, &third);
	free_next(&third);
	free_next(&next);
}

static void nothing_is_written_if_nothing_has_changed(void **state)
{
	struct place *p = *state;
	struct next next;

	save_memory(p);
	save_next(p, &p->file, p->dir, "next", &next);
	assert_int_equal(next.file.added, 0);
	assert_int_equal(next.file.parts.count, 1);
	assert_int_equal(size_in(next.dir, "memory-1.bin"), -1);
	check_next(p, &next);
	free_next(&next);
}

/* A byte was changed, or the end is missing. */
static void an_earlier_file_that_is_not_as_it_was_written_is_not_used(void **state)
{
	struct place *p = *state;
	struct next next, third;

	save_memory(p);
	flip_byte(p, 1);
	save_next(p, &p->file, p->dir, "next", &next);
	assert_int_equal(next.file.added, 3);
	assert_int_equal(next.file.parts.count, 1);
	check_next(p, &next);
	assert_int_equal(unlinkat(next.dir, "memory.bin", 0), 0);
	save_next(p, &next.file, next.dir, "third", &third);
	assert_int_equal(third.file.added, 3);
	check_next(p, &third);
	free_next(&third);
	free_next(&next);
}

/* Slots that no piece needs do not add up. */
static void all_is_written_again_when_too_much_is_not_needed(void **state)
{
	struct place *p = *state;
	struct next next[8];
	uint32_t most = 0;

	save_memory(p);
	for (size_t i = 0; i < CK_ARRAY_SIZE(next); i++) {
		char name[16];

		snprintf(name, sizeof(name), "next-%zu", i);
		/* a piece of each earlier file stays */
		for (size_t k = 0; k < PIECES; k++)
			if (k != i % PIECES)
				piece_at(p, k)[i] = (unsigned char)(17 * i + k + 3);
		save_next(p, i ? &next[i - 1].file : &p->file, i ? next[i - 1].dir : p->dir, name,
			  &next[i]);
		most = ck_max(most, next[i].file.slots);
		check_next(p, &next[i]);
	}
	assert_in_range(most, PIECES, CK_MEMORY_SLOTS(PIECES));
	for (size_t i = 0; i < CK_ARRAY_SIZE(next); i++)
		free_next(&next[i]);
}

/* The worker knows by a mark that a piece is the same: it is not even read. */
static void a_marked_piece_is_found_without_its_bytes(void **state)
{
	const struct cks_memory_source none = {.pid = getpid(), .pool = -1};
	struct place *p = *state;
	struct cks_memory_file later = {.count = 0};
	struct next next;

	save_next(p, NULL, -1, "first", &next);
	for (size_t i = 0; i < PIECES; i++)
		next.file.pieces[i].mark = (struct cks_piece_hash){.sum = {i + 1, 7}};
	assert_int_equal(cks_worker_memory_list(getpid(), (uintptr_t)&p->table, &later), 0);
	for (size_t i = 0; i < PIECES; i++) {
		later.pieces[i].mark = next.file.pieces[i].mark;
		if (next.file.pieces[i].slot != CK_MEMORY_ZERO)
			later.pieces[i].at = 4096; /* cannot be read */
	}
	assert_int_equal(cks_memory_file_save(&later, &none, p->dir, &next.file, next.dir, &p->why),
			 0);
	assert_int_equal(later.added, 0);
	for (size_t i = 0; i < PIECES; i++)
		assert_int_equal(later.pieces[i].slot, next.file.pieces[i].slot);
	cks_memory_file_free(&later);
	free_next(&next);
}

/* A pool that has left its worker, and was changed after the marks were made. */
static void a_pool_is_read_as_it_was_marked_or_not_at_all(void **state)
{
	struct cks_memory_source pool = {.pid = getpid()};
	struct place *p = *state;

	pool.pool = memfd_create("pool", MFD_CLOEXEC);
	assert_int_equal(pwrite(pool.pool, p->bytes, PIECES * CK_MEMORY_PIECE, 0),
			 PIECES * CK_MEMORY_PIECE);
	assert_int_equal(cks_worker_memory_list(getpid(), (uintptr_t)&p->table, &p->file), 0);
	for (size_t i = 0; i < PIECES; i++)
		cks_piece_hash(piece_at(p, i), CK_MEMORY_PIECE, &p->file.key,
			       &p->file.pieces[i].mark);
	drop_memory(p);
	assert_int_equal(cks_memory_file_save(&p->file, &pool, p->dir, NULL, -1, &p->why), 0);
	fill_memory(p->bytes);
	check_next(p, &(struct next){.dir = p->dir, .file = p->file});
	drop_memory(p);
	assert_int_equal(cks_memory_file_give_back(&p->file, &pool, &p->why), 0);
	assert_int_equal(piece_at(p, 1)[99], 2);
	assert_int_equal(pwrite(pool.pool, "x", 1, 2 * CK_MEMORY_PIECE), 1);
	assert_int_equal(unlinkat(p->dir, "memory.bin", 0), 0);
	assert_int_equal(cks_memory_file_save(&p->file, &pool, p->dir, NULL, -1, &p->why), -ESTALE);
	close(pool.pool);
}

static void several_files_come_back_from_json(void **state)
{
	struct place *p = *state;
	struct cks_memory_file back = {.count = 0};
	struct next next;
	json_t *json;

	save_memory(p);
	piece_at(p, 1)[5] = 99;
	save_next(p, &p->file, p->dir, "next", &next);
	next.file.pieces[0].mark = (struct cks_piece_hash){.sum = {0xfedcba9876543210, 5}};
	json = cks_memory_file_json(&next.file);
	assert_true(cks_memory_file_take(json, &back));
	json_decref(json);
	assert_int_equal(back.parts.count, 2);
	assert_memory_equal(back.parts.list, next.file.parts.list, 2 * sizeof(back.parts.list[0]));
	assert_true(cks_piece_hash_equal(&back.pieces[0].mark, &next.file.pieces[0].mark));
	assert_false(cks_piece_hash_known(&back.pieces[1].mark));
	check_next(p, &(struct next){.dir = next.dir, .file = back});
	cks_memory_file_free(&back);
	free_next(&next);
}

/* JSON with simple quotation marks, and H for a hash. */
static json_t *parse_list(const char *text)
{
	static const char hash[] =
		"\"0123456789012345678901234567890123456789012345678901234567890123\"";
	char json[256];
	size_t n = 0;

	for (; *text; text++) {
		if (*text == 'H')
			n += (size_t)snprintf(json + n, sizeof(json) - n, "%s", hash);
		else
			json[n++] = *text == '\'' ? '"' : *text;
	}
	return json_loadb(json, n, 0, NULL);
}

/* A piece has 2 MiB, and the state 8 bytes. */
static void only_right_lists_are_taken(void **state)
{
	static const struct {
		bool right;
		const char *text;
	} lists[] = {
		{true, "{'pieces': [[8192, 0, H], [8388608]], 'slots': 1, 'state': 4096}"},
		{true, "{'pieces': [[2105344], [8192]], 'slots': 0, 'state': 8184}"},
		{true, "{'pieces': [[8192]], 'slots': 0, 'state': 2105344}"},
		{false, "{}"},
		{false, "{'pieces': 1, 'slots': 1, 'state': 4096}"},
		{false, "{'pieces': [], 'slots': -1, 'state': 4096}"},
		{false, "{'pieces': [[]], 'slots': 1, 'state': 4096}"},
		{false, "{'pieces': [[-8192]], 'slots': 1, 'state': 4096}"},
		{false, "{'pieces': [[8192, 0]], 'slots': 1, 'state': 4096}"},
		{false, "{'pieces': [[8192, 0, '12']], 'slots': 1, 'state': 4096}"},
		{false, "{'pieces': [[8192, 1, H]], 'slots': 1, 'state': 4096}"},
		/* more slots than pieces can have left: a file of any size */
		{true, "{'pieces': [[8192, 0, H]], 'slots': 3, 'state': 4096}"},
		{false, "{'pieces': [[8192, 0, H]], 'slots': 4, 'state': 4096}"},
		/* files that do not have these slots, or have the same name */
		{true, "{'parts': [[0,1,1], [3,1,0]], 'pieces': [[8192]], 'slots': 2, 'state': 8}"},
		{false,
		 "{'parts': [[0,1,1], [3,2,0]], 'pieces': [[8192]], 'slots': 2, 'state': 8}"},
		{false, "{'parts': [[0,1,1]], 'pieces': [[8192]], 'slots': 2, 'state': 8}"},
		{false,
		 "{'parts': [[1,1,1], [1,1,1]], 'pieces': [[8192]], 'slots': 2, 'state': 8}"},
		{false, "{'parts': [[-1,2,1]], 'pieces': [[8192]], 'slots': 2, 'state': 8}"},
		{false,
		 "{'parts': [[0,-1,1], [1,3,1]], 'pieces': [[8192]], 'slots': 2, 'state': 8}"},
		{false, "{'parts': [[0,2]], 'pieces': [[8192]], 'slots': 2, 'state': 8}"},
		{false, "{'parts': 1, 'pieces': [[8192]], 'slots': 0, 'state': 8}"},
		{false, "{'pieces': [[8192, 0, H, 'short']], 'slots': 1, 'state': 4096}"},
		/* the same memory twice, and in part */
		{false, "{'pieces': [[8192, 0, H], [8192]], 'slots': 1, 'state': 4096}"},
		{false, "{'pieces': [[2105343], [8192]], 'slots': 0, 'state': 4096}"},
		/* up to the end of all addresses */
		{false, "{'pieces': [[9223372036854775807]], 'slots': 0, 'state': 4096}"},
		/* no state, or one in a piece */
		{false, "{'pieces': [[8192]], 'slots': 0}"},
		{false, "{'pieces': [[8192]], 'slots': 0, 'state': 8192}"},
		{false, "{'pieces': [[8192]], 'slots': 0, 'state': 8185}"},
		{false, "{'pieces': [[8192]], 'slots': 0, 'state': 2105343}"},
		{false, "{'pieces': [[8192]], 'slots': 0, 'state': 9223372036854775807}"},
	};

	(void)state;
	for (size_t i = 0; i < CK_ARRAY_SIZE(lists); i++) {
		struct cks_memory_file file = {.count = 0};
		json_t *json = parse_list(lists[i].text);

		if (cks_memory_file_take(json, &file) != lists[i].right)
			fail_msg("%s", lists[i].text);
		cks_memory_file_free(&file);
		json_decref(json);
	}
}

static void a_table_that_cannot_be_read_gives_no_list(void **state)
{
	struct place *p = *state;

	assert_int_equal(cks_worker_memory_list(getpid(), 4096, &p->file), -EFAULT);
	p->table.used = PIECES * CK_MEMORY_PIECE + 1;
	assert_int_equal(cks_worker_memory_list(getpid(), (uintptr_t)&p->table, &p->file), -EINVAL);
	p->pool[1].size = 4097;
	assert_int_equal(cks_worker_memory_list(getpid(), (uintptr_t)&p->table, &p->file), -EINVAL);
	p->table.pieces = (struct cks_pool_piece *)4096;
	assert_int_equal(cks_worker_memory_list(getpid(), (uintptr_t)&p->table, &p->file), -EFAULT);
	assert_int_equal(p->file.count, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_place, free_place)
	const struct CMUnitTest tests[] = {
		TEST(dropped_memory_is_filled_again_and_equal_pieces_are_stored_once),
		TEST(complete_memory_is_not_touched),
		TEST(damaged_files_are_errors_and_the_memory_stays_incomplete),
		TEST(a_file_for_all_copies_has_the_memory_as_their_pools),
		TEST(memory_of_damaged_files_is_not_for_copies),
		TEST(the_list_comes_back_from_json),
		TEST(only_changed_pieces_are_written_again),
		TEST(nothing_is_written_if_nothing_has_changed),
		TEST(an_earlier_file_that_is_not_as_it_was_written_is_not_used),
		TEST(all_is_written_again_when_too_much_is_not_needed),
		TEST(a_marked_piece_is_found_without_its_bytes),
		TEST(a_pool_is_read_as_it_was_marked_or_not_at_all),
		TEST(several_files_come_back_from_json),
		TEST(only_right_lists_are_taken),
		TEST(a_table_that_cannot_be_read_gives_no_list),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
