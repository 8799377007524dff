/*
 * tests/unit/test_client_nccl.c - NCCL's calls as messages: what is checked here, what is one-way,
 * what waits.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "client/nccl/nccl.h"
#include "tests/unit/client_peer.h"

/* What the server answers to a wait, and for how many waits the outcome is not there. */
static struct {
	int result, waits;
	uint64_t values[4];
	unsigned int count;
} server;

static CUresult answer(const struct peer_message *m, void *res, struct peer_payload *payload)
{
	static char id[NCCL_UNIQUE_ID_BYTES] = "an id";
	ck_nccl_wait_res *wait = res;

	(void)payload;
	switch (m->number) {
	case CK_PROC_nccl_open:
		((ck_nccl_open_res *)res)->code = 22809;
		break;
	case CK_PROC_nccl_unique_id:
		((ck_nccl_unique_id_res *)res)->id.id_val = id;
		((ck_nccl_unique_id_res *)res)->id.id_len = sizeof(id);
		break;
	case CK_PROC_nccl_wait:
		wait->done = server.waits-- <= 0;
		wait->result = server.result;
		wait->values.values_val = (char *)server.values;
		wait->values.values_len = server.count * 8;
		wait->reason.reason_val = (char *)"said the server";
		wait->reason.reason_len = server.result ? 15 : 0;
		break;
	}
	return CUDA_SUCCESS;
}

static int begin(void **state)
{
	peer.call = answer;
	return peer_begin(state);
}

static int each(void **state)
{
	(void)state;
	memset(&server, 0, sizeof(server));
	peer_clear();
	return 0;
}

/* The first operation of message @m. */
static const struct ck_nccl_op *first_of(const void *args, bool start)
{
	const char *bytes = start ? ((const ck_nccl_start_args *)args)->batch.batch_val
				  : ((const ck_nccl_run_args *)args)->batch.batch_val;

	return (const struct ck_nccl_op *)(bytes + sizeof(struct ck_nccl_batch));
}

static ncclComm_t make(int ranks)
{
	ncclComm_t comm;
	ncclUniqueId id;

	assert_int_equal(ckc_ncclGetUniqueId(&id), ncclSuccess);
	assert_int_equal(ckc_ncclCommInitRank(&comm, ranks, id, 0), ncclSuccess);
	assert_non_null(comm);
	return comm;
}

static void destroy(ncclComm_t comm)
{
	assert_int_equal(ckc_ncclCommDestroy(comm), ncclSuccess);
}

static ncclResult_t sum(ncclComm_t comm, size_t count)
{
	return ckc_ncclAllReduce((void *)0x1000, (void *)0x2000, count, ncclFloat32, ncclSum, comm,
				 NULL);
}

static void the_making_of_a_communicator_is_waited_for(void **state)
{
	const struct ck_nccl_op *op;
	ncclComm_t comm;
	int number;

	(void)state;
	server.waits = 2;
	comm = make(4);
	assert_int_equal(peer_count(CK_PROC_nccl_start), 1);
	assert_int_equal(peer_count(CK_PROC_nccl_wait), 3);
	op = first_of(peer_args(CK_PROC_nccl_start, 0), true);
	assert_int_equal(op->what, CK_NCCL_INIT);
	assert_int_equal(op->count, 4);
	assert_int_equal(op->context, (uintptr_t)ckc_context_current()->object.id);
	assert_memory_equal((const char *)(op + 1) + sizeof(struct ck_nccl_init), "an id", 5);
	assert_int_equal(ckc_ncclCommCount(comm, &number), ncclSuccess);
	assert_int_equal(number, 4);
	assert_int_equal(ckc_ncclCommUserRank(comm, &number), ncclSuccess);
	assert_int_equal(number, 0);
	assert_int_equal(peer_count(CK_PROC_nccl_ask), 0);
	destroy(comm);
	assert_int_equal(ckc_ncclCommCount(comm, &number), ncclInvalidArgument);
}

