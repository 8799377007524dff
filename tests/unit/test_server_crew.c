/*
 * tests/unit/test_server_crew.c - threads that do jobs for one that waits for them in order.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "server/checkpoint/crew.h"
#include "util/util.h"

#define JOBS ((size_t)1000)

struct work {
	size_t results[CKS_CREW_AHEAD];
	atomic_size_t begun;
};

static void square(void *data, size_t job)
{
	struct work *w = data;

	w->results[job % CKS_CREW_AHEAD] = job * job;
	atomic_fetch_add(&w->begun, 1);
}

static void each_job_is_done_once(void **state)
{
	struct work w = {.begun = 0};
	struct cks_crew crew;

	(void)state;
	cks_crew_start(&crew, square, &w);
	for (size_t i = 0; i < JOBS; i++) {
		cks_crew_release(&crew, ck_min(JOBS, i + CKS_CREW_AHEAD));
		cks_crew_wait(&crew, i);
		assert_int_equal(w.results[i % CKS_CREW_AHEAD], i * i);
	}
	cks_crew_end(&crew);
	assert_int_equal(w.begun, JOBS);
}

static void jobs_are_done_without_threads(void **state)
{
	struct work w = {.begun = 0};
	struct cks_crew crew;

	(void)state;
	cks_crew_start(&crew, square, &w);
	ck_lock(&crew.lock);
	crew.ends = true; /* no thread begins a job any more */
	ck_unlock(&crew.lock);
	for (size_t i = 0; i < JOBS; i++) {
		cks_crew_release(&crew, i + 1);
		cks_crew_wait(&crew, i);
		assert_int_equal(w.results[i % CKS_CREW_AHEAD], i * i);
	}
	cks_crew_end(&crew);
	assert_int_equal(w.begun, JOBS);
}

static void a_crew_ends_before_its_jobs(void **state)
{
	struct work w = {.begun = 0};
	struct cks_crew crew;

	(void)state;
	cks_crew_start(&crew, square, &w);
	cks_crew_release(&crew, CKS_CREW_AHEAD);
	cks_crew_wait(&crew, 0);
	cks_crew_end(&crew);
	assert_in_range(w.begun, 1, CKS_CREW_AHEAD);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_job_is_done_once),
		cmocka_unit_test(jobs_are_done_without_threads),
		cmocka_unit_test(a_crew_ends_before_its_jobs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
