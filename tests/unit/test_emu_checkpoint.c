/*
 * tests/unit/test_emu_checkpoint.c - another process locks, checkpoints, restores and unlocks this
 * one.
 *
 * The other process is forked before this one initialises the driver, and carries out commands from
 * a socket.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "emu/nvml/nvml.h"
#include "emu/core/usage.h"
#include "tests/unit/emu_fixture.h"

#define LARGE (8ul << 20)
#define UNIT (2ul << 20)

enum operation {
	LOCK,
	CHECKPOINT,
	RESTORE,
	UNLOCK,
	STATE,
	THREAD,
	USED,
	TAKE,
	GIVE,
	DIRTY_LOCK,
	MAP, /* a restore with one of the maps below */
};

/* Which device each of the two goes to; -1: to one that is not there. */
static const struct {
	unsigned int count;
	int from[2], to[2];
} maps[] = {
	{2, {0, 1}, {1, 0}}, /* exchanged */
	{2, {0, 1}, {0, 1}}, {1, {0}, {1}},	   {2, {0, 0}, {0, 1}},
	{2, {0, 1}, {1, 1}}, {2, {0, 1}, {-1, 0}},
};

struct order {
	enum operation operation;
	int pid;
	size_t number; /* a time-out, or bytes */
};

static int other; /* the socket */
static pid_t other_pid;

/* --- the other process */

/* Bytes that process @pid uses of device @number, as others see it. */
static int64_t used_by(int pid, int number)
{
	static struct ck_emu_use list[CK_EMU_USERS];
	unsigned int count = ck_emu_usage_list(number, list);

	for (unsigned int i = 0; i < count; i++) {
		if (list[i].pid == (unsigned int)pid)
			return (int64_t)list[i].bytes;
	}
	return 0;
}

static CUuuid uuid_of(int device)
{
	CUuuid uuid = {.bytes = "nowhere"};

	if (device >= 0)
		cuDeviceGetUuid_v2(&uuid, device);
	return uuid;
}

static CUresult restore_by(int pid, size_t map)
{
	CUcheckpointGpuPair pairs[2];
	CUcheckpointRestoreArgs args = {.gpuPairs = pairs, .gpuPairsCount = maps[map].count};

	for (unsigned int i = 0; i < maps[map].count; i++)
		pairs[i] =
			(CUcheckpointGpuPair){uuid_of(maps[map].from[i]), uuid_of(maps[map].to[i])};
	return cuCheckpointProcessRestore(pid, &args);
}

static int64_t obey(const struct order *o)
{
	CUcheckpointLockArgs lock = {.timeoutMs = (unsigned int)o->number};
	static CUdeviceptr taken;
	CUprocessState state;
	int thread;

	switch (o->operation) {
	case DIRTY_LOCK:
		lock.reserved1[6] = 1;
		return cuCheckpointProcessLock(o->pid, &lock);
	case LOCK:
		return cuCheckpointProcessLock(o->pid, o->number ? &lock : NULL);
	case CHECKPOINT:
		return cuCheckpointProcessCheckpoint(o->pid, NULL);
	case RESTORE:
		return cuCheckpointProcessRestore(o->pid, NULL);
	case UNLOCK:
		return cuCheckpointProcessUnlock(o->pid, NULL);
	case STATE:
		return cuCheckpointProcessGetState(o->pid, &state) ? -1 : (int64_t)state;
	case THREAD:
		return cuCheckpointProcessGetRestoreThreadId(o->pid, &thread) ? -1 : thread;
	case USED:
		return used_by(o->pid, (int)o->number);
	case MAP:
		return restore_by(o->pid, o->number);
	case TAKE:
		return cuMemAlloc_v2(&taken, o->number);
	default:
		return cuMemFree_v2(taken);
	}
}

static _Noreturn void be_the_other(int fd)
{
	CUcontext context;
	struct order order;
	int64_t answer;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (cuInit(0) || cuCtxCreate_v2(&context, 0, 0))
		_exit(1);
	while (read(fd, &order, sizeof(order)) == (ssize_t)sizeof(order)) {
		answer = obey(&order);
		if (write(fd, &answer, sizeof(answer)) != (ssize_t)sizeof(answer))
			break;
	}
	_exit(0);
}

static void tell(enum operation operation, int pid, size_t number)
{
	struct order order = {operation, pid, number};

	assert_int_equal(write(other, &order, sizeof(order)), sizeof(order));
}

