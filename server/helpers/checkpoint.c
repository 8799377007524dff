/*
 * server/helpers/checkpoint.c - see checkpoint.h.
 *
 * Each move begins with the state that it finds, so that one which was interrupted can be repeated.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "server/helpers/checkpoint_part.h"
#include "server/processes/child.h"
#include "server/session/driver.h"
#include "server/session/session.h"
#include "util/process/fd.h"
#include "util/log.h"
#include "util/until.h"
#include "util/util.h"

CK_LOG_DEFINE("server");

#define CK_ANSWER_FD 3

struct cks_checkpoint_calls cks_checkpoint_calls;

static bool find_symbol(void *function, const char *name)
{
	*(void **)function = dlsym(cks_driver_library(), name);
	return *(void **)function != NULL;
}

static bool find_all(void)
{
	return find_symbol(&cks_checkpoint_calls.state, "cuCheckpointProcessGetState") &&
	       find_symbol(&cks_checkpoint_calls.lock, "cuCheckpointProcessLock") &&
	       find_symbol(&cks_checkpoint_calls.checkpoint, "cuCheckpointProcessCheckpoint") &&
	       find_symbol(&cks_checkpoint_calls.restore, "cuCheckpointProcessRestore") &&
	       find_symbol(&cks_checkpoint_calls.unlock, "cuCheckpointProcessUnlock");
}

void cks_checkpoint_fail(struct cks_checkpoint_answer *a, int status, const char *format, ...)
{
	va_list args;

	a->status = status;
	va_start(args, format);
	vsnprintf(a->why, sizeof(a->why), format, args);
	va_end(args);
}

bool cks_checkpoint_check(struct cks_checkpoint_answer *a, const char *call, CUresult err)
{
	if (err)
		cks_checkpoint_fail(a, CK_CHECKPOINT_FAILED, "the driver's %s: %s", call,
				    cks_error_name(err));
	return err == CUDA_SUCCESS;
}

bool cks_checkpoint_state(struct cks_checkpoint_answer *a, int pid, CUprocessState *state)
{
	if (!cks_checkpoint_check(a, "cuCheckpointProcessGetState",
				  cks_checkpoint_calls.state(pid, state)))
		return false;
	if (*state == CU_PROCESS_STATE_FAILED)
		cks_checkpoint_fail(a, CK_CHECKPOINT_LOST,
				    "the driver has lost the process's GPU state");
	return *state != CU_PROCESS_STATE_FAILED;
}

/* The free memory after the session has left. Others allocate and free meanwhile, so its own use
 * before counts, if that is known. */
static void read_after(const struct cks_gpu_room *before, const struct cks_gpu_room *used,
		       struct cks_gpu_room *after)
{
	if (used->count == 0) {
		cks_gpu_room_read(after);
		return;
	}
	*after = *before;
	for (unsigned int i = 0; i < after->count; i++)
		after->bytes[i] += used->bytes[i];
}

/* The need of a session whose worker has moved some of its memory before. @words: its bytes, the
 * marks of its GPUs, and the bytes that were moved there. */
static void compute_need(const struct cks_gpu_room *before, const struct cks_gpu_room *after,
			 const char *bytes, char *const *words, struct cks_gpu_room *need)
{
	uint64_t all = strtoull(bytes, NULL, 10), away[CK_NOTE_GPUS], sum = 0;
	uint32_t marks[CK_NOTE_GPUS];

	cks_checkpoint_marks(words[0], marks);
	cks_checkpoint_bytes(words[1], away);
	for (size_t i = 0; i < CK_NOTE_GPUS; i++)
		sum += away[i];
	cks_gpu_room_need(before, after, all - ck_min(all, sum), need);
	for (size_t i = 0; i < CK_NOTE_GPUS; i++)
		cks_gpu_room_add(need, marks[i], away[i]);
}

/* @words: milliseconds to wait and the session's bytes; and the arguments of compute_need(). */
static void move_out(struct cks_checkpoint_answer *a, int pid, char *const *words)
{
	const char *bytes = strchr(words[0], ',');
	CUcheckpointLockArgs lock = {.timeoutMs = (unsigned int)atoi(words[0])};
	struct cks_gpu_room before, used, after;
	CUprocessState state;
	CUresult err;

	cks_gpu_room_read(&before);
	if (!cks_gpu_room_used(pid, &used))
		used.count = 0;
	if (!cks_checkpoint_state(a, pid, &state))
		return;
	if (state == CU_PROCESS_STATE_RUNNING) {
		err = cks_checkpoint_calls.lock(pid, &lock);
		if (err == CUDA_ERROR_NOT_READY)
			cks_checkpoint_fail(
				a, CK_CHECKPOINT_FAILED,
				"its work on the GPU is still running (--suspend-wait)");
		else
			cks_checkpoint_check(a, "cuCheckpointProcessLock", err);
		if (err)
			return;
		state = CU_PROCESS_STATE_LOCKED;
	}
	if (state == CU_PROCESS_STATE_LOCKED &&
	    !cks_checkpoint_check(a, "cuCheckpointProcessCheckpoint",
				  cks_checkpoint_calls.checkpoint(pid, NULL)) &&
	    cks_checkpoint_calls.unlock(pid, NULL) != CUDA_SUCCESS)
		a->status = CK_CHECKPOINT_LOST;
	read_after(&before, &used, &after);
	compute_need(&before, &after, bytes ? bytes + 1 : "0", words + 1, &a->need);
}

