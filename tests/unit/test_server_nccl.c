/*
 * tests/unit/test_server_nccl.c - communicators and batches of a session, on a library of a few
 * functions.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "server/nccl/nccl.h"
#include "tests/unit/server_fake.h"
#include "tests/unit/server_session.h"
#include "util/util.h"

#define CONTEXT 7

/* --- a library: a communicator is a number, and operations are noted */

static struct {
	int groups, ends, sums, aborted, destroyed, polls;
	ncclRedOp_t op;
	ncclResult_t result, state;
	char name[64];
	atomic_bool hold; /* the making of a communicator waits */
} lib;

static ncclResult_t lib_group_start(void)
{
	lib.groups++;
	return ncclSuccess;
}

static ncclResult_t lib_group_end(void)
{
	lib.ends++;
	return ncclSuccess;
}

static ncclResult_t lib_init(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank,
			     ncclConfig_t *config)
{
	assert_int_equal(ranks, 2);
	assert_int_equal(rank, 1);
	assert_int_equal(id.internal[127], 'z');
	while (atomic_load(&lib.hold))
		usleep(1000);
	if (config && config->commName)
		strcpy(lib.name, config->commName);
	*comm = lib.result ? NULL : (ncclComm_t)(uintptr_t)0x1000;
	return config && config->blocking == 0 ? ncclInProgress : lib.result;
}

static ncclResult_t lib_sum(const void *send, void *recv, size_t count, ncclDataType_t type,
			    ncclRedOp_t op, ncclComm_t comm, CUstream stream)
{
	assert_ptr_equal(send, (void *)1);
	assert_ptr_equal(recv, (void *)2);
	assert_int_equal(count, 3);
	assert_int_equal(type, ncclFloat32);
	assert_ptr_equal(comm, (void *)0x1000);
	assert_null(stream);
	lib.sums++;
	lib.op = op;
	return lib.result;
}

static ncclResult_t lib_premul(ncclRedOp_t *op, void *scalar, ncclDataType_t type,
			       ncclScalarResidence_t residence, ncclComm_t comm)
{
	float value;

	(void)comm;
	memcpy(&value, scalar, sizeof(value));
	assert_true(value == 0.5f && type == ncclFloat32 && residence == ncclScalarHostImmediate);
	*op = 99;
	return ncclSuccess;
}

static ncclResult_t lib_redop_end(ncclRedOp_t op, ncclComm_t comm)
{
	(void)comm;
	return op == 99 ? ncclSuccess : ncclInvalidArgument;
}

static ncclResult_t lib_register(const ncclComm_t comm, void *at, size_t size, void **handle)
{
	(void)comm, (void)size;
	*handle = at;
	return ncclSuccess;
}

static ncclResult_t lib_deregister(const ncclComm_t comm, void *handle)
{
	(void)comm;
	return handle == (void *)0xabc000 ? ncclSuccess : ncclInvalidArgument;
}

static ncclResult_t lib_state(ncclComm_t comm, ncclResult_t *state)
{
	(void)comm;
	*state = lib.polls > 0 && lib.polls-- > 0 ? ncclInProgress : lib.state;
	return ncclSuccess;
}

static ncclResult_t lib_abort(ncclComm_t comm)
{
	assert_ptr_equal(comm, (void *)0x1000);
	lib.aborted++;
	return ncclSuccess;
}

static ncclResult_t lib_destroy(ncclComm_t comm)
{
	(void)comm;
	lib.destroyed++;
	return ncclSuccess;
}

static const char *lib_last_error(ncclComm_t comm)
{
	(void)comm;
	return "what NCCL says";
}

static CUresult current(CUcontext *context)
{
	*context = fake_current;
	return CUDA_SUCCESS;
}

static struct cks_session *session;

