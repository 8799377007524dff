/*
 * tests/unit/test_server_migration_policy.c - checkpoints that have no purpose any more: which are
 * removed, and when no process can be started for that. The policy is compiled here once more,
 * under other names, with a session and a clock of the test's.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "server/children/helpers.h"
#include "server/children/workers.h"
#include "server/life/migration.h"
#include "server/life/migration_part.h"
#include "server/options/options.h"
#include "util/until.h"

#define KILLED 9 /* wait(2)'s status */
#define UNKNOWN (-1)
#define ENDED 0

static int64_t fake_now;
static struct cks_session_info session;
static struct cks_travels travels;
static struct cks_options options;
static struct cks_server server = {.travels = &travels, .options = &options};
static char folder[] = "/tmp/ck-test-XXXXXX";
static pid_t start_result;
static unsigned int starts;

static struct cks_session_info *fake_next(const struct cks_workers *unused,
					  const struct cks_session_info *s)
{
	(void)unused;
	return s ? NULL : &session;
}

static const unsigned char *fake_secret(const struct cks_session_info *unused)
{
	static const unsigned char secret[16];

	(void)unused;
	return secret;
}

static pid_t fake_start(struct cks_helpers *unused, const struct cks_helper *helper)
{
	(void)unused;
	json_decref(helper->request);
	starts++;
	return start_result;
}

#define ck_now_ms() fake_now
#define cks_workers_next fake_next
#define cks_workers_secret fake_secret
#define cks_helpers_start fake_start
#define cks_migration_policy policy
#define cks_migration_policy_ended policy_ended
#define travel_remove remove_checkpoint
int64_t policy(struct cks_server *of);
void policy_ended(struct cks_travels *t, const struct cks_options *o, struct cks_workers *w,
		  pid_t pid, int status);
void remove_checkpoint(struct cks_server *of, struct travel *travel);
#include "server/life/migration_policy.c"

static int begin(void **unused)
{
	char parent[PATH_MAX];

	(void)unused;
	memset(&session, 0, sizeof(session));
	session.pid = 7;
	fake_now = 1000000;
	start_result = 8;
	starts = 0;
	strcpy(folder, "/tmp/ck-test-XXXXXX");
	options.checkpoint_dir = mkdtemp(folder);
	folder_of(folder, fake_secret(NULL), parent);
	return options.checkpoint_dir ? mkdir(parent, 0700) : -1;
}

static int end(void **unused)
{
	char child[PATH_MAX];

	(void)unused;
	folder_of(folder, fake_secret(NULL), child);
	while (travels.first) {
		struct travel *next = travels.first->next;

		free(travels.first);
		travels.first = next;
	}
	return rmdir(child) < 0 || rmdir(folder) < 0 ? -1 : 0;
}

static bool is_removed_after(int status)
{
	policy_ended(&travels, &options, NULL, 7, status);
	return travels.first != NULL;
}

static void what_has_ended_in_order_is_removed(void **unused)
{
	(void)unused;
	assert_true(is_removed_after(ENDED));
	assert_int_equal(travels.first->again, 0); /* at once */
	remove_checkpoint(&server, travels.first);
	assert_int_equal(starts, 1);
	assert_int_equal(travels.first->step, OVER);
}

static void what_was_killed_is_kept(void **unused)
{
	(void)unused;
	assert_false(is_removed_after(KILLED));
}

static void the_last_note_tells_of_what_is_no_child(void **unused)
{
	(void)unused;
	assert_false(is_removed_after(UNKNOWN));
	session.end_reported = true;
	assert_true(is_removed_after(UNKNOWN));
}

static void what_was_written_into_files_is_kept(void **unused)
{
	(void)unused;
	session.written = session.end_reported = true;
	assert_false(is_removed_after(ENDED));
	assert_false(is_removed_after(UNKNOWN));
}

static void a_removal_without_a_process_is_tried_again(void **unused)
{
	(void)unused;
	assert_true(is_removed_after(ENDED));
	start_result = -EAGAIN;
	for (unsigned int i = 1; i <= 3; i++) {
		remove_checkpoint(&server, travels.first);
		assert_int_equal(starts, i);
		assert_int_equal(travels.first->step, REMOVING);
		assert_false(cks_travels_saving(&travels));
		remove_checkpoint(&server, travels.first); /* its time has not come */
		assert_int_equal(starts, i);
		fake_now = travels.first->again;
	}
	start_result = 8;
	remove_checkpoint(&server, travels.first);
	assert_int_equal(starts, 4);
	assert_int_equal(travels.first->step, OVER);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(what_has_ended_in_order_is_removed),
		TEST(what_was_killed_is_kept),
		TEST(the_last_note_tells_of_what_is_no_child),
		TEST(what_was_written_into_files_is_kept),
		TEST(a_removal_without_a_process_is_tried_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
