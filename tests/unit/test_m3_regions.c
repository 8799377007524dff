/*
 * tests/unit/test_m3_regions.c - M3: regions, names, sizes, lifetimes. What was wrong with the
 * first M3 is here with the number of its defect.
 */
#include "tests/unit/m3_world.h"

#include "emu/core/emu.h"

/* --- roles: what other processes of a test do */

/* Find "shared", map it, see what the parent has written, write an answer. */
static int role_attach(void)
{
	m3_client *c;
	m3_region *r;
	CUcontext context;
	CUdeviceptr at = 0;
	char text[6] = "";

	if (cuInit(0) || cuCtxCreate_v2(&context, 0, 0) || m3_connect(NULL, &c) ||
	    m3_open(c, "shared", M3_READWRITE, &r) ||
	    m3_map(r, M3_ANY_DEVICE, M3_READWRITE, 0, &at) || cuMemcpyDtoH_v2(text, at, 6) ||
	    strcmp(text, "hello"))
		return 1;
	return cuMemcpyHtoD_v2(at + 100, "world", 6) ? 2 : 0;
}

/* Map a region and end without a word. */
static int role_die(void)
{
	m3_client *c;
	m3_region *r;
	m3_alloc_req req = {.mem_id = "doomed", .bytes = 4 * MiB};

	if (m3_connect(NULL, &c) || m3_alloc(c, &req, &r) || m3_lease(r, M3_LEASE_RW, 0))
		return 1;
	raise(SIGKILL);
	return 2;
}

static int role(const char *name)
{
	return strcmp(name, "attach") == 0 ? role_attach() : role_die();
}

/* --- names and sizes */

static void one_name_is_the_same_memory_in_two_processes(void **state)
{
	m3_client *c = world_client(NULL, 1);
	m3_alloc_req req = {.mem_id = "shared", .bytes = 3 * MiB, .alignment = 8 * MiB};
	CUcontext context;
	char text[6] = "";
	m3_region *r;

	(void)state;
	assert_int_equal(cuCtxCreate_v2(&context, 0, 0), 0);
	ok(m3_alloc(c, &req, &r));
	assert_int_equal(m3_region_size(r), 4 * MiB);
	assert_int_equal(m3_region_ptr(r) % (8 * MiB), 0); /* 8: alignment is kept */
	assert_int_equal(cuMemcpyHtoD_v2(m3_region_ptr(r), "hello", 6), 0);
	assert_int_equal(world_status(world_spawn("attach", "")), 0);
	assert_int_equal(cuMemcpyDtoH_v2(text, m3_region_ptr(r) + 100, 6), 0);
	assert_string_equal(text, "world");
	ok(m3_release(r));
	assert_int_equal(world_used(c), 0); /* 4: it goes with its last user */
	m3_disconnect(c);
	assert_int_equal(cuCtxDestroy_v2(context), 0);
}

/* defect 2 */
static void memory_without_a_name_is_nobody_elses(void **state)
{
	m3_client *c = world_client(NULL, 0);
	m3_region *a, *b;
	char byte = 1;

	(void)state;
	ok(world_alloc(c, NULL, 32768, 0, &a));
	ok(world_alloc(c, NULL, 32768, 0, &b));
	assert_true(m3_region_id(a) != m3_region_id(b));
	ok(m3_write(a, 0, "x", 1));
	ok(m3_read(b, 0, &byte, 1));
	assert_int_equal(byte, 0);
	m3_disconnect(c);
	ok(m3_release(a));
	ok(m3_release(b));
}

/* defect 3 */
static void a_name_with_another_size_is_refused_and_stays_what_it_was(void **state)
{
	m3_client *c = world_client(NULL, 0);
	m3_region *a, *b;

	(void)state;
	ok(world_alloc(c, "n", 4 * MiB, 0, &a));
	refused(world_alloc(c, "n", 8 * MiB, 0, &b), M3_EMISMATCH);
	refused(world_alloc(c, "n", 4 * MiB, M3_EXCL, &b), M3_EEXIST);
	ok(world_alloc(c, "n", 3 * MiB, 0, &b)); /* rounded, it is the same */
	assert_int_equal(m3_region_id(a), m3_region_id(b));
	ok(m3_release(a));
	ok(m3_release(b));
	refused(m3_open(c, "n", M3_READ, &a), M3_ENOENT);
	refused(world_alloc(c, "n", 0, M3_ATTACH_ONLY, &a), M3_ENOENT);
	m3_disconnect(c);
}

/* defect 8 */
static void names_are_text_of_at_most_255_bytes(void **state)
{
	m3_client *c = world_client(NULL, 0);
	char name[300];
	m3_region *r;

	(void)state;
	memset(name, 'n', sizeof(name));
	name[255] = '\0';
	ok(world_alloc(c, name, 1, 0, &r));
	ok(m3_release(r));
	name[255] = 'n';
	name[256] = '\0';
	refused(world_alloc(c, name, 1, 0, &r), M3_EINVAL);
	refused(world_alloc(c, "", 1, 0, &r), M3_EINVAL);
	refused(world_alloc(c, "a\nb", 1, 0, &r), M3_EINVAL);
	refused(world_alloc(c, "\xc3", 1, 0, &r), M3_EINVAL);
	refused(world_alloc(c, "\xed\xa0\x80", 1, 0, &r), M3_EINVAL);
	ok(world_alloc(c, "Gew\xc3\xbcrz", 1, 0, &r));
	ok(m3_release(r));
	m3_disconnect(c);
}