static int64_t hear(void)
{
	int64_t answer = -1;

	assert_int_equal(read(other, &answer, sizeof(answer)), sizeof(answer));
	return answer;
}

/* Have the other process do something to this one. */
static int64_t done(enum operation operation, size_t number)
{
	tell(operation, getpid(), number);
	return hear();
}

static char usage[64];

static int setup(void **state)
{
	char words[128];
	int pair[2];

	(void)state;
	snprintf(usage, sizeof(usage), "/tmp/test_emu_checkpoint.%d", (int)getpid());
	snprintf(words, sizeof(words), "devices=2,memory=64M,shared,usage=%s", usage);
	setenv("CRICKET_EMU", words, 1);
	unsetenv("CUDA_VISIBLE_DEVICES");
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0)
		return -1;
	other_pid = fork();
	if (other_pid == 0) {
		close(pair[0]);
		be_the_other(pair[1]);
	}
	close(pair[1]);
	other = pair[0];
	return cuInit(0) == CUDA_SUCCESS ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	unlink(usage);
	close(other);
	return waitpid(other_pid, NULL, 0) == other_pid ? 0 : -1;
}

/* --- tests */

/* Can the program reach the memory, as its kernels do? */
static bool is_there(CUdeviceptr at)
{
	int pipes[2];
	bool there;

	assert_int_equal(pipe(pipes), 0);
	there = write(pipes[1], (void *)at, 1) == 1;
	close(pipes[0]);
	close(pipes[1]);
	return there;
}

static void each_operation_needs_its_state(void **unused)
{
	static const enum operation operations[] = {LOCK, CHECKPOINT, RESTORE, UNLOCK};
	/* from each state, where it leads; -1: nowhere */
	static const int leads[3][4] = {{1, -1, -1, -1}, {-1, 2, -1, 0}, {-1, -1, 1, -1}};
	/* a way through all of them */
	static const enum operation way[] = {LOCK,	 CHECKPOINT, RESTORE,
					     CHECKPOINT, RESTORE,    UNLOCK};
	int state = 0;

	(void)unused;
	for (size_t i = 0; i < CK_ARRAY_SIZE(way); i++) {
		assert_int_equal(done(STATE, 0), state);
		for (int k = 0; k < 4; k++) {
			if (leads[state][k] < 0)
				assert_int_equal(done(operations[k], 0), CUDA_ERROR_ILLEGAL_STATE);
		}
		assert_int_equal(done(way[i], 0), CUDA_SUCCESS);
		state = leads[state][way[i]];
	}
	assert_int_equal(done(STATE, 0), CU_PROCESS_STATE_RUNNING);
}

static void memory_of_all_kinds_moves_out_and_comes_back(void **unused)
{
	const CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
					  .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
	const CUmemAccessDesc access = {.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0},
					.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUdeviceptr at[6], managed, mapped;
	const size_t sizes[6] = {LARGE, 100, 1000, 5000, LARGE / 2, 2 * UNIT};
	CUmemGenericAllocationHandle handles[2];
	unsigned char byte;

	(void)unused;
	for (int i = 0; i < 4; i++) /* those of a few bytes share pages */
		ok(cuMemAlloc_v2(&at[i], sizes[i]));
	ok(cuMemAllocManaged(&managed, 3000, CU_MEM_ATTACH_GLOBAL));
	ok(cuMemAllocAsync(&at[4], sizes[4], NULL));
	ok(cuMemAddressReserve(&mapped, 2 * UNIT, 0, 0, 0));
	for (int i = 0; i < 2; i++) { /* side by side */
		ok(cuMemCreate(&handles[i], UNIT, &prop, 0));
		ok(cuMemMap(mapped + i * UNIT, UNIT, 0, handles[i], 0));
	}
	ok(cuMemSetAccess(mapped, 2 * UNIT, &access, 1));
	at[5] = mapped;
	for (int i = 0; i < 6; i++)
		ok(cuMemsetD8_v2(at[i], (unsigned char)(i + 1), sizes[i]));
	ok(cuCtxSynchronize());
	*(int *)managed = 77;
	for (int turn = 0; turn < 3; turn++) {
		assert_true(done(USED, 0) > (int64_t)LARGE);
		assert_int_equal(done(LOCK, 60000), CUDA_SUCCESS);
		assert_true(is_there(at[0]));
		assert_int_equal(done(CHECKPOINT, 0), CUDA_SUCCESS);
		assert_int_equal(done(USED, 0), 0);
		for (int i = 0; i < 6; i++) {
			assert_false(is_there(at[i]));
			assert_false(is_there(at[i] + sizes[i] - 1));
		}
		assert_int_equal(*(int *)managed, 77 + turn); /* it is the host's now */
		*(int *)managed += 1;
		assert_int_equal(done(RESTORE, 0), CUDA_SUCCESS);
		assert_true(done(USED, 0) > (int64_t)LARGE);
		assert_int_equal(done(UNLOCK, 0), CUDA_SUCCESS);
		for (int i = 0; i < 6; i++) {
			ok(cuMemcpyDtoH_v2(&byte, at[i], 1));
			assert_int_equal(byte, i + 1);
			ok(cuMemcpyDtoH_v2(&byte, at[i] + sizes[i] - 1, 1));
			assert_int_equal(byte, i + 1);
		}
	}
	for (int i = 0; i < 4; i++)
		ok(cuMemFree_v2(at[i]));
	ok(cuMemFree_v2(managed));
	ok(cuMemFreeAsync(at[4], NULL));
	ok(cuStreamSynchronize(NULL));
	ok(cuMemUnmap(mapped, 2 * UNIT));
	for (int i = 0; i < 2; i++)
		ok(cuMemRelease(handles[i]));
	ok(cuMemAddressFree(mapped, 2 * UNIT));
}

