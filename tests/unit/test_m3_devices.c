/*
 * tests/unit/test_m3_devices.c - M3 on two devices: where regions are, who may use them, how bytes
 * come and go.
 */
#include "tests/unit/m3_world.h"

#include "emu/core/emu.h"
#include "m3/lib.h"

/* --- devices */

static void regions_are_placed_where_it_was_asked_for(void **state)
{
	m3_client *c = world_client(NULL, 0);
	m3_alloc_req req = {.bytes = 2 * MiB, .device = 1, .flags = M3_NO_MAP};
	m3_region *r[5];
	m3_info info;

	(void)state;
	for (int policy = M3_EXPLICIT; policy <= M3_PEER_OF; policy++) {
		req.policy = policy;
		ok(m3_alloc(c, &req, &r[policy]));
		ok(m3_stat(r[policy], &info));
		assert_int_equal(info.device, policy == M3_EXPLICIT);
	}
	req.policy = 77;
	refused(m3_alloc(c, &req, &r[4]), M3_EINVAL);
	m3_disconnect(c);
	for (int i = 0; i < 4; i++)
		m3_release(r[i]);
}

static void two_devices_use_one_region_at_one_address(void **state)
{
	m3_client *c = world_client(NULL, 1);
	m3_alloc_req req = {.mem_id = "two", .bytes = 2 * MiB, .device = 0};
	unsigned long long flags = 9;
	CUmemLocation second = {CU_MEM_LOCATION_TYPE_DEVICE, 1};
	m3_device_ptr at;
	m3_region *r;
	m3_topo topo;

	(void)state;
	ok(m3_topology(c, &topo));
	assert_int_equal(topo.count, 2);
	assert_int_equal(topo.devices[0].peers, 2);
	ok(m3_alloc(c, &req, &r));
	assert_int_equal(cuMemGetAccess(&flags, &second, m3_region_ptr(r)), 0);
	assert_int_equal(flags, 0);
	ok(m3_map(r, 1, M3_READ, 0, &at));
	assert_true(at == m3_region_ptr(r));
	cuMemGetAccess(&flags, &second, at);
	assert_int_equal(flags, M3_READ);
	ok(m3_set_access(r, 3, M3_READWRITE));
	cuMemGetAccess(&flags, &second, at);
	assert_int_equal(flags, M3_READWRITE);
	refused(m3_set_access(r, 4, M3_READ), M3_EINVAL);
	refused(m3_map(r, 2, M3_READ, 0, &at), M3_EINVAL);
	ok(m3_unmap(r, 1));
	refused(m3_unmap(r, 1), M3_EINVAL);
	cuMemGetAccess(&flags, &second, at);
	assert_int_equal(flags, 0);
	ok(m3_unmap(r, 0));
	assert_true(m3_region_ptr(r) == 0);
	ok(m3_release(r));
	m3_disconnect(c);
}

static CUresult refuse_in(CUdeviceptr to, const void *from, size_t size)
{
	(void)to, (void)from, (void)size;
	return CUDA_ERROR_NOT_PERMITTED;
}

static CUresult refuse_out(void *to, CUdeviceptr from, size_t size)
{
	(void)to, (void)from, (void)size;
	return CUDA_ERROR_NOT_PERMITTED;
}

/*
 * What the mapping does not allow to the current device, the broker does. A real driver refuses
 * such copies, the emulated one does not.
 */
static void bytes_go_by_the_broker_where_the_mapping_is_not_for_it(void **state)
{
	m3_client *c = world_client(NULL, 1);
	m3_region *r;
	CUcontext context;
	char back[4] = "";

	(void)state;
	assert_int_equal(cuDevicePrimaryCtxRetain(&context, 0), 0);
	assert_int_equal(cuCtxSetCurrent(context), 0);
	ok(world_alloc(c, "elsewhere", 2 * MiB, 0, &r));
	c->driver.cuMemcpyHtoD_v2 = refuse_in;
	ok(m3_map(r, 0, M3_READ, 0, NULL));
	ok(m3_write(r, 5, "one", 4));
	ok(m3_read(r, 5, back, 4));
	assert_string_equal(back, "one");
	c->driver.cuMemcpyDtoH_v2 = refuse_out;
	refused(m3_read(r, 5, back, 4), M3_EPERM); /* the direct way */
	ok(m3_unmap(r, 0));
	ok(m3_map(r, 1, M3_READWRITE, 0, NULL));
	ok(m3_write(r, 9, "two", 4));
	ok(m3_read(r, 9, back, 4));
	assert_string_equal(back, "two");
	ok(m3_release(r));
	cuCtxSetCurrent(NULL);
	cuDevicePrimaryCtxRelease_v2(0);
	m3_disconnect(c);
}

