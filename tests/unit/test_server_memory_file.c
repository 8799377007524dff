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
	assert_int_equal(cks_worker_memory_list(getpid(), (uintptr_t)&p->table, &p->file), 0);
	assert_int_equal(p->file.count, PIECES);
	assert_int_equal(cks_memory_file_save(&p->file, getpid(), p->dir, &p->why), 0);
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
		/* more slots than pieces: a file of any size */
		{false, "{'pieces': [[8192, 0, H]], 'slots': 2, 'state': 4096}"},
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
		TEST(the_list_comes_back_from_json),
		TEST(only_right_lists_are_taken),
		TEST(a_table_that_cannot_be_read_gives_no_list),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