static bool open_driver(struct cks_checkpoint_answer *a, const char *driver)
{
	if (cks_driver_open(driver, a->why, sizeof(a->why)) == 0 && find_all())
		return cks_checkpoint_check(a, "cuInit", ck_driver.cuInit(0));
	if (!a->why[0])
		cks_checkpoint_fail(a, 0,
				    "the driver is too old: it has no cuCheckpointProcess...");
	a->status = CK_CHECKPOINT_FAILED;
	return false;
}

int cks_checkpoint_main(char *const *words)
{
	static struct cks_checkpoint_way way;
	struct cks_checkpoint_answer a = {.status = CK_CHECKPOINT_DONE, .device = -1};
	bool out = strcmp(words[2], "out") == 0;
	int pid = atoi(words[1]);
	int64_t begin;

	/* after a crash of the supervisor, the next one finishes this: two movers would disturb
	 * each other */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_NAME, "cricket-suspend");
	if (out)
		unsetenv("CUDA_VISIBLE_DEVICES"); /* a worker may have others than the server */
	if ((out || cks_checkpoint_way(words[0], words + 3, &way, &a)) &&
	    open_driver(&a, words[0])) {
		begin = ck_now_ms();
		if (out)
			move_out(&a, pid, words + 3);
		else
			cks_checkpoint_in(&a, pid, &way);
		a.ms = (unsigned int)(ck_now_ms() - begin);
	}
	_exit(ck_fd_write_full(CK_ANSWER_FD, &a, sizeof(a)) < 0);
}

/* --- in the supervisor */

_Static_assert(sizeof(struct cks_checkpoint_answer) <= PIPE_BUF, "an answer is one write");

/* The arguments of a move. */
struct arguments {
	char pid[16], more[CK_ROOM_TEXT], marks[CK_NOTE_GPUS * 11 + 1], seat[16];
	char away[CK_NOTE_GPUS * 21 + 1], room_ms[16];
	char *list[14];
};

static void print_marks(const uint32_t *marks, char *text, size_t size)
{
	size_t at = 0;

	for (size_t i = 0; i < CK_NOTE_GPUS; i++)
		at += (size_t)snprintf(text + at, size - at, "%s%u", i ? "," : "", marks[i]);
}

static void print_bytes(const uint64_t *bytes, char *text, size_t size)
{
	size_t at = 0;

	for (size_t i = 0; i < CK_NOTE_GPUS; i++)
		at += (size_t)snprintf(text + at, size - at, "%s%llu", i ? "," : "",
				       (unsigned long long)bytes[i]);
}

static void fill_arguments(struct arguments *a, const char *name,
			   const struct cks_checkpoint_move *move)
{
	char **at = a->list;

	snprintf(a->pid, sizeof(a->pid), "%d", (int)move->worker);
	*at++ = (char *)"cricket-rpc-server";
	*at++ = (char *)CK_CHECKPOINT_ARGUMENT;
	*at++ = (char *)(uintptr_t)name;
	*at++ = a->pid;
	*at++ = (char *)(move->out ? "out" : "in");
	*at++ = a->more;
	*at++ = a->marks;
	print_marks(move->gpus.marks, a->marks, sizeof(a->marks));
	if (move->out) {
		snprintf(a->more, sizeof(a->more), "%u,%llu", move->wait_ms,
			 (unsigned long long)move->bytes);
		print_bytes(move->away, a->away, sizeof(a->away));
		*at++ = a->away;
		*at = NULL;
		return;
	}
	cks_gpu_room_print(move->need, a->more);
	snprintf(a->seat, sizeof(a->seat), "%ld", move->account < 0 ? -1l : (long)move->seat);
	*at++ = (char *)(uintptr_t)move->gpus.goal;
	*at++ = (char *)(uintptr_t)move->gpus.there;
	*at++ = (char *)(uintptr_t)move->allowed;
	*at++ = (char *)(move->anywhere ? "1" : "0");
	*at++ = a->seat;
	snprintf(a->room_ms, sizeof(a->room_ms), "%u", move->wait_ms);
	*at++ = a->room_ms;
	*at = NULL;
}

pid_t cks_checkpoint_start(const char *name, const struct cks_checkpoint_move *move, int *fd)
{
	struct arguments arguments;
	int ends[2];
	pid_t pid;

	fill_arguments(&arguments, name, move);
	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
		return -errno;
	pid = fork();
	if (pid == 0)
		cks_child_execute(arguments.list, ends[1], move->out ? -1 : move->account);
	*fd = ends[0];
	close(ends[1]);
	if (pid > 0)
		return pid;
	pid = -errno;
	close(ends[0]);
	return pid;
}

void cks_checkpoint_read(int fd, struct cks_checkpoint_answer *a)
{
	if (read(fd, a, sizeof(*a)) == (ssize_t)sizeof(*a)) {
		a->why[sizeof(a->why) - 1] = '\0';
		return;
	}
	*a = (struct cks_checkpoint_answer){
		.status = CK_CHECKPOINT_KILLED,
		.why = "the process for it has ended without an answer"};
}