/* --- several devices */

static void a_striped_region_is_one_stretch_of_memory_of_both(void **state)
{
	m3_client *c = world_client(NULL, 1), *plain = world_client(NULL, 0);
	m3_alloc_req req = {.mem_id = "s", .bytes = 5 * MiB, .device = 1, .policy = M3_STRIPED};
	char in[] = "one half here, the other there", out[sizeof(in)];
	m3_region *r, *other, *none;
	CUcontext context;
	m3_topo topo;
	m3_info info;

	(void)state;
	assert_int_equal(cuDevicePrimaryCtxRetain(&context, 1), 0);
	assert_int_equal(cuCtxSetCurrent(context), 0);
	ok(m3_alloc(c, &req, &r));
	assert_int_equal(m3_region_size(r), 8 * MiB); /* two of 4 MiB */
	assert_int_equal(m3_region_device(r, 0), 1);
	assert_int_equal(m3_region_device(r, 1), 0);
	refused(m3_region_device(r, 2), M3_EINVAL);
	ok(m3_topology(c, &topo));
	assert_int_equal(topo.devices[0].used, 4 * MiB);
	assert_int_equal(topo.devices[1].used, 4 * MiB);
	ok(m3_open(plain, "s", M3_READWRITE, &other));
	ok(m3_stat(other, &info));
	assert_int_equal(info.stripes, 2);
	assert_int_equal(info.device, 1);
	/* over the boundary: by way of the broker, and in the mapping */
	ok(m3_write(other, 4 * MiB - 9, in, sizeof(in)));
	assert_int_equal(cuMemcpyDtoH_v2(out, m3_region_ptr(r) + 4 * MiB - 9, sizeof(out)), 0);
	assert_memory_equal(in, out, sizeof(in));
	ok(m3_copy(other, 0, other, 4 * MiB - 9, sizeof(in)));
	ok(m3_copy(other, 4 * MiB - 20, other, 4 * MiB - 9, 11));
	ok(m3_read(other, 4 * MiB - 20, out, sizeof(in)));
	assert_memory_equal(out, in, 11);
	assert_memory_equal(out + 11, in, sizeof(in) - 11);
	ok(m3_fill(other, 4 * MiB - 2, 0x55, 4));
	assert_int_equal(cuMemcpyDtoH_v2(out, m3_region_ptr(r) + 4 * MiB - 3, 6), 0);
	assert_memory_equal(out + 1, "UUUU", 4);
	req.stripes = 1;
	refused(m3_alloc(c, &req, &none), M3_EMISMATCH);
	req.policy = M3_EXPLICIT;
	refused(m3_alloc(c, &req, &none), M3_EMISMATCH);
	req.mem_id = NULL;
	req.policy = M3_STRIPED;
	req.stripes = 3;
	refused(m3_alloc(c, &req, &none), M3_ENOPEER);
	req.stripes = 33;
	refused(m3_alloc(c, &req, &none), M3_EINVAL);
	req.stripes = 2;
	req.bytes = UINT64_MAX;
	refused(m3_alloc(c, &req, &none), M3_EINVAL);
	req.bytes = 400 * MiB; /* 200 on each, and 256 there are */
	req.flags = M3_NO_MAP;
	ok(m3_alloc(c, &req, &none));
	req.bytes = 200 * MiB;
	refused(m3_alloc(c, &req, &other), M3_ENOMEM); /* and nothing is left of the first half */
	ok(m3_release(none));
	ok(m3_release(other));
	ok(m3_release(r));
	cuCtxSetCurrent(NULL);
	cuDevicePrimaryCtxRelease_v2(1);
	m3_disconnect(plain);
	m3_disconnect(c);
	c = world_client(NULL, 0);
	world_until(world_used(c) == 0);
	ok(m3_topology(c, &topo));
	assert_int_equal(topo.devices[0].used + topo.devices[1].used, 0);
	m3_disconnect(c);
}

