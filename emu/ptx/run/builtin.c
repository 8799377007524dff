/*
 * emu/ptx/run/builtin.c - functions that a device program may call and that no text defines.
 */
#include <stdio.h>
#include <stdlib.h>

#include "emu/ptx/run/grid.h"

#define MAX_TEXT 1024 /* of the strings of an assertion */

static uint8_t *slot_of(struct ck_ptx_warp *w, uint32_t l, const struct ck_ptx_slot *slot)
{
	uint64_t base = ck_ptx_row(w, CK_PTX_ROW_LOCAL)[l];

	return w->local + (size_t)l * w->local_bytes + base + slot->offset;
}

/* Argument @i of the call; 0 if it was not passed. */
static uint64_t read_argument(struct ck_ptx_warp *w, uint32_t l, const struct ck_ptx_call *call,
			      uint32_t i)
{
	uint64_t value = 0;

	if (i < call->arg_count)
		memcpy(&value, slot_of(w, l, &call->args[i]),
		       ck_min((size_t)call->args[i].size, sizeof(value)));
	return value;
}

static void write_result(struct ck_ptx_warp *w, uint32_t l, const struct ck_ptx_call *call,
			 uint64_t value)
{
	const struct ck_ptx_slot *slot = &call->args[call->arg_count];

	if (call->ret_count > 0)
		memcpy(slot_of(w, l, slot), &value, ck_min((size_t)slot->size, sizeof(value)));
}

/* A string of the device, cut to the buffer. */
static int read_text(struct ck_ptx_warp *w, uint32_t l, uint64_t address, char text[MAX_TEXT])
{
	uint8_t *at;

	for (size_t i = 0; i < MAX_TEXT; i++) {
		int err = ck_ptx_translate(w, l, CK_PTX_GENERIC, address + i, 1, &at);

		if (err)
			return err;
		text[i] = (char)*at;
		if (!text[i])
			return 0;
	}
	text[MAX_TEXT - 1] = '\0';
	return 0;
}

/* The message has CUDA's wording: programs and their tests search for it. */
static int assert_failed(struct ck_ptx_warp *w, uint32_t l, const struct ck_ptx_call *call)
{
	char what[MAX_TEXT], file[MAX_TEXT], function[MAX_TEXT], line[3 * MAX_TEXT + 256];
	const struct ck_ptx_run *run = w->block->run;
	const uint32_t *block = run->grid->block, *id = w->block->id;
	uint32_t thread = w->index * CK_PTX_LANES + l;
	int n, err = read_text(w, l, read_argument(w, l, call, 0), what);

	if (!err)
		err = read_text(w, l, read_argument(w, l, call, 1), file);
	if (!err)
		err = read_text(w, l, read_argument(w, l, call, 3), function);
	if (err)
		return err;
	n = snprintf(line, sizeof(line),
		     "%s:%d: %s: block: [%u,%u,%u], thread: [%u,%u,%u] Assertion `%s` failed.\n",
		     file, (int)read_argument(w, l, call, 2), function, id[0], id[1], id[2],
		     thread % block[0], thread / block[0] % block[1], thread / block[0] / block[1],
		     what);
	if (n > 0 && run->host->complain)
		run->host->complain(run->host->opaque, line, (size_t)n);
	return 0;
}

static int call_one(struct ck_ptx_warp *w, uint32_t l, const struct ck_ptx_call *call,
		    enum ck_ptx_builtin id)
{
	struct ck_ptx_run *run = w->block->run;
	const struct ck_ptx_host *host = run->host;
	int32_t count = 0;
	int err = 0;

	switch (id) {
	case CK_PTX_VPRINTF:
		err = ck_ptx_printf(w, l, read_argument(w, l, call, 0),
				    read_argument(w, l, call, 1), &count);
		write_result(w, l, call, (uint32_t)count);
		break;
	case CK_PTX_ASSERTFAIL:
		err = assert_failed(w, l, call);
		break;
	case CK_PTX_MALLOC:
		write_result(w, l, call,
			     host->alloc ? host->alloc(host->opaque,
						       (size_t)read_argument(w, l, call, 0))
					 : 0);
		break;
	case CK_PTX_SET_CONDITION:
		if (host->set_condition)
			host->set_condition(host->opaque, read_argument(w, l, call, 0),
					    (uint32_t)read_argument(w, l, call, 1));
		break;
	default:
		if (host->free && read_argument(w, l, call, 0))
			host->free(host->opaque, read_argument(w, l, call, 0));
		ck_ptx_forget_ranges(run);
		break;
	}
	return err;
}

int ck_ptx_builtin(struct ck_ptx_warp *w, const struct ck_ptx_call *call, enum ck_ptx_builtin id,
		   uint32_t mask)
{
	EACH_LANE(mask, l, {
		int err = call_one(w, l, call, id);

		if (err)
			return err;
	});
	return id == CK_PTX_ASSERTFAIL ? CUDA_ERROR_ASSERT : 0;
}