static int begin(void **state)
{
	(void)state;
	memset(&lib, 0, sizeof(lib));
	fake_install();
	ck_driver.cuCtxGetCurrent = current;
	cks_nccl = (struct cks_nccl_library){.ncclGroupStart = lib_group_start,
					     .ncclGroupEnd = lib_group_end,
					     .ncclCommInitRankConfig = lib_init,
					     .ncclAllReduce = lib_sum,
					     .ncclRedOpCreatePreMulSum = lib_premul,
					     .ncclRedOpDestroy = lib_redop_end,
					     .ncclCommRegister = lib_register,
					     .ncclCommDeregister = lib_deregister,
					     .ncclCommGetAsyncError = lib_state,
					     .ncclCommAbort = lib_abort,
					     .ncclCommDestroy = lib_destroy,
					     .ncclGetLastError = lib_last_error};
	session = session_without_client();
	assert_int_equal(
		cks_handles_put(session->handles, CONTEXT, CK_KIND_CONTEXT, 0, (void *)0x77), 0);
	return 0;
}

static int end(void **state)
{
	(void)state;
	cks_session_destroy(session);
	return 0;
}

/* --- batches */

static struct {
	_Alignas(8) unsigned char bytes[16384];
	size_t size;
} batch;

static struct ck_nccl_batch *start_batch(bool grouped)
{
	struct ck_nccl_batch *head = (struct ck_nccl_batch *)batch.bytes;

	memset(&batch, 0, sizeof(batch));
	batch.size = sizeof(*head);
	head->grouped = grouped;
	return head;
}

static struct ck_nccl_op *add(struct ck_nccl_op op, const void *extra, size_t size)
{
	struct ck_nccl_op *at = (struct ck_nccl_op *)(batch.bytes + batch.size);

	op.context = CONTEXT;
	op.size = (uint32_t)CK_ALIGN_UP(sizeof(op) + size, (size_t)8);
	*at = op;
	if (size)
		memcpy(at + 1, extra, size);
	batch.size += op.size;
	((struct ck_nccl_batch *)batch.bytes)->count++;
	return at;
}

struct making {
	struct ck_nccl_init head;
	ncclUniqueId id;
	ncclConfig_t config;
	char name[8];
};

static struct making making(int blocking)
{
	struct making m = {.head = {.items = 1, .config = sizeof(ncclConfig_t), .comm_name = 5},
			   .config = {.size = sizeof(ncclConfig_t),
				      .magic = NCCL_CONFIG_MAGIC,
				      .blocking = blocking,
				      .netName = (char *)0xbad,
				      .commName = (char *)0xbad},
			   .name = "four"};

	m.id.internal[127] = 'z';
	return m;
}

static ncclResult_t replay(struct cks_nccl_outcome *out)
{
	struct cks_nccl_outcome own;

	out = out ? out : &own;
	assert_true(cks_nccl_batch_check(batch.bytes, batch.size));
	cks_nccl_replay(session, batch.bytes, out);
	if (out == &own)
		free(own.values);
	return out->result;
}

static void add_making(unsigned int number, int blocking)
{
	struct making m = making(blocking);

	add((struct ck_nccl_op){.what = CK_NCCL_INIT, .newcomm = number, .count = 2, .root = 1}, &m,
	    sizeof(m.head) + sizeof(m.id) + sizeof(m.config) + 5);
}

static ncclResult_t make(unsigned int number, int blocking)
{
	start_batch(false);
	add_making(number, blocking);
	return replay(NULL);
}

static const struct ck_nccl_op sum = {.what = CK_NCCL_OP_ALLREDUCE,
				      .comm = 1,
				      .send = 1,
				      .recv = 2,
				      .count = 3,
				      .type = ncclFloat32};

static void a_communicator_is_made_with_its_configuration(void **state)
{
	(void)state;
	assert_int_equal(make(1, 1), ncclSuccess);
	assert_string_equal(lib.name, "four");
	assert_true(cks_nccl_any(session->nccl));
	assert_int_equal(make(1, 1), ncclInvalidArgument); /* the number is taken */
	start_batch(false);
	add(sum, NULL, 0);
	assert_int_equal(replay(NULL), ncclSuccess);
	assert_int_equal(lib.sums, 1);
	assert_int_equal(lib.groups, 0);
	start_batch(false);
	add((struct ck_nccl_op){.what = CK_NCCL_DESTROY, .comm = 1}, NULL, 0);
	assert_int_equal(replay(NULL), ncclSuccess);
	assert_int_equal(lib.destroyed, 1);
	assert_false(cks_nccl_any(session->nccl));
}