/* A call in a thread of its own. */
static atomic_bool returned;

static void *allocate(void *context)
{
	CUdeviceptr *at = malloc(sizeof(*at));

	if (cuCtxSetCurrent(context) || cuMemAlloc_v2(at, 4096))
		*at = 0;
	atomic_store(&returned, true);
	return at;
}

static void a_call_waits_until_the_process_is_unlocked(void **context)
{
	CUdeviceptr *at;
	pthread_t thread;

	assert_int_equal(done(LOCK, 0), CUDA_SUCCESS);
	atomic_store(&returned, false);
	assert_int_equal(pthread_create(&thread, NULL, allocate, *context), 0);
	usleep(20000);
	assert_int_equal(done(CHECKPOINT, 0), CUDA_SUCCESS);
	usleep(20000);
	assert_int_equal(done(RESTORE, 0), CUDA_SUCCESS);
	assert_false(atomic_load(&returned));
	assert_int_equal(done(UNLOCK, 0), CUDA_SUCCESS);
	pthread_join(thread, (void **)&at);
	assert_true(atomic_load(&returned));
	assert_int_not_equal(*at, 0);
	ok(cuMemFree_v2(*at));
	free(at);
}

static atomic_bool may_end;

static void until_it_may_end(void *calls)
{
	while (!atomic_load(&may_end))
		usleep(1000);
	atomic_fetch_add((atomic_int *)calls, 1);
}

static void a_lock_waits_for_work_that_runs(void **unused)
{
	atomic_int calls = 0;

	(void)unused;
	atomic_store(&may_end, false);
	ok(cuLaunchHostFunc(NULL, until_it_may_end, &calls));
	assert_int_equal(done(LOCK, 50), CUDA_ERROR_NOT_READY);
	assert_int_equal(done(STATE, 0), CU_PROCESS_STATE_RUNNING);
	ok(cuLaunchHostFunc(NULL, until_it_may_end, &calls)); /* nothing is blocked */
	tell(LOCK, getpid(), 0);			      /* without a limit */
	usleep(20000);
	atomic_store(&may_end, true);
	assert_int_equal(hear(), CUDA_SUCCESS);
	assert_int_equal(calls, 2);
	assert_int_equal(done(UNLOCK, 0), CUDA_SUCCESS);
}

static void *synchronise(void *context)
{
	return cuCtxSetCurrent(context) || cuCtxSynchronize() ? context : NULL;
}

static void a_lock_waits_for_calls_that_have_begun(void **context)
{
	atomic_int calls = 0;
	pthread_t thread;
	void *failed;

	atomic_store(&may_end, false);
	ok(cuLaunchHostFunc(NULL, until_it_may_end, &calls));
	assert_int_equal(pthread_create(&thread, NULL, synchronise, *context), 0);
	usleep(20000);
	assert_int_equal(done(LOCK, 50), CUDA_ERROR_NOT_READY);
	atomic_store(&may_end, true);
	pthread_join(thread, &failed);
	assert_null(failed);
	assert_int_equal(done(LOCK, 60000), CUDA_SUCCESS);
	assert_int_equal(done(UNLOCK, 0), CUDA_SUCCESS);
}

