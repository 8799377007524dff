/*
 * launcher/text/elements.c - lists of elements between JSON's brackets, into memory; see type.h.
 *
 * A large list is cut at commas into pieces, which are read in parallel. A piece has as many
 * elements as commas and one, so that its place in memory is known when the commas have been
 * counted. If any piece is wrong, the list is read again from its start, one element after the
 * other: the error is then that of the first wrong element.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/text/number.h"
#include "launcher/text/parallel.h"
#include "launcher/text/scan.h"
#include "launcher/text/type.h"
#include "util/util.h"

#define PIECE ((size_t)64 << 10) /* bytes of text */
#define PARALLEL_MIN (4 * PIECE) /* starting threads takes longer than reading less */

static const char *skip_blanks(const char *at, const char *end)
{
	while (at < end && (*at == ' ' || *at == '\n' || *at == '\r' || *at == '\t'))
		at++;
	return at;
}

/* Where the element ends that starts at @at; NULL when none does. */
static const char *element_end(const char *at, const char *end)
{
	static const char *const words[] = {"true", "false"};
	bool integral;
	size_t size;

	if (*at == '"')
		return memchr(at + 1, '"', (size_t)(end - at - 1));
	for (size_t i = 0; i < CK_ARRAY_SIZE(words); i++) {
		size = strlen(words[i]);
		if ((size_t)(end - at) >= size && memcmp(at, words[i], size) == 0)
			return at + size;
	}
	size = ckl_number_length(at, end, &integral);
	return size ? at + size : NULL;
}

int ckl_elements_next(struct ckl_elements *it, const char **at, size_t *size)
{
	const char *start = skip_blanks(it->at, it->end), *stop;

	if (start == it->end && !it->begun)
		return 0;
	if (it->begun) {
		if (start == it->end)
			return 0;
		if (*start != ',')
			return -EINVAL;
		start = skip_blanks(start + 1, it->end);
		if (start == it->end)
			return -EINVAL;
	}
	stop = element_end(start, it->end);
	if (!stop)
		return -EINVAL;
	it->begun = true;
	it->at = stop + (*start == '"');
	start += *start == '"';
	*at = start;
	*size = (size_t)(stop - start);
	return 1;
}

/* Read plain numbers fast, and stop at any other element: ckl_elements_next handles that one. */
static size_t read_run(enum ckl_type type, struct ckl_elements *it, size_t count, void *out)
{
	size_t done = 0;

	if (type == CK_TYPE_F32)
		done = ckl_number_run_f32(&it->at, it->end, it->begun, out, count);
	else if (type == CK_TYPE_F64)
		done = ckl_number_run_f64(&it->at, it->end, it->begun, out, count);
	it->begun |= done > 0;
	return done;
}

/* All of a list of @count elements; @fail may be NULL. */
static int read_serially(enum ckl_type type, struct ckl_elements it, size_t count, char *out,
			 const char *what, struct ckl_fail *fail)
{
	size_t step = ckl_type_size(type), i, length;
	const char *at;
	int ret;

	for (i = read_run(type, &it, count, out);
	     (ret = ckl_elements_next(&it, &at, &length)) > 0 && i < count;
	     i += read_run(type, &it, count - i, out + i * step)) {
		if (!ckl_type_read(type, at, length, false, out + i * step))
			return !fail ? -EINVAL
				     : ckl_fail_input(fail,
						      "%s: element %zu, %.*s, is not of type %s",
						      what, i, (int)ck_min(length, (size_t)40), at,
						      ckl_type_name(type));
		i++;
	}
	if (ret == 0 && i == count)
		return 0;
	return fail ? ckl_fail_input(fail, "%s: element %zu is not a number", what, i) : -EINVAL;
}

struct piece {
	const char *text;
	size_t size;
	size_t first, count; /* elements */
};

struct list {
	enum ckl_type type;
	char *out;
	struct piece *pieces;
	size_t count;
	atomic_bool wrong;
};

/* Cut @size bytes at the comma behind each @piece of them. False: no memory. */
static bool split_list(struct list *list, const char *text, size_t size, size_t piece)
{
	const char *end = text + size, *comma;

	list->pieces = calloc(size / piece + 1, sizeof(*list->pieces));
	if (!list->pieces)
		return false;
	for (;; text = comma + 1) {
		comma = (size_t)(end - text) > piece
				? memchr(text + piece, ',', (size_t)(end - text) - piece)
				: NULL;
		list->pieces[list->count++] = (struct piece){
			.text = text, .size = (size_t)((comma ? comma : end) - text)};
		if (!comma)
			return true;
	}
}

static void count_piece(void *context, size_t index)
{
	struct piece *piece = &((struct list *)context)->pieces[index];

	piece->count = ckl_scan_commas(piece->text, piece->size) + 1;
}

static void read_piece(void *context, size_t index)
{
	struct list *list = context;
	const struct piece *piece = &list->pieces[index];
	struct ckl_elements it = {.at = piece->text, .end = piece->text + piece->size};
	char *out = list->out + piece->first * ckl_type_size(list->type);

	if (!atomic_load(&list->wrong) &&
	    read_serially(list->type, it, piece->count, out, NULL, NULL) < 0)
		atomic_store(&list->wrong, true);
}

bool ckl_type_read_parallel(enum ckl_type type, const char *text, size_t size, size_t count,
			    void *out, size_t piece)
{
	struct list list = {.type = type, .out = out};
	size_t sum = 0;

	if (!split_list(&list, text, size, piece))
		return false;
	ckl_parallel(list.count, count_piece, &list);
	for (size_t i = 0; i < list.count; i++) {
		list.pieces[i].first = sum;
		sum += list.pieces[i].count;
	}
	if (sum == count)
		ckl_parallel(list.count, read_piece, &list);
	free(list.pieces);
	return sum == count && !atomic_load(&list.wrong);
}

int ckl_type_read_all(enum ckl_type type, const char *text, size_t size, size_t count, void *out,
		      const char *what, struct ckl_fail *fail)
{
	struct ckl_elements it = {.at = text, .end = text + size};

	if (size >= PARALLEL_MIN && ckl_type_read_parallel(type, text, size, count, out, PIECE))
		return 0;
	return read_serially(type, it, count, out, what, fail);
}
