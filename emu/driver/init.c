/*
 * emu/driver/init.c - the start and the end of the driver, and its answers before cuInit.
 */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "emu/checkpoint/mailbox.h"
#include "emu/core/emu.h"
#include "emu/core/locks.h"
#include "emu/core/mps.h"
#include "emu/core/usage.h"
#include "emu/graphs/graph_run.h"
#include "emu/memory/arena.h"
#include "emu/core/hooks.h"
#include "util/env.h"
#include "util/log.h"

CK_LOG_DEFINE("emu");

static struct ck_mutex state_lock = CK_MUTEX(CK_RANK_STATE);

/* The highest folder first. */
static void context_end(const struct ck_emu_context *context)
{
	ck_emu_graph_memory_end(context);
	ck_emu_arena_sweep(context, NULL);
}

static const struct ck_emu_hooks hooks = {
	.context_stop = ck_emu_capture_leave_all,
	.context_end = context_end,
	.memory_take = ck_emu_arena_take,
	.memory_give = ck_emu_arena_give,
	.stream_end = ck_emu_capture_leave,
	.capture_check = ck_emu_capture_check,
	.capture_unsafe = ck_emu_capture_unsafe,
	.capture_context = ck_emu_capture_context,
	.capture_node = ck_emu_capture_node,
	.capture_nothing = ck_emu_capture_nothing,
	.capture_copy = ck_emu_capture_copy,
	.capture_alloc = ck_emu_capture_alloc,
	.capture_free = ck_emu_capture_free,
	.capture_lose = ck_emu_capture_lose,
	.capture_mark = ck_emu_capture_mark,
	.capture_unmark = ck_emu_capture_unmark,
	.capture_place_fini = ck_emu_capture_place_fini,
	.capture_join = ck_emu_capture_join,
	.capture_asked = ck_emu_capture_asked,
	.capture_timed = ck_emu_capture_timed,
	.graph_memory_free = ck_emu_graph_memory_free,
	.graph_condition_set = ck_emu_condition_set,
};

/* Threads do not survive a fork, so neither does the driver. */
static void handle_fork(void)
{
	ck_emu_mailbox_forked();
	ck_emu_state_set(CK_EMU_FORKED);
}

__attribute__((destructor)) static void at_exit(void)
{
	ck_emu_exiting_set();
	if (ck_emu_state() == CK_EMU_READY) {
		ck_emu_engine_exit();
		ck_emu_usage_leave();
	}
}

/* The result of cuInit in each state. */
static CUresult state_result(enum ck_emu_state now)
{
	switch (now) {
	case CK_EMU_READY:
		return CUDA_SUCCESS;
	case CK_EMU_NO_DEVICE:
		return CUDA_ERROR_NO_DEVICE;
	case CK_EMU_BAD_LIST:
		return CUDA_ERROR_INVALID_DEVICE;
	case CK_EMU_BROKEN:
		return CUDA_ERROR_OUT_OF_MEMORY;
	default:
		return CUDA_ERROR_NOT_INITIALIZED;
	}
}

static void log_warning(const char *line)
{
	ck_warn("%s", line);
}

/* NVIDIA's driver has such a socket for other processes. It stays open, also after a fork. */
static void bind_socket(void)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int n = snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1, "cricket-emu-%d",
			 (int)getpid());

	if (fd < 0 || bind(fd, (struct sockaddr *)&name,
			   (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n)) < 0)
		ck_warn("a socket as of NVIDIA's driver: %m");
}

/* The state that the driver starts in. */
static enum ck_emu_state driver_start(void)
{
	int ret;

	ck_env_check_lists(CK_ENV_EMU, log_warning);
	ck_emu_hooks = &hooks;
	ck_emu_usage_join();
	if (ck_env_word_number("CRICKET_EMU", "socket"))
		bind_socket();
	ret = ck_emu_devices_init();
	if (ret == 0)
		ret = ck_emu_primaries_init();
	if (ret == 0)
		ret = ck_emu_arena_init();
	if (ret < 0 || pthread_atfork(NULL, NULL, handle_fork))
		return ret == -EINVAL ? CK_EMU_BAD_LIST : CK_EMU_BROKEN;
	if (!ck_emu_device_count())
		return CK_EMU_NO_DEVICE;
	ck_emu_mailbox_start();
	return CK_EMU_READY;
}

CUresult cuInit(unsigned int Flags)
{
	enum ck_emu_state now = ck_emu_state();

	if (ck_emu_exiting())
		return CUDA_ERROR_DEINITIALIZED;
	if (Flags)
		return CUDA_ERROR_INVALID_VALUE;
	if (now != CK_EMU_NEW)
		return state_result(now);
	ck_lock(&state_lock);
	now = ck_emu_state();
	if (now == CK_EMU_NEW && !ck_emu_mps_join()) {
		ck_unlock(&state_lock);
		return CUDA_ERROR_MPS_SERVER_NOT_READY;
	}
	if (now == CK_EMU_NEW) {
		now = driver_start();
		ck_emu_state_set(now);
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
