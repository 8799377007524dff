/*
 * tests/unit/test_m3_rights.c - M3: who may do what, leases, seals, news.
 */
#include "tests/unit/m3_world.h"

#include "emu/core/emu.h"

/* defect 9 */
static void names_belong_to_their_principal_until_they_are_shared(void **state)
{
	m3_client *a = world_client("uid:1", 0), *b = world_client("uid:2", 0);
	m3_region *r, *s, *t;

	(void)state;
	ok(world_alloc(a, "n", 2 * MiB, 0, &r));
	refused(m3_open(b, "n", M3_READ, &s), M3_ENOENT);
	refused(m3_open_id(b, m3_region_id(r), M3_READ, &s), M3_ENOENT);
	ok(world_alloc(b, "n", 4 * MiB, 0, &s)); /* b's own */
	ok(m3_release(s));
	ok(m3_chmod(r, 0604));
	ok(m3_open(b, "n", M3_READ, &s));
	refused(m3_open(b, "n", M3_READWRITE, &t), M3_EPERM);
	refused(m3_write(s, 0, "x", 1), M3_EPERM);
	refused(m3_chmod(s, 0666), M3_EPERM);
	refused(m3_unlink(b, "n"), M3_EPERM);
	ok(m3_grant(r, "uid:2", M3_READWRITE));
	ok(m3_open(b, "n", M3_READWRITE, &t));
	ok(m3_write(t, 0, "x", 1));
	ok(m3_revoke(r, "uid:2"));
	refused(m3_revoke(r, "uid:2"), M3_ENOENT);
	m3_release(s);
	m3_release(t);
	refused(m3_open(b, "n", M3_READWRITE, &t), M3_EPERM);
	m3_disconnect(b);
	m3_disconnect(a);
	m3_release(r);
}

static long broker_pages(void)
{
	char path[32];
	long pages = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/statm", (int)world_broker);
	f = fopen(path, "r");
	assert_non_null(f);
	assert_int_equal(fscanf(f, "%*d %ld", &pages), 1);
	fclose(f);
	return pages;
}

static void names_of_nobody_leave_nothing_in_the_broker(void **state)
{
	m3_client *a = world_client("uid:1", 0);
	char name[M3_PRINCIPAL_MAX];
	m3_region *r;
	long before;

	(void)state;
	ok(world_alloc(a, "g", 2 * MiB, 0, &r));
	before = broker_pages();
	for (int i = 0; i < 10000; i++) {
		snprintf(name, sizeof(name), "%050d", i);
		refused(m3_revoke(r, name), M3_ENOENT);
		ok(m3_grant(r, name, M3_READ));
		ok(m3_revoke(r, name));
	}
	for (int i = 0; i < 300; i++) {
		snprintf(name, sizeof(name), "many %d", i);
		refused(m3_grant(r, name, M3_READ), i < 256 ? M3_OK : M3_EQUOTA);
	}
#if !defined __SANITIZE_ADDRESS__ && !defined __SANITIZE_THREAD__ /* which keep what is freed */
	assert_in_range(broker_pages() - before + 100, 0, 200);
#else
	(void)before;
#endif
	refused(m3_grant(r, "uid:1", M3_READ), M3_EQUOTA);
	ok(m3_revoke(r, "many 0"));
	ok(m3_grant(r, "uid:1", M3_READ)); /* to its owner */
	m3_disconnect(a);
	m3_release(r);
}

static int count(const m3_info *info, void *data)
{
	*(int *)data += 1;
	return strcmp(info->mem_id, "list 300") == 0;
}

static void a_list_shows_what_one_may_open_and_all_of_it(void **state)
{
	m3_client *a = world_client("uid:1", 0), *b = world_client("uid:2", 0);
	m3_region *r[20], *other;
	char name[32];
	int n = 0;

	(void)state;
	for (int i = 0; i < 20; i++) {
		snprintf(name, sizeof(name), "list %d", i);
		ok(world_alloc(a, name, 2 * MiB, 0, &r[i]));
	}
	ok(world_alloc(b, "list b", 2 * MiB, 0, &other));
	ok(m3_list(a, "list ", count, &n));
	assert_int_equal(n, 20);
	n = 0;
	ok(m3_list(b, NULL, count, &n));
	assert_int_equal(n, 1);
	for (int i = 0; i < 20; i++)
		ok(m3_release(r[i]));
	ok(m3_release(other));
	m3_disconnect(a);
	m3_disconnect(b);
}