static void sizes_are_rounded_by_the_broker(void **state)
{
	m3_client *c = world_client(NULL, 0);
	uint64_t rounded, granularity;
	m3_region *r;

	(void)state;
	ok(m3_rounded_size(c, 0, 0, 0, &rounded, &granularity));
	assert_int_equal(rounded, granularity);
	ok(m3_rounded_size(c, 1, granularity + 1, M3_RECOMMENDED, &rounded, NULL));
	assert_int_equal(rounded, 2 * granularity);
	refused(m3_rounded_size(c, 0, UINT64_MAX, 0, &rounded, NULL), M3_EINVAL);
	refused(m3_rounded_size(c, 7, 1, 0, &rounded, NULL), M3_EINVAL);
	refused(world_alloc(c, "n", UINT64_MAX - 1, 0, &r), M3_EINVAL);
	m3_disconnect(c);
}

/* defect 1 */
static void registering_is_acknowledged_once(void **state)
{
	m3_client *c = world_client(NULL, 0);
	m3_process_info info = {.device = 0, .label = "test"};

	(void)state;
	assert_int_equal(m3_legacy_status(m3_register(c, &info)), 1);
	assert_int_equal(m3_legacy_status(m3_register(c, &info)), 4);
	ok(m3_deregister(c));
	refused(m3_deregister(c), M3_ENOENT);
	ok(m3_register(c, NULL));
	m3_disconnect(c);
}

/* defect 6 */
static void out_of_memory_is_an_answer_and_no_quota(void **state)
{
	m3_client *c = world_client(NULL, 0), *d = world_client("uid:4711", 0);
	m3_region *r, *s;

	(void)state;
	refused(world_alloc(c, "big", 1ul << 40, 0, &r), M3_ENOMEM);
	ok(world_alloc(c, "big", 200 * MiB, 0, &r));
	refused(world_alloc(c, "more", 100 * MiB, 0, &s), M3_ENOMEM);
	ok(m3_release(r));
	ok(world_alloc(c, "more", 100 * MiB, 0, &s));
	ok(m3_release(s));
	ok(m3_quota_set(c, "uid:4711", 8 * MiB, 2));
	refused(world_alloc(d, "a", 16 * MiB, 0, &r), M3_EQUOTA);
	ok(world_alloc(d, "a", 4 * MiB, 0, &r));
	ok(world_alloc(d, "b", 2 * MiB, 0, &s));
	refused(world_alloc(d, "c", 2 * MiB, 0, &s), M3_EQUOTA);
	m3_disconnect(d);
	m3_disconnect(c);
	m3_release(r);
	m3_release(s);
}

/* defect 11: the emulated driver leaves rubbish in new memory here */
static void new_memory_is_zero(void **state)
{
	m3_client *c = world_client(NULL, 0);
	static char bytes[70000], none[70000];
	m3_region *r;

	(void)state;
	ok(world_alloc(c, "z", 2 * MiB, 0, &r));
	ok(m3_read(r, 2 * MiB - sizeof(bytes), bytes, sizeof(bytes)));
	assert_memory_equal(bytes, none, sizeof(bytes));
	m3_disconnect(c);
	m3_release(r);
}

/* --- lifetimes */

/* defects 4 and 5 */
static void a_client_that_is_killed_leaves_nothing(void **state)
{
	m3_client *c = world_client(NULL, 0);
	m3_region *r;

	(void)state;
	assert_int_equal(world_status(world_spawn("die", "")), 128 + SIGKILL);
	world_until(world_used(c) == 0);
	refused(m3_open(c, "doomed", M3_READ, &r), M3_ENOENT);
	m3_disconnect(c);
}

/* Whether nobody has the region of that name any more. */
static bool gone(m3_client *c, const char *name)
{
	m3_region *r;
	int status = m3_open(c, name, M3_READ, &r);

	if (status == M3_OK)
		ok(m3_release(r));
	return status == M3_ENOENT;
}

static void memory_stays_charged_until_the_process_that_may_map_it_is_gone(void **state)
{
	m3_client *c = world_client(NULL, 1), *d = world_client(NULL, 0);
	m3_alloc_req req = {.mem_id = "kept", .bytes = 2 * MiB, .device = M3_ANY_DEVICE};
	m3_region *r;

	(void)state;
	ok(m3_alloc(c, &req, &r));
	m3_disconnect(c); /* without releasing: this process still maps it */
	world_until(gone(d, "kept"));
	assert_int_equal(world_used(d), 2 * MiB);
	ok(m3_release(r));
	m3_disconnect(d);
	/* only the end of this process would give it back: the next broker does not know it */
	world_broker_kill();
	world_broker_start();
}

