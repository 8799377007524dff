/*
 * m3/tool_shell.c - the shell of the first M3: help halt echo alloc lsmem read write memset exit.
 *
 * That shell named memory by the address where it had mapped it. This one has no CUDA; it gives
 * each region a made-up address, and read, write and memset take addresses inside of those.
 */
#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "m3/tool.h"
#include "util/util.h"

#define WORDS 5
#define BASE 0x700000000000ull

struct place {
	struct place *next;
	uint64_t address;
	m3_region *region;
	char name[M3_NAME_MAX];
};

static struct place *places;
static uint64_t next_address = BASE;

static void print_error(const char *what, int status)
{
	if (status != M3_OK)
		printf("%s: %s\n", what, m3_strerror(status));
}

static uint64_t parse_unit(const char *text)
{
	switch (tolower((unsigned char)*text)) {
	case 'g':
		return 1ull << 30;
	case 'm':
		return 1ull << 20;
	case 'k':
		return 1ull << 10;
	default:
		return 0;
	}
}

/* ID F g|m|k, where F may have a fraction */
static void do_alloc(m3_client *c, char **word)
{
	m3_alloc_req req = {.mem_id = word[1], .device = M3_ANY_DEVICE, .flags = M3_NO_MAP};
	double amount = strtod(word[2], NULL) * (double)parse_unit(word[3]);
	struct place *p = calloc(1, sizeof(*p));
	int status = M3_EINVAL;

	if (p && amount >= 1 && amount < 1e18) {
		req.bytes = (uint64_t)amount;
		status = m3_alloc(c, &req, &p->region);
	}
	if (status != M3_OK || !p) {
		print_error("alloc", status);
		free(p);
		return;
	}
	snprintf(p->name, sizeof(p->name), "%s", word[1]);
	p->address = next_address;
	next_address += m3_region_size(p->region);
	p->next = places;
	places = p;
	printf("%s: %#llx\n", p->name, (unsigned long long)p->address);
}

static void do_lsmem(void)
{
	for (const struct place *p = places; p; p = p->next)
		printf("%#llx %llu %s\n", (unsigned long long)p->address,
		       (unsigned long long)m3_region_size(p->region), p->name);
}

/* The region that holds the address in @text, and the offset there. */
static m3_region *region_at(const char *text, uint64_t *offset)
{
	uint64_t address = strtoull(text, NULL, 0);

	for (const struct place *p = places; p; p = p->next) {
		*offset = address - p->address;
		if (address >= p->address && *offset < m3_region_size(p->region))
			return p->region;
	}
	printf("%s: no memory there\n", text);
	return NULL;
}

static void do_read(char **word)
{
	uint64_t offset, size = strtoull(word[2], NULL, 0);
	m3_region *r = region_at(word[1], &offset);
	char *bytes = r && size <= 1u << 20 ? malloc(size + 1) : NULL;
	int status = bytes ? m3_read(r, offset, bytes, size) : M3_EINVAL;

	if (r)
		print_error("read", status);
	if (status == M3_OK) {
		for (uint64_t i = 0; i < size; i++)
			putchar(isprint((unsigned char)bytes[i]) ? bytes[i] : '.');
		putchar('\n');
	}
	free(bytes);
}

static void do_write(char **word)
{
	uint64_t offset;
	m3_region *r = region_at(word[1], &offset);

	if (r)
		print_error("write", m3_write(r, offset, word[2], strlen(word[2])));
}

static void do_memset(char **word)
{
	uint64_t offset;
	m3_region *r = region_at(word[1], &offset);

	if (r)
		print_error("memset", m3_fill(r, offset, (unsigned char)word[3][0],
					      strtoull(word[2], NULL, 0)));
}

static void do_echo(m3_client *c, const char *text)
{
	char back[256] = "";
	int status = m3_echo(c, text, strlen(text), back);

	print_error("echo", status);
	if (status == M3_OK)
		puts(back);
}

/* One line; false: no more. */
static bool run_line(m3_client *c, char **word, int words)
{
	if (words == 0)
		return true;
	if (strcmp(word[0], "exit") == 0)
		return false;
	if (strcmp(word[0], "halt") == 0 && words == 1) {
		print_error("halt", m3_halt(c));
		return false;
	}
	if (strcmp(word[0], "echo") == 0 && words == 2)
		do_echo(c, word[1]);
	else if (strcmp(word[0], "alloc") == 0 && words == 4)
		do_alloc(c, word);
	else if (strcmp(word[0], "lsmem") == 0)
		do_lsmem();
	else if (strcmp(word[0], "read") == 0 && words == 3)
		do_read(word);
	else if (strcmp(word[0], "write") == 0 && words == 3)
		do_write(word);
	else if (strcmp(word[0], "memset") == 0 && words == 4)
		do_memset(word);
	else
		puts("help, halt, echo N, alloc ID F g|m|k, lsmem, read ADDR LEN, write ADDR STR, "
		     "memset ADDR LEN C, exit");
	return true;
}

int ck_m3_tool_shell(m3_client *c)
{
	char line[512], *word[WORDS], *rest;
	int words;

	while (fgets(line, sizeof(line), stdin)) {
		words = 0;
		for (char *w = strtok_r(line, " \t\n", &rest); w && words < WORDS;
		     w = strtok_r(NULL, " \t\n", &rest))
			word[words++] = w;
		if (!run_line(c, word, words))
			break;
		fflush(stdout);
	}
	while (places) {
		struct place *p = places;

		places = p->next;
		m3_release(p->region);
		free(p);
	}
	return 0;
}
