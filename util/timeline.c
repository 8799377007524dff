/*
 * util/timeline.c - see timeline.h.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/text.h"
#include "util/timeline.h"

#define ROOM_LEAST 4096

static bool reserve_bytes(struct ck_timeline *t, size_t size)
{
	size_t room = t->room ? t->room : ROOM_LEAST;
	char *bytes;

	if (t->failed)
		return false;
	if (t->room - t->size >= size)
		return true;
	while (room - t->size < size)
		room *= 2;
	bytes = realloc(t->bytes, room);
	t->failed = !bytes;
	if (!bytes)
		return false;
	t->bytes = bytes;
	t->room = room;
	return true;
}

static void add_bytes(struct ck_timeline *t, const char *bytes, size_t size)
{
	if (!reserve_bytes(t, size))
		return;
	memcpy(t->bytes + t->size, bytes, size);
	t->size += size;
}

static void add_text(struct ck_timeline *t, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Short pieces only. */
static void add_text(struct ck_timeline *t, const char *format, ...)
{
	char text[128];
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (n > 0)
		add_bytes(t, text, (size_t)n < sizeof(text) ? (size_t)n : sizeof(text) - 1);
}

static void add_string(struct ck_timeline *t, const char *bytes, size_t size)
{
	const unsigned char *at = (const unsigned char *)bytes;

	add_bytes(t, "\"", 1);
	while (size > 0) {
		size_t n = ck_text_character((const char *)at, size);

		if (n == 0)
			add_text(t, "\\ufffd");
		else if (*at == '"' || *at == '\\')
			add_text(t, "\\%c", *at);
		else if (*at < 0x20 || *at == 0x7f)
			add_text(t, "\\u%04x", *at);
		else
			add_bytes(t, (const char *)at, n);
		n += n == 0;
		at += n;
		size -= n;
	}
	add_bytes(t, "\"", 1);
}

static void add_key(struct ck_timeline *t, const char *key)
{
	if (t->size > 0 && !t->failed && t->bytes[t->size - 1] != '{')
		add_bytes(t, ",", 1);
	add_string(t, key, strlen(key));
	add_bytes(t, ":", 1);
}

void ck_timeline_number(struct ck_timeline *t, const char *key, int64_t value)
{
	add_key(t, key);
	add_text(t, "%" PRId64, value);
}

void ck_timeline_text(struct ck_timeline *t, const char *key, const char *bytes, size_t size)
{
	add_key(t, key);
	add_string(t, bytes, size);
}

void ck_timeline_us(struct ck_timeline *t, const char *key, uint64_t ns)
{
	add_key(t, key);
	add_text(t, "%" PRIu64 ".%03u", ns / 1000, (unsigned int)(ns % 1000));
}

void ck_timeline_begin(struct ck_timeline *t, char phase, const char *name, const char *category,
		       const struct ck_timeline_place *place)
{
	t->failed = false;
	t->began = t->size;
	add_text(t, "%s\n{", t->events ? "," : "");
	ck_timeline_text(t, "name", name, strlen(name));
	ck_timeline_text(t, "cat", category, strlen(category));
	ck_timeline_text(t, "ph", &phase, 1);
	ck_timeline_us(t, "ts", place->ns);
	ck_timeline_number(t, "pid", (int64_t)place->process);
	ck_timeline_number(t, "tid", (int64_t)place->thread);
	t->args = false;
}

void ck_timeline_args(struct ck_timeline *t)
{
	add_key(t, "args");
	add_bytes(t, "{", 1);
	t->args = true;
}

void ck_timeline_end(struct ck_timeline *t)
{
	add_text(t, t->args ? "}}" : "}");
	if (t->failed)
		t->size = t->began;
	else
		t->events++;
}

void ck_timeline_clear(struct ck_timeline *t)
{
	t->size = 0;
}

void ck_timeline_free(struct ck_timeline *t)
{
	free(t->bytes);
	*t = (struct ck_timeline){.bytes = NULL};
}
