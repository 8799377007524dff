/*
 * launcher/text/output_buffer.c - the buffer of a reply; see output_buffer.h.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/text/output_buffer.h"
#include "util/util.h"

#define FIRST 4096

static int grow_buffer(struct ckl_out *out, size_t need)
{
	size_t capacity = ck_max(ck_max(need, out->capacity / 2 * 3), (size_t)FIRST);
	char *base;

	if (out->grow)
		return out->grow(out, capacity);
	base = realloc(out->base, capacity);
	if (!base)
		return -ENOMEM;
	out->base = base;
	out->capacity = capacity;
	return 0;
}

char *ckl_out_room(struct ckl_out *out, size_t size)
{
	size_t need;

	if (out->failed || ck_add_overflow(out->size, size, &need))
		return NULL;
	if (need > out->capacity && grow_buffer(out, need) < 0) {
		out->failed = true;
		return NULL;
	}
	return out->base + out->size;
}

void ckl_out_bytes(struct ckl_out *out, const void *data, size_t size)
{
	char *room = ckl_out_room(out, size);

	if (!room)
		return;
	memcpy(room, data, size);
	out->size += size;
}

void ckl_out_text(struct ckl_out *out, const char *text)
{
	ckl_out_bytes(out, text, strlen(text));
}

void ckl_out_format(struct ckl_out *out, const char *format, ...)
{
	char text[1024];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	ckl_out_text(out, text);
}

/* Bytes of the UTF-8 character at @at, 0 when it is none. */
static size_t utf8_length(const unsigned char *at, size_t left)
{
	static const unsigned lowest[] = {0, 0, 0x80, 0x800, 0x10000};
	size_t size = *at < 0x80 ? 1 : *at < 0xC2 ? 0 : *at < 0xE0 ? 2 : *at < 0xF0 ? 3 : 4;
	unsigned code;

	if (size <= 1 || *at > 0xF4 || size > left)
		return size <= 1 ? size : 0;
	code = *at & (0x7Fu >> size);
	for (size_t i = 1; i < size; i++) {
		if ((at[i] & 0xC0) != 0x80)
			return 0;
		code = code << 6 | (at[i] & 0x3F);
	}
	if (code < lowest[size] || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000))
		return 0;
	return size;
}

void ckl_out_string(struct ckl_out *out, const char *text)
{
	size_t size = strlen(text), length;

	ckl_out_text(out, "\"");
	for (size_t i = 0; i < size; i += ck_max(length, (size_t)1)) {
		unsigned char c = (unsigned char)text[i];

		length = utf8_length((const unsigned char *)text + i, size - i);
		if (c == '"' || c == '\\')
			ckl_out_format(out, "\\%c", c);
		else if (c == '\n')
			ckl_out_text(out, "\\n");
		else if (c < 0x20)
			ckl_out_format(out, "\\u%04x", c);
		else if (length == 0)
			ckl_out_text(out, "\\ufffd");
		else
			ckl_out_bytes(out, text + i, length);
	}
	ckl_out_text(out, "\"");
}