static void one_that_fails_has_no_handle(void **state)
{
	ncclComm_t comm = (void *)1;
	ncclUniqueId id = {{0}};

	(void)state;
	server.result = ncclRemoteError;
	assert_int_equal(ckc_ncclCommInitRank(&comm, 2, id, 1), ncclRemoteError);
	assert_null(comm);
	assert_string_equal(ckc_ncclGetLastError(NULL), "said the server");
}

static void operations_are_one_way_from_the_second_of_a_size_on(void **state)
{
	ncclComm_t comm = make(2);
	const struct ck_nccl_op *op;

	(void)state;
	peer_clear();
	for (int i = 0; i < 10; i++)
		assert_int_equal(sum(comm, 100 + (size_t)i), ncclSuccess);
	assert_int_equal(peer_count(CK_PROC_nccl_start), 1);
	assert_int_equal(peer_count(CK_PROC_nccl_wait), 1);
	assert_int_equal(peer_count(CK_PROC_nccl_run), 9);
	op = first_of(peer_args(CK_PROC_nccl_run, 8), false);
	assert_int_equal(op->what, CK_NCCL_OP_ALLREDUCE);
	assert_int_equal(op->count, 109);
	assert_int_equal(op->send, 0x1000);
	assert_int_equal(op->recv, 0x2000);
	assert_int_equal(sum(comm, 1 << 20), ncclSuccess); /* another size */
	assert_int_equal(peer_count(CK_PROC_nccl_start), 2);
	destroy(comm);
}

static void a_peer_is_new_once(void **state)
{
	ncclComm_t comm = make(3);

	(void)state;
	peer_clear();
	for (int i = 0; i < 3; i++) {
		assert_int_equal(ckc_ncclSend((void *)0x1000, 1, ncclInt8, 1, comm, NULL),
				 ncclSuccess);
		assert_int_equal(ckc_ncclRecv((void *)0x1000, 1, ncclInt8, 2, comm, NULL),
				 ncclSuccess);
	}
	assert_int_equal(peer_count(CK_PROC_nccl_start), 2);
	assert_int_equal(peer_count(CK_PROC_nccl_run), 4);
	destroy(comm);
}

static void a_group_is_one_message(void **state)
{
	ncclComm_t comm = make(2);
	const ck_nccl_run_args *args;
	struct ck_nccl_batch head;

	(void)state;
	sum(comm, 1);
	peer_clear();
	ckc_ncclGroupStart();
	ckc_ncclGroupStart();
	for (int i = 0; i < 5; i++)
		assert_int_equal(sum(comm, 1), ncclSuccess);
	assert_int_equal(ckc_ncclGroupEnd(), ncclSuccess);
	assert_int_equal(peer_count(CK_PROC_nccl_run), 0);
	assert_int_equal(ckc_ncclGroupEnd(), ncclSuccess);
	assert_int_equal(peer_count(CK_PROC_nccl_run), 1);
	args = peer_args(CK_PROC_nccl_run, 0);
	memcpy(&head, args->batch.batch_val, sizeof(head));
	assert_int_equal(head.count, 5);
	assert_int_equal(head.grouped, CK_NCCL_GROUPED);
	destroy(comm);
}

static void an_error_in_a_group_is_the_groups(void **state)
{
	ncclComm_t comm = make(2);

	(void)state;
	peer_clear();
	ckc_ncclGroupStart();
	assert_int_equal(sum(comm, 1), ncclSuccess);
	assert_int_equal(ckc_ncclBroadcast(NULL, NULL, 1, ncclInt8, 2, comm, NULL),
			 ncclInvalidArgument);
	assert_int_equal(sum(comm, 1), ncclSuccess);
	assert_int_equal(ckc_ncclGroupEnd(), ncclInvalidArgument);
	assert_int_equal(peer_count(CK_PROC_nccl_run) + peer_count(CK_PROC_nccl_start), 0);
	assert_int_equal(ckc_ncclGroupEnd(), ncclInvalidUsage);
	destroy(comm);
}

