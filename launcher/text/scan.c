/*
 * launcher/text/scan.c - one pass over JSON text; see scan.h.
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/text/scan.h"

static bool is_blank(char c)
{
	return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

/* Skip the plain bytes of a string; the index of the next quote or backslash, or @size. */
static size_t string_run(const char *text, size_t at, size_t size)
{
	while (at < size && text[at] != '"' && text[at] != '\\')
		at++;
	return at;
}

/* Sixteen bytes at once: the bulk of a large request is inside of a leaf. */
typedef unsigned char bytes __attribute__((vector_size(16)));

static bytes load_bytes(const char *text)
{
	bytes out;

	memcpy(&out, text, sizeof(out));
	return out;
}

/* How many of 16 bytes are true; a byte is 0 or 255. */
static size_t count_true(bytes truth)
{
	uint64_t half[2];

	memcpy(half, &truth, sizeof(half));
	half[0] &= UINT64_C(0x0101010101010101);
	half[1] &= UINT64_C(0x0101010101010101);
	return (half[0] + half[1]) * UINT64_C(0x0101010101010101) >> 56;
}

static bool any_true(bytes truth)
{
	uint64_t half[2];

	memcpy(half, &truth, sizeof(half));
	return half[0] | half[1];
}

size_t ckl_scan_commas(const char *text, size_t size)
{
	size_t count = 0, at = 0;

	for (; size - at >= sizeof(bytes); at += sizeof(bytes))
		count += count_true((bytes)(load_bytes(text + at) == ','));
	for (; at < size; at++)
		count += text[at] == ',';
	return count;
}

/* Skip the plain bytes of a leaf that has an element, and count its commas. */
static size_t leaf_run(const char *text, size_t at, size_t size, size_t *commas)
{
	for (; size - at >= sizeof(bytes); at += sizeof(bytes)) {
		bytes now = load_bytes(text + at), brackets = now | 0x20;

		/* A brace is a bracket with this bit. */
		if (any_true((bytes)((now == '"') | (brackets == '{') | (brackets == '}'))))
			break;
		*commas += count_true((bytes)(now == ','));
	}
	return at;
}

static int open_container(struct ckl_scan *scan, char c)
{
	if (scan->depth == CK_SCAN_DEPTH)
		return -E2BIG;
	scan->closing[scan->depth++] = c == '{' ? '}' : ']';
	scan->flat = c == '[';
	scan->blank = true;
	scan->leaf = (struct ckl_leaf){.start = scan->at + 1};
	return 0;
}

static int leaf_closed(struct ckl_scan *scan)
{
	struct ckl_leaf *leaves;

	if (scan->count == scan->room) {
		scan->room = scan->room ? 2 * scan->room : 16;
		leaves = reallocarray(scan->leaves, scan->room, sizeof(*leaves));
		if (!leaves)
			return -ENOMEM;
		scan->leaves = leaves;
	}
	scan->leaf.end = scan->at;
	scan->leaf.count = scan->blank ? 0 : scan->leaf.count + 1;
	scan->leaves[scan->count++] = scan->leaf;
	return 0;
}

static int close_container(struct ckl_scan *scan, char c)
{
	int ret = 0;

	if (scan->depth == 0 || scan->closing[scan->depth - 1] != c)
		return -EINVAL;
	if (c == ']' && scan->flat)
		ret = leaf_closed(scan);
	scan->flat = false;
	scan->depth--;
	return ret;
}

/* One byte outside of strings. 1: it has closed the object. */
static int scan_byte(struct ckl_scan *scan, char c)
{
	int ret;

	switch (c) {
	case '{':
	case '[':
		return open_container(scan, c);
	case '}':
	case ']':
		ret = close_container(scan, c);
		return ret < 0 ? ret : scan->depth == 0;
	case '"':
		scan->string = true;
		scan->blank = false;
		return 0;
	case ',':
		scan->leaf.count++;
		scan->blank = false;
		return 0;
	default:
		if (!is_blank(c))
			scan->blank = false;
		return 0;
	}
}

static int find_start(struct ckl_scan *scan, const char *text, size_t size)
{
	while (scan->at < size && is_blank(text[scan->at]))
		scan->at++;
	scan->start = scan->at;
	return scan->at == size ? 0 : text[scan->at] == '{' ? 1 : -EINVAL;
}

/* Inside a string; on its closing quote the scan is outside again. */
static void string_step(struct ckl_scan *scan, const char *text, size_t size)
{
	if (scan->escape) {
		scan->escape = false;
		scan->at++;
		return;
	}
	scan->at = string_run(text, scan->at, size);
	if (scan->at == size)
		return;
	scan->string = text[scan->at] != '"';
	scan->escape = text[scan->at] == '\\';
	scan->at++;
}

int ckl_scan(struct ckl_scan *scan, const char *text, size_t size)
{
	int ret;

	if (scan->depth == 0) {
		ret = find_start(scan, text, size);
		if (ret <= 0)
			return ret;
	}
	while (scan->at < size) {
		if (scan->string) {
			string_step(scan, text, size);
			continue;
		}
		ret = scan_byte(scan, text[scan->at]);
		if (ret < 0)
			return ret;
		scan->at++;
		if (ret > 0)
			return 1;
		if (scan->flat && !scan->blank && !scan->string)
			scan->at = leaf_run(text, scan->at, size, &scan->leaf.count);
	}
	return 0;
}

char *ckl_scan_outline(const struct ckl_scan *scan, const char *text, size_t *size)
{
	size_t from = scan->start, room = scan->at - scan->start + scan->count * 20 + 1, used = 0;
	char *out = NULL;

	for (size_t i = 0; i < scan->count; i++)
		room -= scan->leaves[i].end - scan->leaves[i].start;
	out = malloc(room);
	for (size_t i = 0; out && i < scan->count; i++) {
		const struct ckl_leaf *leaf = &scan->leaves[i];

		memcpy(out + used, text + from, leaf->start - from);
		used += leaf->start - from;
		used += (size_t)sprintf(out + used, "%zu", i);
		from = leaf->end;
	}
	if (!out)
		return NULL;
	memcpy(out + used, text + from, scan->at - from);
	*size = used + scan->at - from;
	return out;
}

void ckl_scan_free(struct ckl_scan *scan)
{
	free(scan->leaves);
	*scan = (struct ckl_scan){0};
}