static void a_communicator_that_cannot_be_made_leaves_nothing(void **state)
{
	struct cks_nccl_outcome out;

	(void)state;
	lib.result = ncclSystemError;
	start_batch(false);
	add_making(1, 1);
	assert_int_equal(replay(&out), ncclSystemError);
	assert_string_equal(out.text, "what NCCL says");
	assert_false(cks_nccl_any(session->nccl));
	lib.result = ncclSuccess;
	assert_int_equal(make(1, 1), ncclSuccess);
}

static void a_group_is_replayed_as_one(void **state)
{
	(void)state;
	make(1, 1);
	start_batch(true);
	for (int i = 0; i < 10; i++)
		add(sum, NULL, 0);
	assert_int_equal(replay(NULL), ncclSuccess);
	assert_int_equal(lib.sums, 10);
	assert_int_equal(lib.groups, 1);
	assert_int_equal(lib.ends, 1);
	lib.result = ncclInternalError; /* the group ends all the same */
	assert_int_equal(replay(NULL), ncclInternalError);
	assert_int_equal(lib.ends, 2);
}

static void an_operation_on_what_there_is_not_is_refused(void **state)
{
	(void)state;
	start_batch(false);
	add(sum, NULL, 0);
	assert_int_equal(replay(NULL), ncclInvalidArgument);
	make(1, 1);
	start_batch(false);
	add(sum, NULL, 0)->stream = 12345;
	assert_int_equal(replay(NULL), ncclInvalidArgument);
	start_batch(false);
	add(sum, NULL, 0)->op = 55;
	assert_int_equal(replay(NULL), ncclInvalidArgument);
	start_batch(false);
	add(sum, NULL, 0)->context = 8;
	assert_int_equal(replay(NULL), ncclUnhandledCudaError);
	assert_int_equal(lib.sums, 0);
}

static void operators_have_the_clients_numbers(void **state)
{
	const float half = 0.5f;
	struct ck_nccl_op op = {.what = CK_NCCL_PREMUL,
				.comm = 1,
				.op = 1000,
				.type = ncclFloat32,
				.root = ncclScalarHostImmediate};

	(void)state;
	make(1, 1);
	memcpy(&op.send, &half, sizeof(half));
	start_batch(false);
	add(op, NULL, 0);
	add(sum, NULL, 0)->op = 1000;
	add((struct ck_nccl_op){.what = CK_NCCL_REDOP_END, .comm = 1, .op = 1000}, NULL, 0);
	assert_int_equal(replay(NULL), ncclSuccess);
	assert_int_equal(lib.op, 99);
	start_batch(false);
	add((struct ck_nccl_op){.what = CK_NCCL_REDOP_END, .comm = 1, .op = 1000}, NULL, 0);
	assert_int_equal(replay(NULL), ncclInvalidArgument);
	start_batch(false);
	op.op = ncclNumOps + CK_NCCL_REDOPS;
	add(op, NULL, 0);
	assert_int_equal(replay(NULL), ncclInvalidArgument);
}

static void a_handle_of_the_library_does_not_leave_the_server(void **state)
{
	struct cks_nccl_outcome out;

	(void)state;
	make(1, 1);
	start_batch(false);
	add(
		(struct ck_nccl_op){
			.what = CK_NCCL_REGISTER, .comm = 1, .send = 0xabc000, .count = 4096},
		NULL, 0);
	assert_int_equal(replay(&out), ncclSuccess);
	assert_int_equal(out.count, 1);
	assert_in_range(out.values[0], 1, CK_NCCL_BUFFERS);
	start_batch(false);
	add((struct ck_nccl_op){.what = CK_NCCL_DEREGISTER, .comm = 1, .send = 0xabc000}, NULL, 0);
	assert_int_equal(replay(NULL), ncclInvalidArgument);
	start_batch(false);
	add((struct ck_nccl_op){.what = CK_NCCL_DEREGISTER, .comm = 1, .send = out.values[0]}, NULL,
	    0);
	assert_int_equal(replay(NULL), ncclSuccess);
	assert_int_equal(replay(NULL), ncclInvalidArgument);
	free(out.values);
}

