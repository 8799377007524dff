/*
 * util/mappings.c - see mappings.h.
 */
#include <stdio.h>
#include <string.h>

#include "util/mappings.h"
#include "util/util.h"

static bool next_mapping(FILE *maps, struct ck_own_mapping *m)
{
	char line[512];
	int c = 0;

	if (!fgets(line, sizeof(line), maps))
		return false;
	if (!strchr(line, '\n')) /* skip the rest of a long path */
		while ((c = fgetc(maps)) != '\n' && c != EOF)
			;
	m->name[0] = '\0';
	return sscanf(line, "%lx-%lx %4s %*s %*s %*s %31s", &m->lo, &m->hi, m->rights, m->name) >=
	       3;
}

bool ck_mappings_all(uint64_t lo, uint64_t size, bool (*such)(const struct ck_own_mapping *m))
{
	struct ck_own_mapping m;
	bool are = true;
	uint64_t hi;
	FILE *maps;

	if (ck_add_overflow(lo, size, &hi))
		return false;
	maps = fopen("/proc/self/maps", "re");
	if (!maps)
		return false;
	while (are && lo < hi && next_mapping(maps, &m)) {
		if (m.hi <= lo)
			continue;
		are = m.lo <= lo && such(&m);
		lo = m.hi;
	}
	fclose(maps);
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
