/* tests/nccl/process.c - cases with several ranks in a process, and with ranks that do not come. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "tests/nccl/program.h"

#define COUNT 1000
#define RANKS_MAX 16

/* --- all devices of the process, by one thread */

struct each {
	ncclComm_t comm;
	CUcontext context;
	CUstream stream;
	CUdeviceptr at;
	int rank, ranks;
};

static int devices(void)
{
	int count;

	cu(cuDeviceGetCount(&count));
	want(count > 1 && count <= RANKS_MAX);
	return count;
}

static void prepare(struct each *e, int count)
{
	for (int i = 0; i < count; i++) {
		e[i].rank = i;
		e[i].ranks = count;
		cu(cuDevicePrimaryCtxRetain(&e[i].context, i));
		cu(cuCtxSetCurrent(e[i].context));
		cu(cuStreamCreate(&e[i].stream, CU_STREAM_NON_BLOCKING));
		e[i].at = floats(COUNT, (float)i, 1);
	}
}

static void check(const struct each *e, float times)
{
	cu(cuCtxSetCurrent(e->context));
	cu(cuStreamSynchronize(e->stream));
	expect(e->at, COUNT, (float)(e->ranks * (e->ranks - 1) / 2) * times,
	       (float)e->ranks * times);
}

static void group(struct part *p)
{
	int count = devices(), number;
	struct each e[RANKS_MAX];
	ncclComm_t comms[RANKS_MAX];

	(void)p;
	prepare(e, count);
	nc(ncclCommInitAll(comms, count, NULL));
	for (int i = 0; i < count; i++) {
		nc(ncclCommCuDevice(comms[i], &number));
		want(number == i);
		nc(ncclCommUserRank(comms[i], &number));
		want(number == i);
	}
	for (int round = 0; round < 2; round++) {
		nc(ncclGroupStart());
		for (int i = 0; i < count; i++)
			nc(ncclAllReduce(P(e[i].at), P(e[i].at), COUNT, ncclFloat32,
					 round ? ncclMax : ncclSum, comms[i], e[i].stream));
		nc(ncclGroupEnd());
	}
	for (int i = 0; i < count; i++)
		check(&e[i], 1);
	for (int i = 0; i < count; i++)
		nc(ncclCommDestroy(comms[i]));
}

/* --- a thread for each device, without groups */

static ncclUniqueId shared_id;

static void *drive(void *arg)
{
	struct each *e = arg;

	cu(cuCtxSetCurrent(e->context));
	nc(ncclCommInitRank(&e->comm, e->ranks, shared_id, e->rank));
	nc(ncclAllReduce(P(e->at), P(e->at), COUNT, ncclFloat32, ncclSum, e->comm, e->stream));
	for (int i = 0; i < 20; i++)
		nc(ncclAllReduce(P(e->at), P(e->at), COUNT, ncclFloat32, i % 2 ? ncclMax : ncclMin,
				 e->comm, e->stream));
	check(e, 1);
	nc(ncclCommDestroy(e->comm));
	return NULL;
}

static void threads(struct part *p)
{
	int count = devices();
	struct each e[RANKS_MAX];
	pthread_t t[RANKS_MAX];

	(void)p;
	prepare(e, count);
	nc(ncclGetUniqueId(&shared_id));
	for (int i = 0; i < count; i++)
		want(pthread_create(&t[i], NULL, drive, &e[i]) == 0);
	for (int i = 0; i < count; i++)
		pthread_join(t[i], NULL);
}

/* --- ranks that do not come */

static void *wait_for_rank(void *comm)
{
	ncclUniqueId id;

	nc(ncclGetUniqueId(&id));
	return (void *)(intptr_t)(ncclCommInitRank(comm, 2, id, 0) + 100);
}

/* Other threads of the program go on while one waits, and the wait ends. CRICKET_NCCL_TIMEOUT is
 * short. */
static void absent(struct part *p)
{
	CUdeviceptr at = floats(COUNT, 1, 1);
	ncclComm_t comm;
	pthread_t t;
	void *ret;

	want(pthread_create(&t, NULL, wait_for_rank, &comm) == 0);
	for (int i = 0; i < 100; i++) {
		cu(cuMemsetD32Async(at, 0x40000000, COUNT, p->stream));
		cu(cuStreamSynchronize(p->stream));
		expect(at, COUNT, 2, 0);
	}
	pthread_join(t, &ret);
	want((intptr_t)ret == ncclSystemError + 100 && comm == NULL);
	want(strstr(ncclGetLastError(NULL), "CRICKET_NCCL_TIMEOUT"));
}

/* The program ends one that is being made. */
static void abort_init(struct part *p)
{
	ncclConfig_t config = config_of(0);
	ncclUniqueId id;
	ncclComm_t comm;

	(void)p;
	for (int i = 0; i < 3; i++) {
		ncclResult_t state;

		nc(ncclGetUniqueId(&id));
		want(ncclCommInitRankConfig(&comm, 2, id, 0, &config) == ncclInProgress);
		nc(ncclCommGetAsyncError(comm, &state));
		want(state == ncclInProgress);
		nc(ncclCommAbort(comm));
	}
}

static void *abort_soon(void *comm)
{
	usleep(200000);
	nc(ncclCommAbort(comm));
	return NULL;
}

