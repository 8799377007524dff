/*
 * tests/random_calls/main.c - makes random legal programs of the driver API and prints all that
 * they can observe: the same for a seed, with each driver.
 *
 *   random_calls SEED [STEPS [THREADS [NAMES]]] NAMES: of the steps to make, all others are left
 *   out
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/random_calls/world.h"

static bool traced; /* print each call */

void *look_up(const char *name)
{
	static void *_Atomic library;
	void *found;

	if (library == NULL)
		library = dlopen("libcuda.so.1", RTLD_NOW);
	found = library ? dlsym(library, name) : NULL;
	if (found == NULL) {
		fprintf(stderr, "%s: %s\n", name, dlerror());
		exit(2);
	}
	return found;
}

void say(struct world *w, const char *format, ...)
{
	va_list args;
	char *begin;

	if (w->room - w->length < 300) {
		w->room = 2 * w->room + 4096;
		w->out = realloc(w->out, w->room);
	}
	va_start(args, format);
	w->length += (size_t)snprintf(w->out + w->length, 40, "%u.%u ", w->number, w->step);
	begin = w->out + w->length;
	w->length += (size_t)vsnprintf(begin, 250, format, args);
	va_end(args);
	trace(w, "%.*s", (int)(w->out + w->length - begin) - 1, begin);
}

/* For who looks for the cause of a difference. */
void trace(const struct world *w, const char *format, ...)
{
	char line[300];
	va_list args;

	if (!traced)
		return;
	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	fprintf(stderr, "%u.%u %s\n", w->number, w->step, line);
}

CUresult note(struct world *w, const char *name, CUresult err)
{
	if (err != CUDA_SUCCESS)
		say(w, "%s: %d\n", name, err);
	else
		trace(w, "  %s", name);
	return err;
}

/* splitmix64 */
uint64_t draw(struct world *w)
{
	uint64_t z = w->random += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

unsigned below(struct world *w, unsigned end)
{
	return (unsigned)(draw(w) % end);
}

bool one_in(struct world *w, unsigned chances)
{
	return below(w, chances) == 0;
}

/* Of 0 to @most: small ones, those at which something changes, and any. */
size_t some_size(struct world *w, size_t most)
{
	static const size_t edges[] = {4096, 8192, 16384, 65536, 131072, 262144, 1 << 20, 2 << 20};
	size_t size;

	if (one_in(w, 4))
		size = edges[below(w, 8)] + below(w, 3) - 1;
	else
		size = draw(w) & (((size_t)16 << below(w, 19)) - 1);
	return size < most ? size : one_in(w, 4) ? most : draw(w) % (most + 1);
}

uint64_t digest(const void *bytes, size_t size)
{
	const unsigned char *b = bytes;
	uint64_t h = 0xcbf29ce484222325u, word;

	for (; size >= 8; size -= 8, b += 8) {
		memcpy(&word, b, 8);
		h = (h ^ word) * 0x100000001b3u;
		h ^= h >> 29;
	}
	while (size-- > 0)
		h = (h ^ *b++) * 0x100000001b3u;
	return h;
}

void scribble(struct world *w, void *bytes, size_t size)
{
	uint64_t x = draw(w) | 1;
	unsigned char *b = bytes;

	for (size_t i = 0; i < size; i++) {
		if (i % 8 == 0)
			x ^= x << 13, x ^= x >> 7, x ^= x << 17;
		b[i] = (unsigned char)(x >> i % 8 * 8);
	}
}

static const struct {
	const char *name;
	unsigned weight;
	void (*step)(struct world *);
} steps[] = {
	{"copy", 10, copy},
	{"rectangle", 4, copy_rectangle},
	{"batch", 2, copy_batch},
	{"fill", 5, fill},
	{"launch", 8, launch},
	{"host", 5, host_write},
	{"function", 3, host_function},
	{"scratch", 3, scratch},
	{"renew", 5, renew_buffer},
	{"observe", 8, observe_one},
	{"ask", 2, ask_pointer},
	{"wait", 4, wait_somehow},
	{"capture", 2, capture_graph},
	{"build", 2, build_graph},
	{"change", 3, change_graph},
	{"replay", 6, launch_graph},
	{"mistake", 2, mistake},
	{"array", 6, copy_array},
	{"look", 3, observe_array},
	{"remake", 2, renew_array},
};

enum { STEPS = sizeof(steps) / sizeof(steps[0]), ARRAY_STEPS = 3 }; /* the last ones */
static const char *only; /* names of steps to make, or NULL: all */

static void make_step(struct world *w)
{
	unsigned total = 0, at;
	size_t i = 0;

	w->step++;
	w->random = w->seed ^ w->step * 0xd1342543de82ef95u; /* independent of other steps */
	for (size_t n = 0; n < STEPS - (w->arrays ? 0 : ARRAY_STEPS); n++)
		total += steps[n].weight;
	for (at = below(w, total); at >= steps[i].weight; i++)
		at -= steps[i].weight;
	trace(w, "%s", steps[i].name);
	if (w->shared && steps[i].step == capture_graph)
		return;
	if (only == NULL || strstr(only, steps[i].name) != NULL)
		steps[i].step(w);
}

static void begin(struct world *w)
{
	static const unsigned char kinds[] = {0, 1, 0, 1};

	w->random = w->seed;
	CALL(w, cuDeviceGet, &w->device, 0);
	if (w->number == 0 || w->shared)
		CALL(w, cuDevicePrimaryCtxRetain, &w->context, w->device);
	else
		CALL(w, cuCtxCreate_v2, &w->context, 0, w->device);
	CALL(w, cuCtxSetCurrent, w->context);
	w->order = &w->real;
	w->stream[LEGACY] = one_in(w, 2) ? NULL : CU_STREAM_LEGACY;
	w->stream[PER_THREAD] = CU_STREAM_PER_THREAD;
	w->blocking[PER_THREAD] = true;
	for (unsigned s = FIRST_CREATED; s < STREAMS; s++) {
		w->blocking[s] = kinds[s - FIRST_CREATED] == 0;
		CALL(w, cuStreamCreate, &w->stream[s], kinds[s - FIRST_CREATED]);
	}
	for (unsigned i = 0; i < EVENTS; i++)
		CALL(w, cuEventCreate, &w->event[i], CU_EVENT_DISABLE_TIMING);
	load_kernels(w);
	CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				.location = {CU_MEM_LOCATION_TYPE_DEVICE, w->device}};

	CALL(w, cuMemPoolCreate, &w->pool, &props);
	CALL(w, cuMemAlloc_v2, &w->flags, STREAMS * sizeof(cuuint32_t));
	CALL(w, cuMemsetD32_v2, w->flags, 0, STREAMS);
	CALL(w, cuCtxSynchronize);
	for (unsigned i = 0; i < BUFFERS; i++)
		while (!make_buffer(w, &w->buffer[i]))
			;
	for (unsigned i = 0; w->arrays && i < 2 * ARRAYS; i++)
		renew_array(w);
}