/* Without peer access: another process, since a driver decides at its start. */
static void devices_that_do_not_reach_each_other_copy_all_the_same(void **state)
{
	(void)state;
	setenv("CRICKET_EMU", WORLD_EMU ",no-peers", 1);
	world_broker_kill();
	world_broker_start();
	assert_int_equal(world_status(world_spawn("apart", "")), 0);
	setenv("CRICKET_EMU", WORLD_EMU, 1);
	world_broker_kill();
	world_broker_start();
}

static void apart(void)
{
	m3_client *c = world_client(NULL, 1);
	m3_alloc_req req = {.bytes = 12 * MiB, .flags = M3_NO_MAP};
	unsigned char last = 0;
	m3_region *r[2], *none;
	m3_topo topo;

	ok(m3_topology(c, &topo));
	assert_int_equal(topo.devices[0].peers | topo.devices[1].peers, 0);
	for (req.device = 0; req.device < 2; req.device++)
		ok(m3_alloc(c, &req, &r[req.device]));
	refused(m3_map(r[0], 1, M3_READ, 0, NULL), M3_ENOPEER);
	ok(m3_map(r[0], 0, M3_READ, 0, NULL));
	refused(m3_set_access(r[0], 3, M3_READ), M3_ENOPEER);
	ok(m3_fill(r[0], 0, 7, 12 * MiB));
	ok(m3_copy(r[1], 1, r[0], 0, 12 * MiB - 1));
	ok(m3_read(r[1], 12 * MiB - 1, &last, 1));
	assert_int_equal(last, 7);
	ok(m3_read(r[1], 0, &last, 1));
	assert_int_equal(last, 0);
	req.policy = M3_PEER_OF;
	req.device = 0;
	refused(m3_alloc(c, &req, &none), M3_ENOPEER);
	req.policy = M3_STRIPED;
	req.stripes = 2;
	refused(m3_alloc(c, &req, &none), M3_ENOPEER);
	m3_disconnect(c);
	m3_release(r[0]);
	m3_release(r[1]);
}

/* --- bytes */

static void bytes_come_and_go_without_cuda(void **state)
{
	m3_client *c = world_client(NULL, 0);
	static char in[150000], out[150000];
	m3_alloc_req req = {.bytes = 2 * MiB, .device = 1, .flags = M3_NO_MAP};
	m3_region *a, *b;

	(void)state;
	for (size_t i = 0; i < sizeof(in); i++)
		in[i] = (char)(i * 7 >> 3);
	ok(world_alloc(c, "a", 2 * MiB, 0, &a));
	ok(m3_alloc(c, &req, &b)); /* of the other device */
	ok(m3_write(a, 17, in, sizeof(in)));
	ok(m3_copy(b, 1 * MiB, a, 17, sizeof(in)));
	ok(m3_read(b, 1 * MiB, out, sizeof(out)));
	assert_memory_equal(in, out, sizeof(in));
	ok(m3_fill(b, 1 * MiB, 0xee, 3));
	ok(m3_read(b, 1 * MiB, out, 4));
	assert_memory_equal(out, "\xee\xee\xee", 3);
	assert_int_equal(out[3], in[3]);
	refused(m3_read(a, 2 * MiB, out, 1), M3_EINVAL);
	refused(m3_write(a, UINT64_MAX, in, 2), M3_EINVAL);
	refused(m3_copy(b, 2 * MiB - 1, a, 0, 2), M3_EINVAL);
	m3_disconnect(c);
	m3_release(a);
	m3_release(b);
}

static void apart_test(void **state)
{
	(void)state;
	apart();
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(regions_are_placed_where_it_was_asked_for),
		cmocka_unit_test(two_devices_use_one_region_at_one_address),
		cmocka_unit_test(bytes_go_by_the_broker_where_the_mapping_is_not_for_it),
		cmocka_unit_test(a_striped_region_is_one_stretch_of_memory_of_both),
		cmocka_unit_test(devices_that_do_not_reach_each_other_copy_all_the_same),
		cmocka_unit_test(bytes_come_and_go_without_cuda),
	};
	const struct CMUnitTest role[] = {cmocka_unit_test(apart_test)};

	if (argc > 2 && strcmp(argv[1], "--role") == 0)
		return cmocka_run_group_tests_name("apart", role, NULL, NULL);
	return cmocka_run_group_tests(tests, world_setup, world_teardown);
}
