/*
 * loader/stubs/cuda_address.c - functions of the CUDA half that the application got as addresses.
 *
 * If the address has a name, it gets the entry of that name. Otherwise it gets a free place behind
 * the names in the half's table, and an entry without a name. The parameters of such a function are
 * unknown, so arguments that point to the application's code are taken for callbacks. When all
 * places are in use, the entry that it gets refuses the call.
 *
 * Tables from cuGetExportTable are changed in place, because the runtime checks their addresses.
 * One function stays: the answer of that check (libcuda/export_integrity.c). It must see the
 * caller's thread and its own unchanged address, so it runs on the application's thread block.
 * Cricket's uses no thread-local data there; it has asked for all of it when cuGetExportTable was
 * called.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "loader/stubs/cuda.h"
#include "loader/stubs/stub.h"

#define PAGE 4096ul
#define WORDS_MAX 4096
#define WORDS_UNTOLD 32
#define RANGES 2048
#define CHECK_ANSWER 1 /* the word of the check's table that stays */

__attribute__((visibility("hidden"))) void lh_convert(long args[6]);

static const unsigned char check_id[16] = {0xd4, 0x08, 0x20, 0x55, 0xbd, 0xe6, 0x70, 0x4b,
					   0x8d, 0x34, 0xba, 0x12, 0x3c, 0x66, 0xe1, 0xf2};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned int dynamic; /* entries in use */

/* --- ranges of code */

static struct range {
	uintptr_t start, end;
} code[RANGES];
static unsigned int code_count;

static int count_libraries(struct dl_phdr_info *library, size_t size, void *count)
{
	(void)size;
	*(unsigned long long *)count = library->dlpi_adds;
	return 1;
}

/* Reading takes long, so it is done again only after libraries have been loaded. */
static void read_code(void)
{
	static unsigned long long known;
	unsigned long long now = 0;

	unsigned long start, end;
	char line[4352], access[5];
	FILE *f;

	dl_iterate_phdr(count_libraries, &now);
	if (now == known)
		return;
	known = now;
	f = fopen("/proc/self/maps", "re");
	code_count = 0;
	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "%lx-%lx %4s", &start, &end, access) == 3 && access[2] == 'x' &&
		    code_count < RANGES)
			code[code_count++] = (struct range){start, end};
	if (f)
		fclose(f);
}

static int in_code(uintptr_t at)
{
	for (unsigned int i = 0; i < code_count; i++)
		if (at >= code[i].start && at < code[i].end)
			return 1;
	return 0;
}

int lh_is_code(const void *address)
{
	uintptr_t at = (uintptr_t)address;
	int found;

	if (at < PAGE)
		return 0;
	pthread_mutex_lock(&lock);
	found = in_code(at);
	if (!found) {
		read_code();
		found = in_code(at);
	}
	pthread_mutex_unlock(&lock);
	return found;
}

static int in_half(const struct lh_half *half, const void *address)
{
	return (uintptr_t)address >= half->base && (uintptr_t)address < half->end;
}

/* --- addresses */

/* An entry of @function's own; with the lock. The last one has no function: it refuses. */
static void *new_entry(void *function)
{
	if (!lh_dynamic_entry(dynamic + 1))
		return lh_dynamic_entry(dynamic);
	lh_half_at->table[lh_count + dynamic] = function;
	return lh_dynamic_entry(dynamic++);
}

void *lh_upper_address(void *function)
{
	void **table = lh_half_at->table, *entry = NULL;
	unsigned int i;

	if (!in_half(lh_half_at, function))
		return function;
	for (i = 0; i < lh_count; i++)
		if (table[i] == function)
			return lh_entries[i];
	pthread_mutex_lock(&lock);
	for (i = 0; i < dynamic && !entry; i++)
		if (table[lh_count + i] == function)
			entry = lh_dynamic_entry(i);
	if (!entry)
		entry = new_entry(function);
	pthread_mutex_unlock(&lock);
	return entry;
}

/* How many words it has; 0: that is not known. */
static unsigned int table_words(void **table)
{
	uintptr_t first = (uintptr_t)table[0];
	unsigned int words = (unsigned int)(first / sizeof(void *));

	/* one table does not begin with its size */
	if (first % sizeof(void *) || first / sizeof(void *) > WORDS_MAX || !words)
		for (words = 0; words < WORDS_UNTOLD && lh_is_code(table[words]); words++)
			;
	return words;
}

bool lh_turn_table(void **table, const void *id)
{
	unsigned int words = table_words(table);
	unsigned int stays = memcmp(id, check_id, sizeof(check_id)) ? words : CHECK_ANSWER;
	uintptr_t page = (uintptr_t)table & -PAGE;

	if (mprotect((void *)page, (uintptr_t)(table + words) - page, PROT_READ | PROT_WRITE)) {
		fprintf(stderr,
			"kernel-loader: cuda: a table of functions is refused: mprotect: %s\n",
			strerror(errno));
		return false;
	}
	for (unsigned int i = 0; i < words; i++)
		if (i != stays && in_half(lh_half_at, table[i]) && lh_is_code(table[i]))
			table[i] = lh_upper_address(table[i]);
	return true;
}

/* From call_dynamic.S, with the arguments in registers of a call without a name. */
void lh_convert(long args[6])
{
	for (int i = 0; i < 6; i++) {
		void *p = (void *)args[i];

		if (!in_half(lh_half_at, p) && lh_is_code(p))
			args[i] = (long)(uintptr_t)lh_host_function(p);
	}
}
