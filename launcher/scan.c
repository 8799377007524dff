/*
 * launcher/scan.c - one pass over JSON text; see scan.h.
 */
#include <emmintrin.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/scan.h"

static bool is_blank(char c)
{
	return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

/* Skip what is plain inside a string; the index of the next byte that matters, or @size. */
static size_t string_run(const char *text, size_t at, size_t size)
{
	while (at < size && text[at] != '"' && text[at] != '\\')
		at++;
	return at;
}

/*
 * Inside of a leaf, the bulk of a large request: skip to the next quote or bracket, or less than 16 bytes before @size,
 * and count the elements.
 */
static size_t leaf_run(struct ck_leaf *leaf, const char *text, size_t at, size_t size)
{
	const __m128i opening = _mm_set1_epi8('{'), closing = _mm_set1_epi8('}'), quote = _mm_set1_epi8('"'),
		      comma = _mm_set1_epi8(','), fold = _mm_set1_epi8('{' ^ '[');

	for (; size - at >= 16; at += 16) {
		__m128i bytes = _mm_loadu_si128((const __m128i *)(text + at));
		__m128i folded = _mm_or_si128(bytes, fold); /* brackets and braces are alike */
		__m128i stops = _mm_or_si128(_mm_or_si128(_mm_cmpeq_epi8(folded, opening),
							  _mm_cmpeq_epi8(folded, closing)),
					     _mm_cmpeq_epi8(bytes, quote));
		unsigned int stop = (unsigned int)_mm_movemask_epi8(stops);
		unsigned int commas = (unsigned int)_mm_movemask_epi8(_mm_cmpeq_epi8(bytes, comma));

		if (stop) {
			unsigned int n = (unsigned int)__builtin_ctz(stop);

			leaf->count += (size_t)__builtin_popcount(commas & ((1u << n) - 1));
			return at + n;
		}
		leaf->count += (size_t)__builtin_popcount(commas);
	}
	return at;
}

static int opened(struct ck_scan *scan, char c)
{
	if (scan->depth == CK_SCAN_DEPTH)
		return -E2BIG;
	scan->closing[scan->depth++] = c == '{' ? '}' : ']';
	scan->flat = c == '[';
	scan->blank = true;
	scan->leaf = (struct ck_leaf){.start = scan->at + 1};
	return 0;
}

static int leaf_closed(struct ck_scan *scan)
{
	struct ck_leaf *leaves;

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

static int closed(struct ck_scan *scan, char c)
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
static int step(struct ck_scan *scan, char c)
{
	int ret;

	switch (c) {
	case '{':
	case '[':
		return opened(scan, c);
	case '}':
	case ']':
		ret = closed(scan, c);
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

static int find_start(struct ck_scan *scan, const char *text, size_t size)
{
	while (scan->at < size && is_blank(text[scan->at]))
		scan->at++;
	scan->start = scan->at;
	return scan->at == size ? 0 : text[scan->at] == '{' ? 1 : -EINVAL;
}

/* Inside a string; on its closing quote the scan is outside again. */
static void string_step(struct ck_scan *scan, const char *text, size_t size)
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

int ck_scan(struct ck_scan *scan, const char *text, size_t size)
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
		ret = step(scan, text[scan->at]);
		if (ret < 0)
			return ret;
		scan->at++;
		if (ret > 0)
			return 1;
		if (scan->flat && !scan->blank && !scan->string)
			scan->at = leaf_run(&scan->leaf, text, scan->at, size);
	}
	return 0;
}

char *ck_scan_outline(const struct ck_scan *scan, const char *text, size_t *size)
{
	size_t from = scan->start, room = scan->at - scan->start + scan->count * 20 + 1, used = 0;
	char *out = NULL;

	for (size_t i = 0; i < scan->count; i++)
		room -= scan->leaves[i].end - scan->leaves[i].start;
	out = malloc(room);
	for (size_t i = 0; out && i < scan->count; i++) {
		const struct ck_leaf *leaf = &scan->leaves[i];

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

void ck_scan_free(struct ck_scan *scan)
{
	free(scan->leaves);
	*scan = (struct ck_scan){0};
}