/* As NVIDIA's driver (580): the process is lost. */
static void without_room_a_restore_fails_for_good(void **unused)
{
	CUdeviceptr at;

	(void)unused;
	ok(cuMemAlloc_v2(&at, 40ul << 20));
	ok(cuMemsetD32_v2(at, 5, 10ul << 20));
	assert_int_equal(done(TAKE, 40ul << 20), CUDA_ERROR_OUT_OF_MEMORY);
	assert_int_equal(done(LOCK, 0), CUDA_SUCCESS);
	assert_int_equal(done(CHECKPOINT, 0), CUDA_SUCCESS);
	assert_int_equal(done(TAKE, 40ul << 20), CUDA_SUCCESS);
	assert_int_equal(done(RESTORE, 0), CUDA_ERROR_OUT_OF_MEMORY);
	assert_int_equal(done(STATE, 0), CU_PROCESS_STATE_CHECKPOINTED);
	assert_int_equal(done(USED, 0), 0);
	assert_false(is_there(at));
	assert_int_equal(done(GIVE, 0), CUDA_SUCCESS);
	assert_int_equal(done(RESTORE, 0), CUDA_ERROR_OPERATING_SYSTEM);
	assert_int_equal(done(STATE, 0), CU_PROCESS_STATE_CHECKPOINTED);
}

static void memory_that_others_may_have_stays(void **unused)
{
	CUipcMemHandle handle;
	CUdeviceptr at;

	(void)unused;
	ok(cuMemAlloc_v2(&at, 4096));
	ok(cuIpcGetMemHandle(&handle, at));
	assert_int_equal(done(LOCK, 0), CUDA_SUCCESS);
	assert_int_equal(done(CHECKPOINT, 0), CUDA_ERROR_NOT_SUPPORTED);
	assert_int_equal(done(STATE, 0), CU_PROCESS_STATE_LOCKED);
	assert_true(is_there(at));
	assert_int_equal(done(UNLOCK, 0), CUDA_SUCCESS);
	ok(cuMemFree_v2(at));
	assert_int_equal(done(LOCK, 0), CUDA_SUCCESS);
	assert_int_equal(done(CHECKPOINT, 0), CUDA_SUCCESS);
	assert_int_equal(done(RESTORE, 0), CUDA_SUCCESS);
	assert_int_equal(done(UNLOCK, 0), CUDA_SUCCESS);
}

static size_t free_of(CUdevice device)
{
	CUcontext context;
	size_t free, total;

	ok(cuCtxCreate_v2(&context, 0, device));
	ok(cuMemGetInfo_v2(&free, &total));
	ok(cuCtxDestroy_v2(context));
	return free;
}

/* The same device of the process, and other memory: as it is reported of NVIDIA's driver, the UUID
 * goes along and the PCI address stays. */
static void a_process_comes_back_to_the_other_device(void **unused)
{
	const CUuuid first = uuid_of(0), second = uuid_of(1);
	struct nvmlMemory_t memory;
	unsigned char bytes[4096];
	char pci[2][32];
	nvmlDevice_t board;
	CUdeviceptr at;
	CUuuid now;

	(void)unused;
	ok(cuMemAlloc_v2(&at, 40ul << 20));
	ok(cuMemsetD8_v2(at, 0x5a, 40ul << 20));
	ok(cuDeviceGetPCIBusId(pci[0], sizeof(pci[0]), 0));
	assert_int_equal(nvmlInit_v2(), NVML_SUCCESS);
	assert_int_equal(nvmlDeviceGetHandleByIndex_v2(1, &board), NVML_SUCCESS);
	for (int turn = 0; turn < 4; turn++) {
		int from = turn % 2, to = 1 - from;

		assert_int_equal(done(USED, (size_t)from), 40 << 20);
		assert_int_equal(done(USED, (size_t)to), 0);
		assert_int_equal(done(LOCK, 0), CUDA_SUCCESS);
		assert_int_equal(done(CHECKPOINT, 0), CUDA_SUCCESS);
		assert_int_equal(done(MAP, 0), CUDA_SUCCESS);
		assert_int_equal(done(UNLOCK, 0), CUDA_SUCCESS);
		assert_int_equal(done(USED, (size_t)from), 0);
		assert_int_equal(done(USED, (size_t)to), 40 << 20);
		assert_int_equal(nvmlDeviceGetMemoryInfo(board, &memory), NVML_SUCCESS);
		assert_int_equal(memory.used,
				 to == 1 ? 40 << 20 : 0); /* the board stays what it is */
		now = uuid_of(0);
		assert_memory_equal(&now, to ? &second : &first, sizeof(now));
		ok(cuDeviceGetPCIBusId(pci[1], sizeof(pci[1]), 0));
		assert_string_equal(pci[0], pci[1]);
		assert_int_equal(free_of(0), MEMORY - (40ul << 20));
		assert_int_equal(free_of(1), MEMORY);
		ok(cuMemcpyDtoH_v2(bytes, at + (20ul << 20), sizeof(bytes)));
		assert_int_equal(bytes[0] | bytes[4095], 0x5a);
	}
	assert_int_equal(nvmlShutdown(), NVML_SUCCESS);
	ok(cuMemFree_v2(at));
}