/* Rank 0's first all-reduce waits for the others, which do not come; another thread ends it. */
static void abort_wait(struct part *p)
{
	CUdeviceptr at = floats(COUNT, 1, 0);
	pthread_t t;

	if (p->rank == 0) {
		want(pthread_create(&t, NULL, abort_soon, p->comm) == 0);
		ncclAllReduce(P(at), P(at), COUNT, ncclFloat32, ncclSum, p->comm, p->stream);
		pthread_join(t, NULL);
		cu(cuStreamSynchronize(p->stream));
	} else {
		ncclResult_t state = ncclSuccess;

		while (state == ncclSuccess) {
			ncclAllReduce(P(at), P(at), COUNT, ncclFloat32, ncclMax, p->comm,
				      p->stream);
			nc(ncclCommGetAsyncError(p->comm, &state));
		}
		nc(ncclCommAbort(p->comm));
	}
	p->comm = NULL;
}

/* The last rank ends without a word. */
static void lost(struct part *p)
{
	CUdeviceptr at = floats(COUNT, 1, 0);
	ncclResult_t state = ncclSuccess;

	nc(ncclAllReduce(P(at), P(at), COUNT, ncclFloat32, ncclMax, p->comm, p->stream));
	cu(cuStreamSynchronize(p->stream));
	if (p->rank == p->ranks - 1) {
		printf("lost: right\n");
		fflush(stdout);
		kill(getpid(), SIGKILL);
	}
	while (state == ncclSuccess) {
		ncclAllReduce(P(at), P(at), COUNT, ncclFloat32, ncclMax, p->comm, p->stream);
		usleep(1000);
		nc(ncclCommGetAsyncError(p->comm, &state));
	}
	want(state == ncclRemoteError);
	nc(ncclCommAbort(p->comm));
	p->comm = NULL;
}

/* A group whose rank on the second server fails at once: that on the first server does not wait for
 * it. */
static void half(struct part *p)
{
	int count = devices();
	ncclConfig_t good = config_of(1), wrong = config_of(1);
	struct each e[RANKS_MAX];
	ncclUniqueId id;
	ncclComm_t comms[2] = {(void *)1, (void *)1};

	(void)p;
	wrong.commName = "other";
	prepare(e, count);
	cu(cuCtxSetCurrent(e[0].context));
	nc(ncclGetUniqueId(&id));
	nc(ncclGroupStart());
	nc(ncclCommInitRankConfig(&comms[0], 2, id, 0, &good));
	cu(cuCtxSetCurrent(e[count - 1].context));
	nc(ncclCommInitRankConfig(&comms[1], 2, id, 1, &wrong));
	want(ncclGroupEnd() == ncclInvalidArgument);
	want(!comms[0] && !comms[1] && strstr(ncclGetLastError(NULL), "not as it was sent"));
}

static void *ask_always(void *comm)
{
	ncclResult_t state;

	while (ncclCommGetAsyncError(comm, &state) == ncclSuccess && state == ncclSuccess)
		;
	die("result %d while the process ends", state);
}

/* The process ends without a word to NCCL, and a thread still asks. */
static void leave(struct part *p)
{
	CUdeviceptr at = floats(COUNT, 1, 0);
	pthread_t t;

	nc(ncclAllReduce(P(at), P(at), COUNT, ncclFloat32, ncclSum, p->comm, p->stream));
	cu(cuStreamSynchronize(p->stream));
	want(pthread_create(&t, NULL, ask_always, p->comm) == 0);
	usleep(20000);
	p->comm = NULL;
}

/* Has a communicator, and waits for the ranks of another, for a test that ends it, or asks the
 * server about it, meanwhile. */
static void wait_long(struct part *p)
{
	ncclUniqueId id;
	ncclComm_t comm;

	nc(ncclGetUniqueId(&id));
	nc(ncclCommInitRank(&p->comm, 1, id, 0));
	nc(ncclGetUniqueId(&id));
	printf("waits\n");
	fflush(stdout);
	ncclCommInitRank(&comm, 2, id, 0);
}

/* A context ends with a communicator in it. */
static void context(struct part *p)
{
	ncclUniqueId id;
	ncclComm_t comm;
	CUdeviceptr at;

	nc(ncclGetUniqueId(&id));
	nc(ncclCommInitRank(&comm, 1, id, 0));
	at = floats(COUNT, 1, 0);
	nc(ncclAllReduce(P(at), P(at), COUNT, ncclFloat32, ncclSum, comm, p->stream));
	cu(cuDevicePrimaryCtxReset_v2(0));
	want(ncclAllReduce(P(at), P(at), COUNT, ncclFloat32, ncclSum, comm, NULL) ==
	     ncclInvalidArgument);
	cu(cuDevicePrimaryCtxRetain(&p->context, 0));
	cu(cuCtxSetCurrent(p->context));
	nc(ncclGetUniqueId(&id));
	nc(ncclCommInitRank(&comm, 1, id, 0));
	nc(ncclCommDestroy(comm));
}

const struct test_case process_cases[] = {
	{"group", group, true},
	{"threads", threads, true},
	{"absent", absent, true},
	{"abort_init", abort_init, true},
	{"abort_wait", abort_wait, false},
	{"lost", lost, false},
	{"wait_long", wait_long, true},
	{"context", context, true},
	{"half", half, true},
	{"leave", leave, false},
	{NULL, NULL, false},
};