static void end(struct world *w)
{
	for (unsigned i = 0; i < BUFFERS; i++)
		if (any(&w->buffer[i]))
			observe(w, &w->buffer[i]);
	CALL(w, cuCtxSynchronize);
	waited_for_all(w);
	say(w, "functions: %016llx\n", (unsigned long long)w->heard);
	for (unsigned i = 0; i < GRAPHS; i++)
		drop_graph(w, &w->graph[i]);
	for (unsigned i = 0; i < BUFFERS; i++)
		if (any(&w->buffer[i]))
			free_buffer(w, &w->buffer[i]);
	for (unsigned i = 0; i < ARRAYS; i++)
		if (any(&w->buffer[BUFFERS + i]))
			free_array(w, &w->buffer[BUFFERS + i]);
	CALL(w, cuCtxSynchronize);
	free_jobs(w);
	CALL(w, cuMemFree_v2, w->flags);
	CALL(w, cuMemPoolDestroy, w->pool);
	for (unsigned i = 0; i < EVENTS; i++)
		CALL(w, cuEventDestroy_v2, w->event[i]);
	for (unsigned s = FIRST_CREATED; s < STREAMS; s++)
		CALL(w, cuStreamDestroy_v2, w->stream[s]);
	CALL(w, cuModuleUnload, w->module);
	if (w->number == 0 || w->shared)
		CALL(w, cuDevicePrimaryCtxRelease_v2, w->device);
	else
		CALL(w, cuCtxDestroy_v2, w->context);
}

static unsigned count = 200;

static void *live(void *world)
{
	struct world *w = world;

	begin(w);
	while (w->step < count)
		make_step(w);
	end(w);
	return NULL;
}

int main(int argc, char **argv)
{
	enum { MOST = 4 };
	static struct world worlds[MOST];
	uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 0;
	unsigned threads = 1 + seed % 3;
	pthread_t thread[MOST];

	count = argc > 2 ? (unsigned)atoi(argv[2]) : count;
	threads = argc > 3 ? (unsigned)atoi(argv[3]) : threads;
	only = argc > 4 ? argv[4] : NULL;
	traced = getenv("RANDOM_CALLS_TRACE") != NULL;
	CU(cuInit)(0);
	for (unsigned i = 0; i < threads; i++) {
		worlds[i] = (struct world){.number = i,
					   .seed = seed * 1000003 + i * 7919,
					   .arrays = seed >= 1000,
					   .shared = threads > 1 && seed % 4 == 0};
		pthread_create(&thread[i], NULL, live, &worlds[i]);
	}
	for (unsigned i = 0; i < threads; i++) {
		pthread_join(thread[i], NULL);
		fwrite(worlds[i].out, 1, worlds[i].length, stdout);
		free(worlds[i].out);
	}
	return 0;
}