static void a_map_that_does_not_lead_each_device_to_another_is_refused(void **unused)
{
	(void)unused;
	assert_int_equal(done(LOCK, 0), CUDA_SUCCESS);
	assert_int_equal(done(CHECKPOINT, 0), CUDA_SUCCESS);
	for (size_t i = 2; i < CK_ARRAY_SIZE(maps); i++)
		assert_int_equal(done(MAP, i), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(done(STATE, 0), CU_PROCESS_STATE_CHECKPOINTED);
	assert_int_equal(done(MAP, 1), CUDA_SUCCESS);
	assert_int_equal(done(UNLOCK, 0), CUDA_SUCCESS);
}

static void wrong_arguments_are_refused(void **unused)
{
	CUcheckpointRestoreArgs restore = {.reserved1 = 1};
	CUprocessState state;
	int thread;

	(void)unused;
	assert_int_equal(done(DIRTY_LOCK, 0), CUDA_ERROR_INVALID_VALUE);
	for (int pid = -1; pid <= 1; pid++) { /* init has no driver */
		tell(LOCK, pid, 0);
		assert_int_equal(hear(), CUDA_ERROR_INVALID_VALUE);
	}
	assert_int_equal(cuCheckpointProcessRestore(getpid(), &restore), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuCheckpointProcessGetState(getpid(), NULL), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuCheckpointProcessGetRestoreThreadId(getpid(), NULL),
			 CUDA_ERROR_INVALID_VALUE);
	ok(cuCheckpointProcessGetState(getpid(), &state));
	assert_int_equal(state, CU_PROCESS_STATE_RUNNING);
	ok(cuCheckpointProcessGetRestoreThreadId(getpid(), &thread));
	assert_int_equal(done(THREAD, 0), thread);
	assert_int_not_equal(thread, gettid());
}

static void a_process_may_lock_itself(void **unused)
{
	(void)unused;
	ok(cuCheckpointProcessLock(getpid(), NULL));
	ok(cuCheckpointProcessCheckpoint(getpid(), NULL));
	assert_int_equal(done(STATE, 0), CU_PROCESS_STATE_CHECKPOINTED);
	ok(cuCheckpointProcessRestore(getpid(), NULL));
	ok(cuCheckpointProcessUnlock(getpid(), NULL));
}

static void a_forked_child_is_no_target(void **unused)
{
	int status;
	pid_t pid = fork();

	(void)unused;
	if (pid == 0) {
		pause();
		_exit(0);
	}
	tell(LOCK, pid, 10);
	assert_int_equal(hear(), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(done(STATE, 0), CU_PROCESS_STATE_RUNNING);
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		in_context(each_operation_needs_its_state),
		in_context(memory_of_all_kinds_moves_out_and_comes_back),
		in_context(a_call_waits_until_the_process_is_unlocked),
		in_context(a_lock_waits_for_work_that_runs),
		in_context(a_lock_waits_for_calls_that_have_begun),
		in_context(memory_that_others_may_have_stays),
		in_context(a_process_comes_back_to_the_other_device),
		in_context(a_map_that_does_not_lead_each_device_to_another_is_refused),
		in_context(wrong_arguments_are_refused),
		in_context(a_process_may_lock_itself),
		in_context(a_forked_child_is_no_target),
		/* the last one: calls of this process wait from then on */
		cmocka_unit_test_setup(without_room_a_restore_fails_for_good, context_setup),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