static void a_group_is_no_larger_than_a_message(void **state)
{
	ncclComm_t comm = make(2);

	(void)state;
	sum(comm, 1);
	for (int count = 13000; count <= 15000; count += 2000) {
		ncclResult_t last = ncclSuccess;

		peer_clear();
		ckc_ncclGroupStart();
		for (int i = 0; i < count && !last; i++)
			last = sum(comm, 1);
		assert_int_equal(last, count == 13000 ? ncclSuccess : ncclSystemError);
		assert_int_equal(ckc_ncclGroupEnd(), last);
		assert_int_equal(peer_count(CK_PROC_nccl_run), count == 13000);
	}
	destroy(comm);
}

static void any_value_is_no_handle(void **state)
{
	struct ckc_nccl_comm *table = ckc_client_current()->nccl->comms;
	ncclComm_t wrong[] = {NULL,
			      (void *)1,
			      (void *)&table,
			      (void *)((char *)&table[1] + 8),
			      (void *)&table[2],
			      (void *)&table[CK_NCCL_COMMS]};
	ncclResult_t async;

	(void)state;
	for (size_t i = 0; i < CK_ARRAY_SIZE(wrong); i++) {
		assert_int_equal(sum(wrong[i], 1), ncclInvalidArgument);
		assert_int_equal(ckc_ncclCommGetAsyncError(wrong[i], &async), ncclInvalidArgument);
	}
	assert_int_equal(ckc_ncclCommDestroy(wrong[1]), ncclInvalidArgument);
	assert_int_equal(ckc_ncclCommAbort(NULL), ncclSuccess);
	assert_int_equal(peer_count(CK_PROC_nccl_run), 0);
}

static void a_configuration_travels_with_its_names(void **state)
{
	struct {
		ncclConfig_t known;
		int later; /* a field of a newer release */
		int padding;
	} config = {.known = {.size = sizeof(config),
			      .magic = NCCL_CONFIG_MAGIC,
			      .blocking = 1,
			      .netName = "Socket"},
		    .later = 77};
	const struct ck_nccl_op *op;
	struct ck_nccl_init head;
	ncclUniqueId id = {{0}};
	const char *bytes;
	ncclComm_t comm;

	(void)state;
	assert_int_equal(ckc_ncclCommInitRankConfig(&comm, 1, id, 0, &config.known), ncclSuccess);
	op = first_of(peer_args(CK_PROC_nccl_start, 0), true);
	bytes = (const char *)(op + 1);
	memcpy(&head, bytes, sizeof(head));
	assert_int_equal(head.config, sizeof(config));
	assert_int_equal(head.net_name, sizeof("Socket"));
	assert_int_equal(head.comm_name, 0);
	bytes += sizeof(head) + sizeof(id);
	assert_memory_equal(bytes + sizeof(config.known), &config.later, sizeof(config.later));
	assert_string_equal(bytes + sizeof(config), "Socket");
	destroy(comm);
	config.known.magic = 0;
	assert_int_equal(ckc_ncclCommInitRankConfig(&comm, 1, id, 0, &config.known),
			 ncclInvalidArgument);
	config.known.magic = NCCL_CONFIG_MAGIC;
	config.known.size = CK_NCCL_CONFIG_MAX + 8;
	assert_int_equal(ckc_ncclCommInitRankConfig(&comm, 1, id, 0, &config.known),
			 ncclInvalidArgument);
}

static void an_outcome_that_is_asked_for_later(void **state)
{
	ncclConfig_t config = {.size = sizeof(config), .magic = NCCL_CONFIG_MAGIC, .blocking = 0};
	ncclUniqueId id = {{0}};
	ncclResult_t async;
	ncclComm_t comm;
	int count;

	(void)state;
	server.waits = 2;
	assert_int_equal(ckc_ncclCommInitRankConfig(&comm, 2, id, 0, &config), ncclInProgress);
	assert_int_equal(peer_count(CK_PROC_nccl_wait), 0);
	assert_int_equal(ckc_ncclCommGetAsyncError(comm, &async), ncclSuccess);
	assert_int_equal(async, ncclInProgress);
	assert_int_equal(ckc_ncclCommCount(comm, &count), ncclInvalidArgument); /* not ready */
	assert_int_equal(ckc_ncclCommGetAsyncError(comm, &async), ncclSuccess);
	assert_int_equal(async, ncclSuccess);
	assert_int_equal(ckc_ncclCommCount(comm, &count), ncclSuccess);
	server.result = ncclSystemError;
	assert_int_equal(sum(comm, 1), ncclInProgress);
	ckc_ncclCommGetAsyncError(comm, &async);
	assert_int_equal(async, ncclSystemError);
	assert_int_equal(sum(comm, 1), ncclSystemError);
	server.result = ncclSuccess;
	assert_int_equal(ckc_ncclCommAbort(comm), ncclSuccess);
	assert_int_equal(peer_count(CK_PROC_nccl_urge), 1);
}

