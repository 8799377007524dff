/*
 * launcher/elements.c - the elements of a flat JSON array: walking over them, reading all.
 *
 * A large array is read by several threads. Each gets a piece of the text that begins behind a comma; the commas
 * before it tell the index of its first element. Only numbers are read so: a comma inside a string would mislead, and
 * arrays with strings in them ("NaN") are read by one thread. So is an array in which a piece is wrong, because the
 * message names the first element that is.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "launcher/number.h"
#include "launcher/type.h"
#include "util/util.h"

#define PIECE_LEAST ((size_t)128 << 10) /* bytes of text that a thread is worth */
#define THREADS_MOST 16

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
	size = ck_number_length(at, end, &integral);
	return size ? at + size : NULL;
}

int ck_elements_next(struct ck_elements *it, const char **at, size_t *size)
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

/* --- reading all */

/* Elements @from to @most - 1; *@next is the index behind the last that was read, also on an error. */
static int read_range(enum ck_type type, const char *text, size_t size, size_t from, size_t most,
		      size_t *next, char *out, const char **at, size_t *length)
{
	struct ck_elements it = {.at = text, .end = text + size};
	size_t step = ck_type_size(type);
	int ret;

	for (*next = from; (ret = ck_elements_next(&it, at, length)) > 0; ++*next) {
		if (*next == most)
			return -EINVAL;
		if (!ck_type_read(type, *at, *length, false, out + *next * step))
			return -ERANGE;
	}
	return ret;
}

/* A thread's part. */
struct piece {
	pthread_t thread;
	bool started, good;
	enum ck_type type;
	const char *text;
	size_t size;
	size_t commas, first; /* inside of it; the index of its first element */
	char *out;
};

static size_t count_commas(const char *text, size_t size)
{
	size_t count = 0;

	for (size_t i = 0; i < size; i++) /* compilers make vector code of this */
		count += text[i] == ',';
	return count;
}

static void *count_piece(void *data)
{
	struct piece *p = data;

	p->commas = count_commas(p->text, p->size);
	return NULL;
}

static void *read_piece(void *data)
{
	struct piece *p = data;
	const char *at;
	size_t length, next, most = p->first + p->commas + 1;

	p->good = read_range(p->type, p->text, p->size, p->first, most, &next, p->out, &at, &length) == 0 &&
		  next == most;
	return NULL;
}

/* @run each piece in a thread of its own, the first in this one, and any for which there is no thread. */
static void run_all(struct piece *pieces, size_t n, void *(*run)(void *))
{
	for (size_t i = 1; i < n; i++)
		pieces[i].started = pthread_create(&pieces[i].thread, NULL, run, &pieces[i]) == 0;
	run(&pieces[0]);
	for (size_t i = 1; i < n; i++) {
		if (pieces[i].started)
			pthread_join(pieces[i].thread, NULL);
		else
			run(&pieces[i]);
	}
}

static size_t threads_for(size_t size)
{
	cpu_set_t set;
	size_t cpus = sched_getaffinity(0, sizeof(set), &set) == 0 ? (size_t)CPU_COUNT(&set) : 1;

	return ck_min(ck_min(cpus, (size_t)THREADS_MOST), size / PIECE_LEAST);
}

/* Cut @text at commas into at most @n pieces; how many there are. */
static size_t cut(const char *text, size_t size, size_t n, struct piece *pieces)
{
	const char *at = text, *end = text + size, *stop;
	size_t made = 0;

	while (made < n && at < end) {
		stop = made + 1 == n ? NULL : memchr(at + size / n, ',', (size_t)(end - at) - size / n);
		stop = stop ? stop : end;
		pieces[made++] = (struct piece){.text = at, .size = (size_t)(stop - at)};
		if (stop == end)
			return made;
		at = stop + 1;
	}
	return 0; /* a comma ends the text: one thread says what is wrong */
}

/* False: it has not been tried, or something is wrong somewhere. */
static bool read_in_pieces(enum ck_type type, const char *text, size_t size, size_t count, char *out)
{
	struct piece pieces[THREADS_MOST];
	size_t n = threads_for(size), index = 0;
	bool good = true;

	if (n < 2 || memchr(text, '"', size))
		return false;
	n = cut(text, size, n, pieces);
	if (n < 2)
		return false;
	run_all(pieces, n, count_piece);
	for (size_t i = 0; i < n; i++) {
		pieces[i].type = type;
		pieces[i].first = index;
		pieces[i].out = out;
		index += pieces[i].commas + 1;
	}
	if (index != count)
		return false;
	run_all(pieces, n, read_piece);
	for (size_t i = 0; i < n; i++)
		good = good && pieces[i].good;
	return good;
}

int ck_type_read_all(enum ck_type type, const char *text, size_t size, size_t count, void *out,
		     const char *what, struct ck_fail *fail)
{
	size_t length = 0, next;
	const char *at = NULL;
	int ret;

	if (read_in_pieces(type, text, size, count, out))
		return 0;
	ret = read_range(type, text, size, 0, count, &next, out, &at, &length);
	if (ret == -ERANGE)
		return ck_fail_input(fail, "%s: element %zu, %.*s, is no %s", what, next,
				     (int)ck_min(length, (size_t)40), at, ck_type_name(type));
	if (ret != 0 || next != count)
		return ck_fail_input(fail, "%s: element %zu is no number", what, next);
	return 0;
}
