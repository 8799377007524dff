/*
 * emu/checkpoint/checkpoint.c - cuCheckpointProcess...: ask a process by its mailbox.
 *
 * The calling process must have called cuInit, and needs no context. It may ask itself.
 */
#include <signal.h>
#include <string.h>
#include <sys/file.h>

#include "emu/checkpoint/mailbox.h"
#include "emu/core/emu.h"

/* Is all of it 0? */
static bool is_zero(const void *bytes, size_t size)
{
	const unsigned char *at = bytes;

	while (size > 0 && at[size - 1] == 0)
		size--;
	return size == 0;
}

static CUresult open_mailbox(int pid, struct ck_emu_mailbox **box, int *fd)
{
	CUresult result = ck_emu_enter_bare();

	if (result != CUDA_SUCCESS)
		return result;
	*box = pid > 0 ? ck_emu_mailbox_open(pid, fd) : NULL;
	return *box ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Wait for the answer to all that was asked; false: the process has ended. */
static bool wait_answer(struct ck_emu_mailbox *box, int pid)
{
	uint32_t answered;

	while ((answered = atomic_load(&box->answered)) != atomic_load(&box->asked)) {
		if (kill(pid, 0) < 0)
			return false;
		ck_emu_mailbox_doze(&box->answered, answered);
	}
	return true;
}

static CUresult request_operation(int pid, enum ck_emu_operation operation, uint32_t timeout_ms,
				  const CUcheckpointRestoreArgs *map)
{
	struct ck_emu_mailbox *box;
	int fd;
	CUresult result = open_mailbox(pid, &box, &fd);

	if (result != CUDA_SUCCESS)
		return result;
	result = CUDA_ERROR_OPERATING_SYSTEM;
	/* who asked before may have ended without its answer */
	if (flock(fd, LOCK_EX) == 0 && wait_answer(box, pid)) {
		box->operation = (int32_t)operation;
		box->timeout_ms = timeout_ms;
		box->gpus = (uint32_t)ck_emu_machine_count();
		box->pair_count = map ? map->gpuPairsCount : 0;
		if (box->pair_count > 0)
			memcpy(box->pairs, map->gpuPairs, box->pair_count * sizeof(box->pairs[0]));
		atomic_fetch_add(&box->asked, 1);
		ck_emu_mailbox_wake(&box->asked);
		if (wait_answer(box, pid))
			result = (CUresult)box->result;
	}
	ck_emu_mailbox_close(box, fd);
	return result;
}

/* Read the mailbox without a question to the process. */
static CUresult read_process_state(int pid, CUprocessState *state, int *thread)
{
	struct ck_emu_mailbox *box;
	int fd;
	CUresult result = open_mailbox(pid, &box, &fd);

	if (result != CUDA_SUCCESS)
		return result;
	*state = (CUprocessState)atomic_load(&box->state);
	*thread = box->thread;
	ck_emu_mailbox_close(box, fd);
	return CUDA_SUCCESS;
}

CUresult cuCheckpointProcessGetState(int pid, CUprocessState *state)
{
	int thread;

	return state ? read_process_state(pid, state, &thread) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuCheckpointProcessGetRestoreThreadId(int pid, int *tid)
{
	CUprocessState state;

	return tid ? read_process_state(pid, &state, tid) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuCheckpointProcessLock(int pid, CUcheckpointLockArgs *args)
{
	if (args && (args->reserved0 || !is_zero(args->reserved1, sizeof(args->reserved1))))
		return CUDA_ERROR_INVALID_VALUE;
	return request_operation(pid, CK_EMU_LOCK, args ? args->timeoutMs : 0, NULL);
}

CUresult cuCheckpointProcessCheckpoint(int pid, CUcheckpointCheckpointArgs *args)
{
	if (args && !is_zero(args, sizeof(*args)))
		return CUDA_ERROR_INVALID_VALUE;
	return request_operation(pid, CK_EMU_CHECKPOINT, 0, NULL);
}

/* The new GPUs must be of this machine. The process itself knows the old ones, all of which must be
 * named. */
static CUresult pairs_check(const CUcheckpointRestoreArgs *args)
{
	if (args->gpuPairsCount == 0)
		return CUDA_SUCCESS;
	if (!args->gpuPairs || args->gpuPairsCount > CK_EMU_MAX_DEVICES)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned int i = 0; i < args->gpuPairsCount; i++) {
		if (!ck_emu_machine_has(&args->gpuPairs[i].newUuid))
			return CUDA_ERROR_INVALID_VALUE;
	}
	return CUDA_SUCCESS;
}

CUresult cuCheckpointProcessRestore(int pid, CUcheckpointRestoreArgs *args)
{
	CUresult result = CUDA_SUCCESS;

	if (args && (args->reserved1 || !is_zero(args->reserved, sizeof(args->reserved))))
		return CUDA_ERROR_INVALID_VALUE;
	if (args)
		result = pairs_check(args);
	return result == CUDA_SUCCESS ? request_operation(pid, CK_EMU_RESTORE, 0, args) : result;
}

CUresult cuCheckpointProcessUnlock(int pid, CUcheckpointUnlockArgs *args)
{
	if (args && !is_zero(args, sizeof(*args)))
		return CUDA_ERROR_INVALID_VALUE;
	return request_operation(pid, CK_EMU_UNLOCK, 0, NULL);
}
