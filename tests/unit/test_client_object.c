/*
 * tests/unit/test_client_object.c - handles: wrong values are errors, not faults, and stale ones
 * stay stale for long.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "client/link/client.h"

#define KINDS (CK_OBJECT_FUNCTION + 1)
#define WAIT_BEFORE_REUSE 1024 /* slots that are freed in between, at least */

static struct ckc_context owner, other;

static void assert_no_handle(const void *handle)
{
	uint64_t id;

	for (int kind = CK_OBJECT_NONE; kind <= KINDS; kind++)
		assert_null(ckc_object_check(handle, (enum ckc_object_kind)kind));
	assert_int_equal(ckc_event_id((CUevent)(uintptr_t)handle, &id), CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(ckc_module_id((CUmodule)(uintptr_t)handle, &id),
			 CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(ckc_function_id((CUfunction)(uintptr_t)handle, &id),
			 CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(ckc_kernel_id((CUkernel)(uintptr_t)handle, &id),
			 CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(ckc_context_id((CUcontext)(uintptr_t)handle, &id),
			 CUDA_ERROR_INVALID_CONTEXT);
	if ((uintptr_t)handle > 2) /* else a stream that needs no object */
		assert_int_equal(ckc_stream_id((CUstream)(uintptr_t)handle, &id),
				 CUDA_ERROR_INVALID_HANDLE);
}

static void before_the_first_object_there_is_no_handle(void **state)
{
	(void)state;
	for (uintptr_t i = 0; i < 4096; i++)
		assert_no_handle((void *)i);
	assert_no_handle(&owner);
}

/* The distance from one slot to the next, and the address that the slot of id 0 would have. */
static uintptr_t slot_size, region;

static void find_region(void)
{
	struct ckc_object *a = ckc_object_new(CK_OBJECT_EVENT, &owner);
	struct ckc_object *b = ckc_object_new(CK_OBJECT_EVENT, &owner);

	assert_non_null(a);
	assert_non_null(b);
	assert_int_equal(b->id, a->id + 1);
	slot_size = (uintptr_t)b - (uintptr_t)a;
	region = (uintptr_t)a - a->id * slot_size;
	ckc_object_free(a);
	ckc_object_free(b);
}

static void a_live_object_is_found_by_its_own_kind_only(void **state)
{
	(void)state;
	find_region();
	for (int kind = CK_OBJECT_CONTEXT; kind < KINDS; kind++) {
		struct ckc_object *o = ckc_object_new((enum ckc_object_kind)kind, &owner);

		for (int asked = CK_OBJECT_NONE; asked <= KINDS; asked++)
			assert_ptr_equal(ckc_object_check(o, (enum ckc_object_kind)asked),
					 asked == kind ? o : NULL);
		assert_ptr_equal(o->context, &owner);
		ckc_object_free(o);
		assert_no_handle(o);
	}
}

static void a_new_object_is_zero_but_for_its_head(void **state)
{
	struct ckc_event *e = ckc_object_new(CK_OBJECT_EVENT, &owner);
	struct ck_function *f = ckc_object_new(CK_OBJECT_FUNCTION, &owner);
	unsigned char zero[sizeof(*f)] = {0};

	(void)state;
	assert_memory_equal(&e->object + 1, zero, sizeof(*e) - sizeof(e->object));
	assert_memory_equal(&f->object + 1, zero, sizeof(*f) - sizeof(f->object));
	memset(&f->object + 1, 0xff, sizeof(*f) - sizeof(f->object));
	ckc_object_free(f);
	ckc_object_free(e);
	for (int i = 0; i < 3 * WAIT_BEFORE_REUSE; i++) { /* used ones too */
		f = ckc_object_new(CK_OBJECT_FUNCTION, &owner);
		assert_memory_equal(&f->object + 1, zero, sizeof(*f) - sizeof(f->object));
		memset(&f->object + 1, 0xff, sizeof(*f) - sizeof(f->object));
		ckc_object_free(f);
	}
}

static void any_value_can_be_asked_about(void **state)
{
	static const uintptr_t numbers[] = {0,		 1,
					    2,		 3,
					    16,		 17,
					    4095,	 4096,
					    0xffffffff,	 1ull << 47,
					    1ull << 63,	 0xdeadbeefdeadbeef,
					    UINTPTR_MAX, UINTPTR_MAX - 127};
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *closed = mmap(NULL, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *gone = mmap(NULL, page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	void *heap = calloc(1, 256);
	uint64_t random = 1;

	(void)state;
	munmap(gone, page);
	for (size_t i = 0; i < CK_ARRAY_SIZE(numbers); i++)
		assert_no_handle((void *)numbers[i]);
	assert_no_handle(closed);
	assert_no_handle(gone);
	assert_no_handle(heap);
	assert_no_handle(&page);
	assert_no_handle((void *)(uintptr_t)any_value_can_be_asked_about);
	for (int i = 0; i < 100000; i++) {
		random = random * 6364136223846793005u + 1442695040888963407u;
		assert_null(ckc_object_check((void *)(uintptr_t)random, CK_OBJECT_STREAM));
	}
	munmap(closed, page);
	free(heap);
}

static void the_inside_of_an_object_is_no_object_whatever_it_holds(void **state)
{
	struct ck_function *f = ckc_object_new(CK_OBJECT_FUNCTION, &owner);

	(void)state;
	memcpy(f->value, &f->object, sizeof(f->object)); /* a head that would do */
	assert_no_handle(f->value);
	ckc_object_free(f);
}

static void all_of_the_region_can_be_asked_about(void **state)
{
	struct ckc_object *live = ckc_object_new(CK_OBJECT_STREAM, &owner);
	uint64_t random = 3;

	(void)state;
	for (uintptr_t i = 1; i < slot_size; i++) /* inside of a live object */
		assert_no_handle((char *)live + i);
	assert_no_handle((void *)(region - 1));
	assert_no_handle((void *)(region - slot_size));
	for (uintptr_t i = 0; i <= 2; i++) /* ids that are never given */
		assert_no_handle((void *)(region + i * slot_size));
	for (int i = 0; i < 1000; i++) { /* slots that nobody has had, and what lies behind */
		random = random * 6364136223846793005u + 1442695040888963407u;
		assert_no_handle(
			(void *)(region + slot_size * (5000 + (random >> 32) % (5u << 20))));
	}
	ckc_object_free(live);
}

static void a_freed_handle_stays_stale_while_many_others_come_and_go(void **state)
{
	void *stale = ckc_object_new(CK_OBJECT_STREAM, &owner);

	(void)state;
	ckc_object_free(stale);
	for (int i = 0; i < WAIT_BEFORE_REUSE; i++) {
		void *o = ckc_object_new(CK_OBJECT_STREAM, &owner);

		assert_ptr_not_equal(o, stale);
		assert_null(ckc_object_check(stale, CK_OBJECT_STREAM));
		ckc_object_free(o);
	}
}

static void objects_that_come_and_go_do_not_use_up_the_region(void **state)
{
	uint64_t highest = 0;

	(void)state;
	for (int i = 0; i < 100000; i++) {
		struct ckc_object *o = ckc_object_new(CK_OBJECT_STREAM, &owner);

		if (o->id > highest)
			highest = o->id;
		ckc_object_free(o);
	}
	assert_true(highest < 2 * WAIT_BEFORE_REUSE);
}

static void ids_are_the_places_of_the_objects_and_never_small(void **state)
{
	enum { COUNT = 3000 };
	static struct ckc_object *o[COUNT];

	(void)state;
	for (int i = 0; i < COUNT; i++) {
		o[i] = ckc_object_new(CK_OBJECT_EVENT, &owner);
		assert_true(o[i]->id > 2); /* 0, 1 and 2 mean streams without an object */
		assert_int_equal((uintptr_t)o[i], region + o[i]->id * slot_size);
		for (int k = 0; k < i; k++)
			assert_ptr_not_equal(o[i], o[k]);
	}
	for (int i = 0; i < COUNT; i++)
		ckc_object_free(o[i]);
}

/* --- a context's objects */

static struct ckc_object *seen[64];
static int seen_count;

static void see(struct ckc_object *o, void *unused)
{
	(void)unused;
	assert_true(seen_count < 64);
	seen[seen_count++] = o;
}

static void see_and_free(struct ckc_object *o, void *unused)
{
	(void)unused;
	see(o, NULL);
	ckc_object_free(o);
}

static int times_seen(const struct ckc_object *o)
{
	int n = 0;

	for (int i = 0; i < seen_count; i++)
		n += seen[i] == o;
	return n;
}

static void each_visits_a_context_s_objects_and_no_others(void **state)
{
	struct ckc_context *owners[] = {&owner, &other, NULL};
	struct ckc_object *o[60];

	(void)state;
	for (int i = 0; i < 60; i++)
		o[i] = ckc_object_new((enum ckc_object_kind)(CK_OBJECT_STREAM + i % 4),
				      owners[i % 3]);
	for (int i = 0; i < 60; i += 10) /* two of each owner */
		ckc_object_free(o[i]);
	seen_count = 0;
	ckc_object_each(&owner, see, NULL);
	for (int i = 0; i < 60; i++)
		assert_int_equal(times_seen(o[i]), i % 3 == 0 && i % 10 != 0);
	assert_int_equal(seen_count, 18);

	seen_count = 0;
	ckc_object_each(&owner, see_and_free, NULL); /* as a context does that goes */
	assert_int_equal(seen_count, 18);
	seen_count = 0;
	ckc_object_each(&owner, see, NULL);
	assert_int_equal(seen_count, 0);
	ckc_object_each(&other, see_and_free, NULL);
	assert_int_equal(seen_count, 18);
	seen_count = 0;
	ckc_object_each(NULL, see_and_free, NULL);
	assert_int_equal(seen_count, 18);
}

/* --- threads */

#define THREADS 8
#define HELD 50

static void *come_and_go(void *arg)
{
	struct ckc_object *held[HELD] = {0};
	struct ckc_context *mine = arg;
	uintptr_t faults = 0;

	for (int i = 0; i < 20000; i++) {
		struct ckc_object **slot = &held[i % HELD];

		if (*slot) {
			faults += ckc_object_check(*slot, CK_OBJECT_EVENT) != *slot;
			faults += (*slot)->context != mine; /* handed out twice */
			ckc_object_free(*slot);
		}
		*slot = ckc_object_new(CK_OBJECT_EVENT, mine);
		faults += !*slot;
	}
	for (int i = 0; i < HELD; i++)
		ckc_object_free(held[i]);
	return (void *)faults;
}

static void threads_never_get_the_same_object(void **state)
{
	static struct ckc_context contexts[THREADS];
	pthread_t threads[THREADS];
	void *faults;

	(void)state;
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, come_and_go, &contexts[i]), 0);
	for (int i = 0; i < THREADS; i++) {
		pthread_join(threads[i], &faults);
		assert_null(faults);
	}
}

/* --- the end of the region, and no region: in processes of their own */

static int status_of(int (*fn)(void))
{
	pid_t pid = fork();
	int status = -1;

	if (pid == 0)
		_exit(fn());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1000;
}

static int use_all(void)
{
	struct ckc_object *o, *last = NULL;
	uint64_t count = 0;

	while ((o = ckc_object_new(CK_OBJECT_EVENT, &owner)) != NULL) {
		last = o;
		if (o->id <= 2 || ++count > 1u << 24)
			return 1;
	}
	if (count < 1000000 || !last)
		return 2;
	if (ckc_object_new(CK_OBJECT_STREAM, &owner) ||
	    ckc_object_check(last, CK_OBJECT_EVENT) != last)
		return 3;
	ckc_object_free(last);
	if (ckc_object_check(last, CK_OBJECT_EVENT))
		return 4;
	o = ckc_object_new(CK_OBJECT_STREAM, &owner); /* better soon than never */
	if (o != last || ckc_object_new(CK_OBJECT_STREAM, &owner))
		return 5;
	return 0;
}

static void a_full_region_gives_no_object_until_one_is_freed(void **state)
{
	(void)state;
	assert_int_equal(status_of(use_all), 0);
}

static int use_none(void)
{
	struct rlimit limit, was;

	getrlimit(RLIMIT_AS, &was);
	limit = was;
	limit.rlim_cur = 256u << 20;
	setrlimit(RLIMIT_AS, &limit);
	if (ckc_object_new(CK_OBJECT_EVENT, NULL) || ckc_object_check(&was, CK_OBJECT_EVENT))
		return 1;
	setrlimit(RLIMIT_AS, &was);
	return ckc_object_new(CK_OBJECT_EVENT, NULL) ? 0 : 2;
}

/* Runs before any object has been made. */
static void without_address_space_there_is_no_object(void **state)
{
	(void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	skip(); /* its shadow is larger than any limit that would do */
#endif
	assert_int_equal(status_of(use_none), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(before_the_first_object_there_is_no_handle),
		cmocka_unit_test(without_address_space_there_is_no_object),
		cmocka_unit_test(a_live_object_is_found_by_its_own_kind_only),
		cmocka_unit_test(a_new_object_is_zero_but_for_its_head),
		cmocka_unit_test(any_value_can_be_asked_about),
		cmocka_unit_test(the_inside_of_an_object_is_no_object_whatever_it_holds),
		cmocka_unit_test(all_of_the_region_can_be_asked_about),
		cmocka_unit_test(a_freed_handle_stays_stale_while_many_others_come_and_go),
		cmocka_unit_test(objects_that_come_and_go_do_not_use_up_the_region),
		cmocka_unit_test(ids_are_the_places_of_the_objects_and_never_small),
		cmocka_unit_test(each_visits_a_context_s_objects_and_no_others),
		cmocka_unit_test(threads_never_get_the_same_object),
		cmocka_unit_test(a_full_region_gives_no_object_until_one_is_freed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
