/*
 * tests/fuzz/fuzz_server_memory_file.c - any text as a manifest's list of the pieces in memory.bin,
 * and a file that may be damaged: a list that is taken has pieces that are apart, and memory that
 * was filled has the right content.
 *
 * The file has three slots, of which all bytes are 1, 2 and 3. The input's first byte chooses the
 * file's length in slots (bits 0 and 1) and pages, the next three a byte that is changed; the list
 * follows. The memory is at a fixed address, for which the samples have lists.
 */
#include <fcntl.h>
#include <jansson.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "server/checkpoint/memory_file.h"
#include "server/processes/pool_table.h"
#include "tests/fuzz/folder.h"
#include "tests/fuzz/standalone.h"

#define SLOTS 3
#define PIECES 4
#define PLACE ((unsigned char *)0x200000000000)
#define STATE ((uint64_t *)(void *)(PLACE + PIECES * CK_MEMORY_PIECE))
#define ROOM (PIECES * CK_MEMORY_PIECE + 4096)

static int dir, file;

static void remove_file(void)
{
	unlinkat(dir, "memory.bin", 0);
}

static void write_slot(int slot)
{
	static unsigned char bytes[CK_MEMORY_PIECE];

	memset(bytes, slot + 1, sizeof(bytes));
	CK_FUZZ_CHECK(pwrite(file, bytes, sizeof(bytes), slot * (off_t)sizeof(bytes)) ==
		      (ssize_t)sizeof(bytes));
}

static void begin(void)
{
	if (file)
		return;
	CK_FUZZ_CHECK(mmap(PLACE, ROOM, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == PLACE);
	dir = fuzz_folder_open();
	atexit(remove_file); /* before the folder */
	file = openat(dir, "memory.bin", O_RDWR | O_CREAT, 0600);
	for (int i = 0; i < SLOTS; i++)
		write_slot(i);
}

/* Is all of it in the memory that is for it? */
static bool is_inside(const struct cks_memory_file *m)
{
	for (size_t i = 0; i < m->count; i++) {
		uint64_t at = m->pieces[i].at;

		if (at < (uintptr_t)PLACE || at > (uintptr_t)STATE - CK_MEMORY_PIECE)
			return false;
	}
	return m->state == (uintptr_t)STATE;
}

static void check_list(const struct cks_memory_file *m)
{
	CK_FUZZ_CHECK(m->parts.count <= CK_MEMORY_PARTS);
	CK_FUZZ_CHECK(cks_memory_parts_slots(&m->parts) == m->slots);
	for (size_t i = 0; i < m->count; i++) {
		uint64_t at = m->pieces[i].at, end = at + CK_MEMORY_PIECE;

		CK_FUZZ_CHECK(at > 0 && end > at);
		CK_FUZZ_CHECK(m->state + 8 <= at || m->state >= end);
		CK_FUZZ_CHECK(m->pieces[i].slot == CK_MEMORY_ZERO || m->pieces[i].slot < m->slots);
		for (size_t j = 0; j < i; j++)
			CK_FUZZ_CHECK(m->pieces[j].at >= end ||
				      m->pieces[j].at + CK_MEMORY_PIECE <= at);
	}
}

static void check_filled(const struct cks_memory_file *m, bool damaged)
{
	for (size_t i = 0; i < m->count; i++) {
		const unsigned char *at = (const unsigned char *)(uintptr_t)m->pieces[i].at;
		uint32_t slot = m->pieces[i].slot;
		unsigned char want = slot == CK_MEMORY_ZERO ? 0 : (unsigned char)(slot + 1);

		CK_FUZZ_CHECK(slot == CK_MEMORY_ZERO || (slot < SLOTS && !damaged));
		CK_FUZZ_CHECK(at[0] == want && memcmp(at, at + 1, CK_MEMORY_PIECE - 1) == 0);
	}
}

static void fill(const struct cks_memory_file *m, const uint8_t *data)
{
	const off_t whole = SLOTS * (off_t)CK_MEMORY_PIECE;
	off_t at = (data[1] << 16 | data[2] << 8 | data[3]) % whole;
	int slot = (int)(at / (off_t)CK_MEMORY_PIECE), slots = data[0] & 3;
	struct cks_why why;
	bool named = false;
	int ret;

	for (size_t i = 0; i < m->count; i++)
		named = named || (at && m->pieces[i].slot == (uint32_t)slot);
	madvise(PLACE, ROOM, MADV_DONTNEED);
	*STATE = CK_POOL_DROPPED;
	if (at)
		CK_FUZZ_CHECK(pwrite(file, "\xff", 1, at) == 1);
	CK_FUZZ_CHECK(ftruncate(file, slots * (off_t)CK_MEMORY_PIECE + (data[0] >> 2) * 4096) == 0);
	ret = cks_memory_file_fill(m, getpid(), dir, &why);
	CK_FUZZ_CHECK((ret == 0 && m->count > 0) == (*STATE == CK_POOL_COMPLETE));
	if (ret == 0 && m->count > 0)
		check_filled(m, named);
	CK_FUZZ_CHECK(ftruncate(file, whole) == 0);
	for (int i = slots; i < SLOTS; i++)
		write_slot(i);
	if (at && slot < slots)
		write_slot(slot);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct cks_memory_file m = {.count = 0};
	json_t *json;

	if (size < 4)
		return 0;
	begin();
	json = json_loadb((const char *)data + 4, size - 4, 0, NULL);
	if (json && cks_memory_file_take(json, &m)) {
		check_list(&m);
		if (is_inside(&m))
			fill(&m, data);
	}
	cks_memory_file_free(&m);
	json_decref(json);
	return 0;
}