static void a_sealed_region_is_not_written_by_anybody(void **state)
{
	m3_client *a = world_client(NULL, 0), *b = world_client(NULL, 1);
	m3_alloc_req req = {.mem_id = "s", .bytes = 2 * MiB, .device = M3_ANY_DEVICE};
	m3_region *r, *s, *t;
	CUmemLocation here = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
	unsigned long long flags = 9;
	m3_info info;
	char byte;

	(void)state;
	ok(world_alloc(a, "plain", 2 * MiB, 0, &r));
	refused(m3_seal(r), M3_ENOTSUP);
	ok(m3_release(r));
	ok(world_alloc(a, "s", 2 * MiB, M3_SEALABLE, &r));
	ok(m3_write(r, 0, "x", 1));
	ok(m3_alloc(b, &req, &s));
	assert_int_equal(cuMemGetAccess(&flags, &here, m3_region_ptr(s)), 0);
	assert_int_equal(flags, M3_READWRITE);
	refused(m3_seal(r), M3_EBUSY);
	ok(m3_release(s));
	ok(m3_seal(r));
	refused(m3_write(r, 0, "y", 1), M3_EPERM);
	refused(m3_fill(r, 0, 1, 1), M3_EPERM);
	refused(m3_open(b, "s", M3_READWRITE, &t), M3_EPERM);
	ok(m3_open(b, "s", M3_READ, &t));
	refused(m3_map(t, M3_ANY_DEVICE, M3_READWRITE, 0, NULL), M3_EPERM);
	ok(m3_map(t, M3_ANY_DEVICE, M3_READ, 0, NULL));
	ok(m3_read(t, 0, &byte, 1));
	assert_int_equal(byte, 'x');
	ok(m3_stat(t, &info));
	assert_int_equal(info.state, M3_SEALED);
	ok(m3_release(r));
	ok(m3_release(t));
	m3_disconnect(a);
	m3_disconnect(b);
}

static void one_writes_or_many_read(void **state)
{
	m3_client *a = world_client(NULL, 0), *b = world_client(NULL, 0);
	m3_region *r, *s;

	(void)state;
	ok(world_alloc(a, "l", 2 * MiB, 0, &r));
	ok(m3_open(b, "l", M3_READWRITE, &s));
	ok(m3_lease(r, M3_LEASE_RO, 0));
	ok(m3_lease(s, M3_LEASE_RO, 0));
	refused(m3_lease(r, M3_LEASE_RW, 0), M3_EBUSY);
	refused(m3_lease(r, M3_LEASE_RW, 20), M3_ETIMEDOUT);
	ok(m3_unlease(s));
	refused(m3_unlease(s), M3_EINVAL);
	ok(m3_lease(r, M3_LEASE_RW, 0));
	refused(m3_lease(s, M3_LEASE_RO, 0), M3_EBUSY);
	m3_disconnect(a); /* the connection is the lease */
	ok(m3_lease(s, M3_LEASE_RW, 30000));
	m3_disconnect(b);
	m3_release(r);
	m3_release(s);
}

/* --- news */

static _Atomic unsigned int heard;

static void hear(unsigned int event, m3_rid rid, void *data)
{
	(void)rid;
	(void)data;
	heard |= event;
}

static void whoever_subscribes_hears_what_is_lost(void **state)
{
	m3_client *a = world_client(NULL, 0), *b = world_client("uid:9", 0);
	m3_region *r;

	(void)state;
	ok(m3_quota_set(a, "uid:9", 10 * MiB, 0));
	ok(m3_subscribe(b, M3_ON_REGION_LOST | M3_ON_QUOTA | M3_ON_BROKER_LOST, hear, NULL));
	refused(m3_subscribe(b, 1, hear, NULL), M3_EBUSY);
	ok(world_alloc(a, "a's", 2 * MiB, 0, &r));
	ok(m3_release(r));
	ok(world_alloc(b, "b's", 10 * MiB, 0, &r));
	world_until(heard & M3_ON_QUOTA);
	assert_false(heard & M3_ON_REGION_LOST); /* a's is nothing to b */
	ok(m3_release(r));
	world_until(heard & M3_ON_REGION_LOST);
	world_broker_kill();
	world_until(heard & M3_ON_BROKER_LOST);
	world_broker_start();
	heard = 0;
	ok(m3_subscribe(b, M3_ON_REGION_LOST, hear, NULL)); /* of the new one */
	ok(world_alloc(b, "b's", 2 * MiB, 0, &r));
	ok(m3_release(r));
	world_until(heard & M3_ON_REGION_LOST);
	m3_disconnect(a);
	m3_disconnect(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_belong_to_their_principal_until_they_are_shared),
		cmocka_unit_test(names_of_nobody_leave_nothing_in_the_broker),
		cmocka_unit_test(a_list_shows_what_one_may_open_and_all_of_it),
		cmocka_unit_test(a_sealed_region_is_not_written_by_anybody),
		cmocka_unit_test(one_writes_or_many_read),
		cmocka_unit_test(whoever_subscribes_hears_what_is_lost),
	};

	return cmocka_run_group_tests(tests, world_setup, world_teardown);
}