static void operators_need_no_reply(void **state)
{
	ncclComm_t comm = make(2);
	ncclRedOp_t op, other;
	float half = 0.5f;
	uint64_t scalar = 0;

	(void)state;
	peer_clear();
	assert_int_equal(ckc_ncclRedOpCreatePreMulSum(&op, &half, ncclFloat32,
						      ncclScalarHostImmediate, comm),
			 ncclSuccess);
	assert_int_equal(ckc_ncclRedOpCreatePreMulSum(&other, (void *)0x77000, ncclFloat64,
						      ncclScalarDevice, comm),
			 ncclSuccess);
	assert_true(op >= ncclNumOps && other >= ncclNumOps && op != other);
	assert_int_equal(peer_count(CK_PROC_nccl_run), 2);
	assert_int_equal(peer_count(CK_PROC_nccl_wait), 0);
	memcpy(&scalar, &half, sizeof(half));
	assert_int_equal(first_of(peer_args(CK_PROC_nccl_run, 0), false)->send, scalar);
	assert_int_equal(first_of(peer_args(CK_PROC_nccl_run, 1), false)->send, 0x77000);
	assert_int_equal(ckc_ncclRedOpDestroy(op, comm), ncclSuccess);
	assert_int_equal(ckc_ncclRedOpDestroy(op, comm), ncclInvalidArgument);
	assert_int_equal(ckc_ncclRedOpDestroy(ncclSum, comm), ncclInvalidArgument);
	assert_int_equal(ckc_ncclAllReduce(NULL, NULL, 1, ncclFloat32, op, comm, NULL),
			 ncclInvalidArgument);
	destroy(comm);
}

static void a_registered_buffer_has_the_servers_value(void **state)
{
	ncclComm_t comm = make(2);
	void *handle;

	(void)state;
	server.values[0] = 0x123;
	server.count = 1;
	assert_int_equal(ckc_ncclCommRegister(comm, (void *)0x1000, 4096, &handle), ncclSuccess);
	assert_ptr_equal(handle, (void *)0x123);
	sum(comm, 1);
	peer_clear();
	sum(comm, 1); /* the ranks exchange it */
	assert_int_equal(peer_count(CK_PROC_nccl_start), 1);
	assert_int_equal(ckc_ncclCommDeregister(comm, handle), ncclSuccess);
	peer_clear();
	sum(comm, 1);
	assert_int_equal(peer_count(CK_PROC_nccl_start), 0);
	assert_int_equal(ckc_ncclCommRegister(comm, NULL, 4096, &handle), ncclInvalidArgument);
	destroy(comm);
}

#define test(name) cmocka_unit_test_setup(name, each)

int main(void)
{
	const struct CMUnitTest tests[] = {
		test(the_making_of_a_communicator_is_waited_for),
		test(one_that_fails_has_no_handle),
		test(operations_are_one_way_from_the_second_of_a_size_on),
		test(a_peer_is_new_once),
		test(a_group_is_one_message),
		test(an_error_in_a_group_is_the_groups),
		test(a_group_is_no_larger_than_a_message),
		test(any_value_is_no_handle),
		test(a_configuration_travels_with_its_names),
		test(an_outcome_that_is_asked_for_later),
		test(operators_need_no_reply),
		test(a_registered_buffer_has_the_servers_value),
	};

	return cmocka_run_group_tests(tests, begin, peer_end);
}
