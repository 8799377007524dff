/*
 * emu/ptx/memory/check_report.c - a line on stderr for each place where a check found something.
 *
 * A place is a pair of instructions of a module, and the kernel. It is reported once, for the
 * threads and the block that reach it first. After MOST lines a process reports no more.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "emu/core/locks.h"
#include "emu/ptx/memory/check.h"
#include "util/log.h"

CK_LOG_DEFINE("emu");

#define MOST 200

struct ck_ptx_hazards { /* of a module: the places reported */
	struct place {
		uint32_t kernel, first, second; /* instructions; second CK_PTX_NONE: no thread
						 * wrote */
	} * places;
	uint32_t count, room;
};

static struct ck_mutex hazards_lock = CK_MUTEX(CK_RANK_HAZARDS);

void ck_ptx_hazards_free(struct ck_ptx_module *module)
{
	if (module->hazards)
		free(module->hazards->places);
	free(module->hazards);
}

/* Whether the place is new; then it is kept. */
static bool record_place(struct ck_ptx_hazards **at, const struct place *place)
{
	struct ck_ptx_hazards *h = *at;

	if (!h)
		h = *at = calloc(1, sizeof(*h));
	if (!h)
		return false;
	for (uint32_t i = 0; i < h->count; i++)
		if (memcmp(&h->places[i], place, sizeof(*place)) == 0)
			return false;
	if (ck_ptx_room(&h->places, &h->room, h->count, sizeof(*place)) < 0)
		return false;
	h->places[h->count++] = *place;
	return true;
}

static bool is_new(const struct ck_ptx_check *check, uint32_t first, uint32_t second)
{
	static atomic_uint told;
	const struct ck_ptx_run *run = check->block->run;
	struct place place = {run->kernel->func, ck_min(first, second), ck_max(first, second)};
	bool is_first;
	unsigned int before;

	ck_lock(&hazards_lock);
	is_first = record_place(&((struct ck_ptx_module *)run->module)->hazards, &place);
	ck_unlock(&hazards_lock);
	if (!is_first)
		return false;
	before = atomic_fetch_add(&told, 1);
	if (before == MOST)
		ck_warn("%u places with races or uninitialised reads: further ones are not "
			"reported",
			MOST);
	return before < MOST;
}

/* "kernel k, block 0,0,0" */
static const char *format_location(const struct ck_ptx_check *check, char *text, size_t size)
{
	const struct ck_ptx_block *b = check->block;

	snprintf(text, size, "kernel %s, block %u,%u,%u", b->run->kernel->info.name, b->id[0],
		 b->id[1], b->id[2]);
	return text;
}

static const char *format_thread(const struct ck_ptx_check *check, uint32_t thread, char *text,
				 size_t size)
{
	const uint32_t *block = check->block->run->grid->block;

	if (thread == check->count)
		snprintf(text, size, "a bulk copy");
	else
		snprintf(text, size, "thread %u,%u,%u", thread % block[0],
			 thread / block[0] % block[1], thread / block[0] / block[1]);
	return text;
}

/* Where in shared memory: the offset, and the variable when the kernel itself names it. */
static const char *format_address(const struct ck_ptx_check *check, uint32_t offset, char *text,
				  size_t size)
{
	const struct ck_ptx_module *m = check->block->run->module;
	const struct ck_ptx_func *f = &m->funcs[check->block->run->kernel->func];
	int n = snprintf(text, size, "%#x of shared memory", offset);

	for (uint32_t i = 0; i < f->shared_count; i++) {
		const struct ck_ptx_var *var = &m->vars[f->shared[i]];

		if (!var->dynamic && offset >= var->address && offset - var->address < var->size)
			snprintf(text + n, size - (size_t)n, " (%s + %u)", var->name,
				 (unsigned int)(offset - var->address));
	}
	return text;
}

static const char *describe_access(unsigned int touch)
{
	if (touch & CK_PTX_TOUCH_WRITE)
		return touch & CK_PTX_TOUCH_READ ? "changes" : "writes";
	return "reads";
}

void ck_ptx_report_race(const struct ck_ptx_check *check, uint32_t thread, uint32_t offset,
			unsigned int touch, const struct ck_ptx_stamp *other)
{
	const struct ck_ptx_insn *code = check->block->run->module->code, *in = check->in;
	const struct ck_ptx_module *module = check->block->run->module;
	char place[200], mine[60], theirs[60], memory[200], line[700], other_line[700];

	if (!is_new(check, other->insn, (uint32_t)(in - code)))
		return;
	ck_warn("race: %s: %s %s %s in '%s', %s; %s %s it in '%s', %s, %s",
		format_location(check, place, sizeof(place)),
		format_thread(check, touch & CK_PTX_TOUCH_AGENT ? check->count : thread, mine,
			      sizeof(mine)),
		describe_access(touch), format_address(check, offset, memory, sizeof(memory)),
		ck_ptx_op_name(in->op), ck_ptx_source_format(module, in, line, sizeof(line)),
		format_thread(check, other->thread, theirs, sizeof(theirs)),
		describe_access(other->touch), ck_ptx_op_name(code[other->insn].op),
		ck_ptx_source_format(module, &code[other->insn], other_line, sizeof(other_line)),
		other->touch & CK_PTX_TOUCH_ASYNC ? "a copy that has not been waited for"
						  : "and nothing orders the two");
}

void ck_ptx_report_init(const struct ck_ptx_check *check, const struct ck_ptx_warp *w, uint32_t l,
			uint32_t offset)
{
	const struct ck_ptx_insn *in = check->in;
	char place[200], reader[60], memory[200], line[700];

	if (!is_new(check, CK_PTX_NONE, (uint32_t)(in - w->block->run->module->code)))
		return;
	ck_warn("uninitialised: %s: %s reads %s in '%s', %s; it was never written",
		format_location(check, place, sizeof(place)),
		format_thread(check, w->index * CK_PTX_LANES + l, reader, sizeof(reader)),
		format_address(check, offset, memory, sizeof(memory)), ck_ptx_op_name(in->op),
		ck_ptx_source_format(check->block->run->module, in, line, sizeof(line)));
}
