/*
 * loader/stubs/stub.c - the part of a stub library that is the same for every lower half: finding
 * the half, getting a thread its place in it, releasing that when the thread ends.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "loader/find.h"
#include "loader/stubs/stub.h"

#define HIDDEN __attribute__((visibility("hidden")))
#define SERVICE_STACK (1 << 20)

/* Read by call.S. */
struct lh_half *lh_half_at;
HIDDEN uint32_t lh_fs_offset;
HIDDEN uint8_t lh_fsgsbase;

HIDDEN int lh_enter(uint64_t index, uint64_t found[2]);
HIDDEN long lh_failed(uint64_t index);

static struct lhinfo *info;
static unsigned int half, names;
static pthread_key_t at_thread_end;
static pthread_once_t service_once = PTHREAD_ONCE_INIT;

static void release_thread(void *unused)
{
	(void)unused;
	info->leave();
}

__attribute__((constructor(101))) static void begin(void)
{
	info = lhinfo_find();
	for (unsigned int i = 1; info && i < info->halves; i++)
		if (!strcmp(info->half[i].name, lh_stub_half))
			half = i;
	if (!half) {
		info = NULL;
		return;
	}
	if (info->half[half].hash != lh_hash) {
		fprintf(stderr,
			"kernel-loader: %s: the half and its stub library are not of one build\n",
			lh_stub_half);
		info = NULL;
		return;
	}
	while (lh_names[names])
		names++;
	pthread_key_create(&at_thread_end, release_thread);
	lh_fsgsbase = info->fsgsbase != 0;
	lh_fs_offset = (uint32_t)(LHTHREAD_FS + half * sizeof(uint64_t));
	lh_half_at = &info->half[half];
}

struct lhinfo *lh_info(void)
{
	return info;
}

/* From call.S, when the quick way is not open. found: the function, and FS in the half. */
int lh_enter(uint64_t index, uint64_t found[2])
{
	struct lh_thread *t;
	void **table;

	/* a constructor that comes before ours */
	if (!info)
		begin();
	table = info ? info->half[half].table : NULL;
	if (!table || !table[index])
		return 0;
	t = info->enter(half);
	if (!t)
		return 0;
	pthread_setspecific(at_thread_end, t);
	found[0] = (uint64_t)(uintptr_t)table[index];
	found[1] = t->fs[half];
	return 1;
}

long lh_failed(uint64_t index)
{
	if (!names)
		return lh_stub_error(lh_names[index]); /* there is no loader */
	return lh_stub_error(index < names ? lh_names[index] : "function of that address");
}

/* --- callbacks */

static void *serve_callbacks(void *more)
{
	info->serve((void (*)(void))(uintptr_t)more);
	return NULL;
}

static void another_thread(void)
{
	pthread_attr_t attr;
	pthread_t thread;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, SERVICE_STACK);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	if (pthread_create(&thread, &attr, serve_callbacks, (void *)(uintptr_t)another_thread))
		fprintf(stderr, "kernel-loader: %s: no thread for callbacks\n", lh_stub_half);
	pthread_attr_destroy(&attr);
}

void *lh_callback(lh_target target, void *user)
{
	return info ? info->callback(half, target, user) : NULL;
}

void *lh_callback_any_thread(lh_target target, void *user)
{
	if (info)
		pthread_once(&service_once, another_thread);
	return lh_callback(target, user);
}

bool lh_callback_behind(const void *address, lh_target *target, void **user)
{
	return info && !info->callback_of(address, target, user);
}
