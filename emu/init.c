/*
 * emu/init.c - the start and the end of the driver, and what answers before cuInit.
 */
#include <errno.h>

#include "emu/checkpoint/mailbox.h"
#include "emu/emu.h"
#include "emu/locks.h"
#include "emu/usage.h"

enum { STATE_NEW, STATE_READY, STATE_NO_DEVICE, STATE_BROKEN, STATE_BAD_LIST, STATE_FORKED };

static struct ck_mutex state_lock = CK_MUTEX(CK_RANK_STATE);
static atomic_int state = STATE_NEW;
static atomic_bool exiting;

bool ck_emu_exiting(void)
{
	return atomic_load_explicit(&exiting, memory_order_relaxed);
}

/* Threads do not survive a fork, so neither does the driver. */
static void forked(void)
{
	ck_emu_mailbox_forked();
	atomic_store(&state, STATE_FORKED);
}

__attribute__((destructor)) static void at_exit(void)
{
	atomic_store(&exiting, true);
	if (atomic_load(&state) == STATE_READY) {
		ck_emu_engine_exit();
		ck_emu_usage_leave();
	}
}

CUresult ck_emu_enter_bare(void)
{
	if (ck_emu_exiting())
		return CUDA_ERROR_DEINITIALIZED;
	if (atomic_load_explicit(&state, memory_order_acquire) != STATE_READY)
		return CUDA_ERROR_NOT_INITIALIZED;
	if (ck_emu_thread_in_callback())
		return CUDA_ERROR_NOT_PERMITTED;
	return CUDA_SUCCESS;
}

/* The result of cuInit in each state. */
static CUresult state_result(int now)
{
	switch (now) {
	case STATE_READY:
		return CUDA_SUCCESS;
	case STATE_NO_DEVICE:
		return CUDA_ERROR_NO_DEVICE;
	case STATE_BAD_LIST:
		return CUDA_ERROR_INVALID_DEVICE;
	case STATE_BROKEN:
		return CUDA_ERROR_OUT_OF_MEMORY;
	default:
		return CUDA_ERROR_NOT_INITIALIZED;
	}
}

CUresult cuInit(unsigned int Flags)
{
	int now = atomic_load(&state);

	if (ck_emu_exiting())
		return CUDA_ERROR_DEINITIALIZED;
	if (Flags)
		return CUDA_ERROR_INVALID_VALUE;
	if (now != STATE_NEW)
		return state_result(now);
	ck_lock(&state_lock);
	now = atomic_load(&state);
	if (now == STATE_NEW) {
		int ret;

		ck_emu_usage_join();
		ret = ck_emu_devices_init();
		if (ret < 0 || pthread_atfork(NULL, NULL, forked))
			now = ret == -EINVAL ? STATE_BAD_LIST : STATE_BROKEN;
		else
			now = ck_emu_device_count() ? STATE_READY : STATE_NO_DEVICE;
		if (now == STATE_READY)
			ck_emu_mailbox_start();
		atomic_store(&state, now);
	}
	ck_unlock(&state_lock);
	return state_result(now);
}

CUresult cuDriverGetVersion(int *driverVersion)
{
	if (!driverVersion)
		return CUDA_ERROR_INVALID_VALUE;
	*driverVersion = CK_EMU_VERSION;
	return CUDA_SUCCESS;
}

int ckDriverAcceptsCubin(void)
{
	return 0;
}
