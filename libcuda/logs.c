/*
 * libcuda/logs.c - the logs that an application may read: the errors and warnings that this library
 * writes to stderr, the newest of them.
 *
 * A line may be logged anywhere, with locks held: nothing here waits long for its own lock, and a
 * callback, which runs in the thread that logs, may make no CUDA call.
 */
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gen/api.h"
#include "libcuda/libcuda.h"
#include "libcuda/locks.h"
#include "util/log.h"
#include "util/util.h"

#define LINES 128
#define BUFFER_MAX 25600 /* the most that all messages take, as CUDA documents */
#define PATIENCE 1000

struct CUlogsCallbackEntry_st {
	CUlogsCallback function;
	void *data;
	struct CUlogsCallbackEntry_st *next;
};

static struct ck_mutex lines_lock = CK_MUTEX(CK_RANK_LOGS);
static char *lines[LINES];	 /* number n at n % LINES, with its newline */
static CUlogIterator first, end; /* numbers kept: from first to below end */
static size_t total;		 /* bytes kept */
static struct CUlogsCallbackEntry_st *callbacks;

static void drop_first(void)
{
	char **line = &lines[first++ % LINES];

	total -= strlen(*line);
	free(*line);
	*line = NULL;
}

static void store_line(const char *text, size_t size)
{
	char *line = malloc(size + 2);

	if (!line)
		return;
	memcpy(line, text, size);
	strcpy(line + size, "\n");
	while (first < end && (end - first == LINES || total + size + 1 > BUFFER_MAX))
		drop_first();
	lines[end++ % LINES] = line;
	total += size + 1;
}

/* False: somebody else has had it for a while, or had it at a fork. */
static bool lock_soon(void)
{
	for (int i = 0; i < PATIENCE; i++) {
		if (ck_trylock(&lines_lock) == 0)
			return true;
		sched_yield();
	}
	return false;
}

/* One at a time and without the lock: a callback may end its own registration or another's. */
static void run_callbacks(CUlogLevel level, char *text, size_t size)
{
	struct CUlogsCallbackEntry_st copies[16];
	unsigned int count = 0;
	bool was;

	if (!lock_soon())
		return;
	for (struct CUlogsCallbackEntry_st *c = callbacks; c && count < 16; c = c->next)
		copies[count++] = *c;
	ck_unlock(&lines_lock);
	was = ck_libcuda_inside(true);
	for (unsigned int i = 0; i < count; i++)
		copies[i].function(copies[i].data, level, text, size);
	ck_libcuda_inside(was);
}

static void handle_log_line(int level, char *text, size_t size)
{
	if (level > CK_LOG_WARNING || !lock_soon())
		return;
	store_line(text, size);
	ck_unlock(&lines_lock);
	run_callbacks(level == CK_LOG_ERROR ? CU_LOG_LEVEL_ERROR : CU_LOG_LEVEL_WARNING, text,
		      size);
}

void ck_logs_begin(void)
{
	ck_log_hook(handle_log_line);
}

CK_EXPORT CUresult cuLogsRegisterCallback(CUlogsCallback callbackFunc, void *userData,
					  CUlogsCallbackHandle *callback_out)
{
	struct CUlogsCallbackEntry_st *c;

	if (!callbackFunc)
		return CUDA_ERROR_INVALID_VALUE;
	c = calloc(1, sizeof(*c));
	if (!c)
		return CUDA_ERROR_OUT_OF_MEMORY;
	ck_logs_begin();
	c->function = callbackFunc;
	c->data = userData;
	ck_lock(&lines_lock);
	c->next = callbacks;
	callbacks = c;
	ck_unlock(&lines_lock);
	if (callback_out)
		*callback_out = c;
	return CUDA_SUCCESS;
}

CK_EXPORT CUresult cuLogsUnregisterCallback(CUlogsCallbackHandle callback)
{
	struct CUlogsCallbackEntry_st **at = &callbacks, *c;

	ck_lock(&lines_lock);
	while (*at && *at != callback)
		at = &(*at)->next;
	c = *at;
	if (c)
		*at = c->next;
	ck_unlock(&lines_lock);
	free(c);
	return c ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CK_EXPORT CUresult cuLogsCurrent(CUlogIterator *iterator_out, unsigned int flags)
{
	if (!iterator_out || flags)
		return CUDA_ERROR_INVALID_VALUE;
	ck_lock(&lines_lock);
	*iterator_out = end;
	ck_unlock(&lines_lock);
	return CUDA_SUCCESS;
}

/* The first line to dump; false: an iterator that was never one. */
static bool find_start(const CUlogIterator *iterator, CUlogIterator *at)
{
	*at = iterator && *iterator > first ? *iterator : first;
	return *at <= end;
}

CK_EXPORT CUresult cuLogsDumpToFile(CUlogIterator *iterator, const char *pathToFile,
				    unsigned int flags)
{
	CUlogIterator at;
	FILE *f;
	bool valid;

	if (!pathToFile || flags)
		return CUDA_ERROR_INVALID_VALUE;
	f = fopen(pathToFile, "we");
	if (!f)
		return CUDA_ERROR_INVALID_VALUE;
	ck_lock(&lines_lock);
	valid = find_start(iterator, &at);
	for (; valid && at < end; at++)
		fputs(lines[at % LINES], f);
	if (valid && iterator)
		*iterator = end;
	ck_unlock(&lines_lock);
	return fclose(f) == 0 && valid ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* The newest lines that have room, and a word at the head when some have not. With the lock. */
static CUresult dump_lines(CUlogIterator at, char *buffer, size_t *size)
{
	static const char truncated[] = "older messages are left out\n";
	size_t room = *size, need = 0, used = 0;

	*size = 0;
	buffer[0] = '\0';
	for (CUlogIterator i = at; i < end; i++)
		need += strlen(lines[i % LINES]);
	if (need + 1 > room) {
		while (at < end && need + sizeof(truncated) > room)
			need -= strlen(lines[at++ % LINES]);
		if (at == end)
			return CUDA_ERROR_INVALID_VALUE;
		strcpy(buffer, truncated);
		used = strlen(truncated);
	}
	for (; at < end; at++) {
		strcpy(buffer + used, lines[at % LINES]);
		used += strlen(lines[at % LINES]);
	}
	*size = used;
	return CUDA_SUCCESS;
}

CK_EXPORT CUresult cuLogsDumpToMemory(CUlogIterator *iterator, char *buffer, size_t *size,
				      unsigned int flags)
{
	CUresult err = CUDA_ERROR_INVALID_VALUE;
	CUlogIterator at;

	if (!buffer || !size || *size == 0 || flags)
		return CUDA_ERROR_INVALID_VALUE;
	ck_lock(&lines_lock);
	if (find_start(iterator, &at))
		err = dump_lines(at, buffer, size);
	if (!err && iterator)
		*iterator = end;
	ck_unlock(&lines_lock);
	return err;
}