static void one_that_does_not_block_is_waited_for(void **state)
{
	(void)state;
	lib.polls = 3;
	assert_int_equal(make(1, 0), ncclSuccess);
	assert_int_equal(lib.polls, 0);
	lib.polls = 0;
	lib.state = ncclRemoteError;
	assert_int_equal(make(2, 0), ncclRemoteError);
	/* it stays, for the program to abort it */
	start_batch(false);
	add((struct ck_nccl_op){.what = CK_NCCL_ABORT, .comm = 2}, NULL, 0);
	assert_int_equal(replay(NULL), ncclSuccess);
	assert_int_equal(lib.aborted, 1);
}

static void a_context_ends_with_its_communicators(void **state)
{
	(void)state;
	make(1, 1);
	cks_nccl_drop_context(session, CONTEXT + 1);
	assert_true(cks_nccl_any(session->nccl));
	cks_nccl_drop_context(session, CONTEXT);
	assert_false(cks_nccl_any(session->nccl));
	assert_int_equal(lib.aborted, 1);
}

/* --- jobs */

static void a_job_waits_in_a_thread_of_its_own(void **state)
{
	struct cks_nccl_outcome out;

	(void)state;
	atomic_store(&lib.hold, true);
	start_batch(false);
	add_making(1, 1);
	cks_nccl_job_start(session, 5, batch.bytes, batch.size);
	assert_false(cks_nccl_job_wait(session->nccl, 5, 20, &out));
	assert_false(cks_nccl_job_wait(session->nccl, 6, 0, &out));
	assert_true(cks_nccl_any(session->nccl));
	atomic_store(&lib.hold, false);
	assert_true(cks_nccl_job_wait(session->nccl, 5, 10000, &out));
	assert_int_equal(out.result, ncclSuccess);
	free(out.values);
	assert_false(cks_nccl_job_wait(session->nccl, 5, 0, &out)); /* once */
}

/* NCCL bears one thread that operates on a communicator, and so do its tables; a client may send
 * anything. */
static void two_batches_do_not_share_a_communicator(void **state)
{
	struct cks_nccl_comm *c;

	(void)state;
	make(1, 1);
	make(2, 1);
	c = cks_nccl_comm_get(session->nccl, 1);
	assert_true(cks_nccl_comm_claim(session->nccl, c, &lib)); /* another thread's */
	start_batch(true);
	add(sum, NULL, 0)->comm = 2;
	add(sum, NULL, 0);
	assert_int_equal(replay(NULL), ncclInvalidUsage);
	start_batch(false);
	add((struct ck_nccl_op){.what = CK_NCCL_DESTROY, .comm = 1}, NULL, 0);
	assert_int_equal(replay(NULL), ncclInvalidUsage);
	assert_int_equal(lib.sums + lib.groups + lib.destroyed, 0);
	start_batch(false);
	add(sum, NULL, 0)->comm = 2; /* which is free again */
	assert_int_equal(replay(NULL), ncclSuccess);
	cks_nccl_comm_give_back(session->nccl, c, &lib);
	start_batch(false);
	add(sum, NULL, 0);
	assert_int_equal(replay(NULL), ncclSuccess);
	assert_true(cks_nccl_comm_claim(session->nccl, c, &lib));
	start_batch(false);
	add((struct ck_nccl_op){.what = CK_NCCL_ABORT, .comm = 1}, NULL, 0);
	assert_int_equal(replay(NULL), ncclSuccess);
	assert_int_equal(lib.aborted, 1);
	cks_nccl_comm_put(session->nccl, c);
}

