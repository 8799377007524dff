/*
 * emu/objects/print.c - the output of kernels is kept with their context until the host waits for a
 * device, as CUDA documents it; or until the buffer of CU_LIMIT_PRINTF_FIFO_SIZE bytes is full.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emu/core/emu.h"

/* Room for @size more bytes, if the limit allows; print_lock held. */
static bool room_make(struct ck_emu_context *context, size_t size)
{
	size_t limit = atomic_load(&context->limits[CU_LIMIT_PRINTF_FIFO_SIZE]);
	size_t need = context->print_size + size, room;
	char *bigger;

	if (need <= context->print_room)
		return true;
	if (need > limit)
		return false;
	room = ck_max(need, ck_min(2 * context->print_room + 4096, limit));
	bigger = realloc(context->print_text, room);
	if (!bigger)
		return false;
	context->print_text = bigger;
	context->print_room = room;
	return true;
}

static void flush(struct ck_emu_context *context)
{
	if (!context->print_size)
		return;
	fwrite(context->print_text, 1, context->print_size, stdout);
	fflush(stdout);
	context->print_size = 0;
}

void ck_emu_print(struct ck_emu_context *context, const char *text, size_t size)
{
	ck_lock(&context->print_lock);
	if (!room_make(context, size))
		flush(context);
	if (room_make(context, size)) {
		memcpy(context->print_text + context->print_size, text, size);
		context->print_size += size;
	} else {
		fwrite(text, 1, size, stdout);
	}
	ck_unlock(&context->print_lock);
}

void ck_emu_print_flush(struct ck_emu_context *context)
{
	ck_lock(&context->print_lock);
	flush(context);
	ck_unlock(&context->print_lock);
}
