/*
 * emu/ptx/language/source.c - the source lines of instructions (.file, .loc).
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emu/ptx/language/module.h"

#define LONGEST_NAME 4096

static bool is_same(struct ck_ptx_line a, struct ck_ptx_line b)
{
	return a.file == b.file && a.line == b.line;
}

int ck_ptx_source_add(struct ck_ptx_module *m, struct ck_ptx_source source)
{
	const struct ck_ptx_source *last;

	/* an instruction may have been taken back */
	while (m->source_count > 0 && m->sources[m->source_count - 1].insn >= source.insn)
		m->source_count--;
	last = m->source_count > 0 ? &m->sources[m->source_count - 1] : NULL;
	if (last ? last->unit == source.unit && is_same(last->at, source.at) &&
			    is_same(last->caller, source.caller)
		 : !source.at.line)
		return 0;
	if (ck_ptx_room(&m->sources, &m->source_room, m->source_count, sizeof(*m->sources)) < 0)
		return -ENOMEM;
	m->sources[m->source_count++] = source;
	return 0;
}

int ck_ptx_source_name(struct ck_ptx_module *m, uint32_t unit, uint32_t number, const char *name,
		       size_t size)
{
	struct ck_ptx_source_file file = {.unit = unit, .number = number};

	if (size > LONGEST_NAME)
		return 0;
	if (ck_ptx_room(&m->files, &m->file_room, m->file_count, sizeof(*m->files)) < 0)
		return -ENOMEM;
	file.name = strndup(name, size);
	if (!file.name)
		return -ENOMEM;
	m->files[m->file_count++] = file;
	return 0;
}

void ck_ptx_sources_free(struct ck_ptx_module *m)
{
	for (uint32_t i = 0; i < m->file_count; i++)
		free(m->files[i].name);
	free(m->files);
	free(m->sources);
}

/* The last one that begins at @insn or before; NULL: it has no line. */
static const struct ck_ptx_source *find_source(const struct ck_ptx_module *m, uint32_t insn)
{
	uint32_t low = 0, high = m->source_count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (m->sources[middle].insn <= insn)
			low = middle + 1;
		else
			high = middle;
	}
	return low > 0 && m->sources[low - 1].at.line ? &m->sources[low - 1] : NULL;
}

static const char *find_name(const struct ck_ptx_module *m, uint32_t unit, uint32_t number)
{
	for (uint32_t i = 0; i < m->file_count; i++) {
		if (m->files[i].unit == unit && m->files[i].number == number)
			return m->files[i].name;
	}
	return NULL;
}

const char *ck_ptx_source_format(const struct ck_ptx_module *m, const struct ck_ptx_insn *in,
				 char *text, size_t size)
{
	const struct ck_ptx_source *source = find_source(m, (uint32_t)(in - m->code));
	const char *name = source ? find_name(m, source->unit, source->at.file) : NULL, *caller;
	size_t used = (size_t)snprintf(text, size, "line %u of the PTX", in->line);

	if (!name)
		return text;
	caller = source->caller.line ? find_name(m, source->unit, source->caller.file) : NULL;
	used += (size_t)snprintf(text + used, size - used, " (%s:%u", name, source->at.line);
	if (caller && used < size)
		used += (size_t)snprintf(text + used, size - used, ", called at %s:%u", caller,
					 source->caller.line);
	if (used < size)
		snprintf(text + used, size - used, ")");
	return text;
}