/* NCCL cannot stop it; the number is free, and what is made later is aborted. */
static void a_communicator_that_is_no_longer_wanted_is_aborted(void **state)
{
	struct cks_nccl_outcome out;

	(void)state;
	atomic_store(&lib.hold, true);
	start_batch(false);
	add_making(1, 1);
	cks_nccl_job_start(session, 1, batch.bytes, batch.size);
	start_batch(false);
	add((struct ck_nccl_op){.what = CK_NCCL_ABORT, .comm = 1}, NULL, 0);
	cks_nccl_job_start(session, 2, batch.bytes, batch.size);
	assert_true(cks_nccl_job_wait(session->nccl, 2, 10000, &out));
	assert_int_equal(out.result, ncclSuccess);
	assert_int_equal(lib.aborted, 0);
	free(out.values);
	atomic_store(&lib.hold, false);
	assert_true(cks_nccl_job_wait(session->nccl, 1, 10000, &out));
	free(out.values);
	assert_int_equal(lib.aborted, 1);
	assert_false(cks_nccl_any(session->nccl));
}

/* --- bytes from a client */

static void bytes_that_are_no_batch_are_refused(void **state)
{
	struct making m = making(1);
	struct ck_nccl_op *op;

	(void)state;
	start_batch(false);
	assert_false(cks_nccl_batch_check(batch.bytes, 4));
	assert_true(cks_nccl_batch_check(batch.bytes, batch.size));
	add_making(1, 1);
	assert_true(cks_nccl_batch_check(batch.bytes, batch.size));
	for (size_t size = 0; size < batch.size; size++)
		assert_false(cks_nccl_batch_check(batch.bytes, size));
	assert_false(cks_nccl_batch_check(batch.bytes, batch.size + 8));
	op = (struct ck_nccl_op *)(batch.bytes + sizeof(struct ck_nccl_batch));
	op->newcomm = CK_NCCL_COMMS;
	assert_false(cks_nccl_batch_check(batch.bytes, batch.size));
	op->newcomm = 1;
	op->what = 0;
	assert_false(cks_nccl_batch_check(batch.bytes, batch.size));
	op->what = CK_NCCL_REDOP_END + 1;
	assert_false(cks_nccl_batch_check(batch.bytes, batch.size));
	start_batch(false)->grouped = 3;
	assert_false(cks_nccl_batch_check(batch.bytes, batch.size));
	start_batch(false);
	m.name[2] = '\0'; /* a NUL inside of a name */
	add((struct ck_nccl_op){.what = CK_NCCL_INIT, .newcomm = 1}, &m, sizeof(m));
	assert_false(cks_nccl_batch_check(batch.bytes, batch.size));
}

static void a_configuration_that_says_more_than_it_has_is_refused(void **state)
{
	struct making m = making(1);

	(void)state;
	m.config.size = sizeof(m.config) + 8;
	start_batch(false);
	add((struct ck_nccl_op){.what = CK_NCCL_INIT, .newcomm = 1}, &m, sizeof(m));
	assert_false(cks_nccl_batch_check(batch.bytes, batch.size));
	m = making(1);
	m.config.magic = 1;
	start_batch(false);
	add((struct ck_nccl_op){.what = CK_NCCL_INIT, .newcomm = 1}, &m, sizeof(m));
	assert_false(cks_nccl_batch_check(batch.bytes, batch.size));
	m = making(1);
	m.head.items = 1u << 31;
	start_batch(false);
	add((struct ck_nccl_op){.what = CK_NCCL_INIT, .newcomm = 1}, &m, sizeof(m));
	assert_false(cks_nccl_batch_check(batch.bytes, batch.size));
}

#define test(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		test(a_communicator_is_made_with_its_configuration),
		test(a_communicator_that_cannot_be_made_leaves_nothing),
		test(a_group_is_replayed_as_one),
		test(an_operation_on_what_there_is_not_is_refused),
		test(operators_have_the_clients_numbers),
		test(a_handle_of_the_library_does_not_leave_the_server),
		test(one_that_does_not_block_is_waited_for),
		test(a_context_ends_with_its_communicators),
		test(two_batches_do_not_share_a_communicator),
		test(a_job_waits_in_a_thread_of_its_own),
		test(a_communicator_that_is_no_longer_wanted_is_aborted),
		test(bytes_that_are_no_batch_are_refused),
		test(a_configuration_that_says_more_than_it_has_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
