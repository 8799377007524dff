/*
 * tests/unit/test_server_lease_share.c - leased memory of another session is opened and closed, on
 * the emulated GPU. The broker is a thread that has one unit of memory for any ticket.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "m3/message.h"
#include "server/memory/lease.h"
#include "server/memory/share.h"
#include "server/session/driver.h"
#include "server/session/session.h"

static struct cks_session *session;
static struct sockaddr_un address = {.sun_family = AF_UNIX};
static CUresult (*query_in_driver)(CUstream);
static _Atomic bool waits, allocated;
static int listener, unit = -1;

static void ok(CUresult err)
{
	assert_int_equal(err, CUDA_SUCCESS);
}

static void *serve(void *unused)
{
	int sock = accept(listener, NULL, NULL), fd;
	struct ck_m3_question q;

	while (ck_m3_receive(sock, &q, sizeof(q), &fd, 0) > 0) {
		const struct ck_m3_reply reply = {
			.magic = CK_M3_MAGIC, .version = CK_M3_VERSION, .op = q.head.op};

		ck_m3_send(sock, &reply, sizeof(reply), NULL, 0,
			   q.head.op == CK_M3_CLAIM ? unit : -1, 0);
	}
	close(sock);
	return unused;
}

static void start_broker(void)
{
	pthread_t thread;

	snprintf(address.sun_path, sizeof(address.sun_path), "/tmp/lease-share-%d", (int)getpid());
	listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(listener, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(pthread_create(&thread, NULL, serve, NULL), 0);
	pthread_detach(thread);
	cks_broker_link(address.sun_path, -1, getuid());
}

/* Another thread of the program allocates, which needs the leases, and only then the work ends. */
static void *allocate(void *unused)
{
	ck_lock(&session->leases->lock);
	allocated = true;
	ck_unlock(&session->leases->lock);
	return unused;
}

static CUresult query_work(CUstream stream)
{
	pthread_t thread;

	if (!waits) {
		waits = true;
		assert_int_equal(pthread_create(&thread, NULL, allocate, NULL), 0);
		pthread_detach(thread);
	}
	return allocated ? query_in_driver(stream) : CUDA_ERROR_NOT_READY;
}

static int begin(void **state)
{
	const CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
					  .requestedHandleTypes =
						  CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
					  .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
	CUmemGenericAllocationHandle memory;
	CUcontext context;
	char why[256];

	(void)state;
	assert_int_equal(cks_driver_open(CK_TEST_PRODUCTS "/libcuda-emu.so", why, sizeof(why)), 0);
	ok(ck_driver.cuInit(0));
	ok(ck_driver.cuDevicePrimaryCtxRetain(&context, 0));
	ok(ck_driver.cuCtxSetCurrent(context));
	ok(ck_driver.cuMemCreate(&memory, CK_LEASE_CHUNK, &prop, 0));
	ok(ck_driver.cuMemExportToShareableHandle(&unit, memory,
						  CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	query_in_driver = ck_driver.cuStreamQuery;
	ck_driver.cuStreamQuery = query_work;
	start_broker();
	return cks_session_create(NULL, NULL, 1, &session);
}

static int end(void **state)
{
	(void)state;
	cks_session_destroy(session);
	return unlink(address.sun_path);
}

static void the_last_close_waits_without_the_lock(void **state)
{
	const struct { /* a list of one unit, as server/memory/lease_share.c writes it */
		struct cks_ticket ticket;
		uint64_t size, skip;
	} list = {{.number = 1}, CK_LEASE_CHUNK, 512};
	const struct cks_ticket ticket = {.number = 2};
	struct cks_request q = {.session = session, .ctx = 1};
	int fd = memfd_create("list", MFD_CLOEXEC);
	CUdeviceptr at, again;

	(void)state;
	assert_int_equal(write(fd, &list, sizeof(list)), sizeof(list));
	ok(cks_lease_open(&q, &ticket, fd, 1024, &at));
	ok(cks_lease_open(&q, &ticket, fd, 1024, &again));
	close(fd);
	assert_int_equal(again, at);
	ok(ck_driver.cuMemsetD8_v2(at, 1, 1024));
	assert_true(cks_lease_close(&q, at));
	assert_false(waits);
	assert_true(cks_lease_close(&q, at));
	assert_true(waits && allocated);
	assert_int_not_equal(ck_driver.cuMemsetD8_v2(at, 1, 1024), CUDA_SUCCESS);
	assert_false(cks_lease_close(&q, at));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_last_close_waits_without_the_lock),
	};

	return cmocka_run_group_tests(tests, begin, end);
}