static void unlinked_memory_lives_until_its_last_user_goes(void **state)
{
	m3_client *c = world_client(NULL, 0);
	m3_region *r, *s;
	char byte;

	(void)state;
	ok(world_alloc(c, "u", 2 * MiB, 0, &r));
	ok(m3_write(r, 0, "y", 1));
	ok(m3_unlink(c, "u"));
	refused(m3_unlink(c, "u"), M3_ENOENT);
	ok(world_alloc(c, "u", 4 * MiB, 0, &s)); /* the name is free */
	ok(m3_read(r, 0, &byte, 1));
	assert_int_equal(byte, 'y');
	ok(m3_release(r));
	ok(m3_release(s));
	assert_int_equal(world_used(c), 0);
	m3_disconnect(c);
}

static void a_detached_region_outlives_its_clients(void **state)
{
	m3_client *c = world_client(NULL, 0);
	m3_region *r;

	(void)state;
	ok(world_alloc(c, "d", 2 * MiB, M3_DETACHED, &r));
	ok(m3_retain(r));
	ok(m3_release(r));
	ok(m3_release(r));
	m3_disconnect(c);
	c = world_client(NULL, 0);
	ok(m3_open(c, "d", M3_READ, &r));
	ok(m3_release(r));
	ok(m3_unlink(c, "d"));
	assert_int_equal(world_used(c), 0);
	m3_disconnect(c);
}

static void regions_of_a_lost_broker_are_stale_and_their_mappings_stay(void **state)
{
	m3_client *c = world_client(NULL, 1);
	m3_alloc_req req = {.mem_id = "s", .bytes = 2 * MiB, .device = M3_ANY_DEVICE};
	CUcontext context;
	m3_region *r, *s;
	m3_info info;
	m3_rid rid;
	char byte = 0;

	(void)state;
	assert_int_equal(cuCtxCreate_v2(&context, 0, 0), 0);
	ok(m3_alloc(c, &req, &r));
	rid = m3_region_id(r);
	assert_int_equal(cuMemcpyHtoD_v2(m3_region_ptr(r), "k", 1), 0);
	world_broker_kill();
	refused(m3_open(c, "s", M3_READ, &s), M3_EIO);
	world_broker_start();
	refused(m3_stat(r, &info), M3_ESTALE);
	refused(m3_open(c, "s", M3_READ, &s), M3_ENOENT);
	refused(m3_open_id(c, rid, M3_READ, &s), M3_ESTALE);
	assert_int_equal(cuMemcpyDtoH_v2(&byte, m3_region_ptr(r), 1), 0);
	assert_int_equal(byte, 'k');
	ok(m3_alloc(c, &req, &s));
	ok(m3_release(r));
	ok(m3_release(s));
	m3_disconnect(c);
	assert_int_equal(cuCtxDestroy_v2(context), 0);
}

/* defect 5, its other half */
static void a_second_broker_leaves_the_first_ones_socket_alone(void **state)
{
	m3_client *c = world_client(NULL, 0);
	pid_t second = fork();
	char back[3] = "";

	(void)state;
	if (second == 0) {
		setenv("CRICKET_LOG", "none", 1);
		execl(CK_TEST_PRODUCTS "/m3-server", "m3-server", "--driver", "emu", "--socket",
		      world_socket, NULL);
		_exit(127);
	}
	assert_int_equal(world_status(second), 1);
	m3_disconnect(c);
	c = world_client(NULL, 0);
	ok(m3_echo(c, "ab", 3, back));
	assert_string_equal(back, "ab");
	m3_disconnect(c);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_name_is_the_same_memory_in_two_processes),
		cmocka_unit_test(memory_without_a_name_is_nobody_elses),
		cmocka_unit_test(a_name_with_another_size_is_refused_and_stays_what_it_was),
		cmocka_unit_test(names_are_text_of_at_most_255_bytes),
		cmocka_unit_test(sizes_are_rounded_by_the_broker),
		cmocka_unit_test(registering_is_acknowledged_once),
		cmocka_unit_test(out_of_memory_is_an_answer_and_no_quota),
		cmocka_unit_test(new_memory_is_zero),
		cmocka_unit_test(a_client_that_is_killed_leaves_nothing),
		cmocka_unit_test(memory_stays_charged_until_the_process_that_may_map_it_is_gone),
		cmocka_unit_test(unlinked_memory_lives_until_its_last_user_goes),
		cmocka_unit_test(a_detached_region_outlives_its_clients),
		cmocka_unit_test(regions_of_a_lost_broker_are_stale_and_their_mappings_stay),
		cmocka_unit_test(a_second_broker_leaves_the_first_ones_socket_alone),
	};

	if (argc > 2 && strcmp(argv[1], "--role") == 0)
		_exit(role(argv[2])); /* what it has is left to the broker */
	return cmocka_run_group_tests(tests, world_setup, world_teardown);
}
