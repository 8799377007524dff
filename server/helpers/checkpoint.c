/*
 * server/helpers/checkpoint.c - see checkpoint.h.
 *
 * Each move begins with the state that it finds, so that one which was interrupted can be repeated.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "server/helpers/checkpoint.h"
#include "server/session/driver.h"
#include "server/session/session.h"
#include "server/processes/child.h"
#include "util/fd.h"
#include "util/log.h"
#include "util/until.h"

CK_LOG_DEFINE("server");

#define CK_ANSWER_FD 3

/* The driver's calls, which the table of rpc/driver.api refuses to clients. */
static struct {
	CUresult (*state)(int pid, CUprocessState *state);
	CUresult (*lock)(int pid, CUcheckpointLockArgs *args);
	CUresult (*checkpoint)(int pid, CUcheckpointCheckpointArgs *args);
	CUresult (*restore)(int pid, CUcheckpointRestoreArgs *args);
	CUresult (*unlock)(int pid, CUcheckpointUnlockArgs *args);
} driver;

static bool find(void *function, const char *name)
{
	*(void **)function = dlsym(cks_driver_library(), name);
	return *(void **)function != NULL;
}

static bool find_all(void)
{
	return find(&driver.state, "cuCheckpointProcessGetState") &&
	       find(&driver.lock, "cuCheckpointProcessLock") &&
	       find(&driver.checkpoint, "cuCheckpointProcessCheckpoint") &&
	       find(&driver.restore, "cuCheckpointProcessRestore") &&
	       find(&driver.unlock, "cuCheckpointProcessUnlock");
}

static void fail(struct cks_checkpoint_answer *a, int status, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static void fail(struct cks_checkpoint_answer *a, int status, const char *format, ...)
{
	va_list args;

	a->status = status;
	va_start(args, format);
	vsnprintf(a->why, sizeof(a->why), format, args);
	va_end(args);
}

/* Note that @call failed, unless it did not. */
static bool check(struct cks_checkpoint_answer *a, const char *call, CUresult err)
{
	if (err)
		fail(a, CK_CHECKPOINT_FAILED, "the driver's %s: %s", call, cks_error_name(err));
	return err == CUDA_SUCCESS;
}

static bool state_of(struct cks_checkpoint_answer *a, int pid, CUprocessState *state)
{
	if (!check(a, "cuCheckpointProcessGetState", driver.state(pid, state)))
		return false;
	if (*state == CU_PROCESS_STATE_FAILED)
		fail(a, CK_CHECKPOINT_LOST, "the driver has lost the process's GPU state");
	return *state != CU_PROCESS_STATE_FAILED;
}

/* @words: milliseconds to wait, and the session's bytes. */
static void move_out(struct cks_checkpoint_answer *a, int pid, const char *words)
{
	const char *bytes = strchr(words, ',');
	CUcheckpointLockArgs lock = {.timeoutMs = (unsigned int)atoi(words)};
	struct cks_room before, after;
	CUprocessState state;
	CUresult err;

	cks_room_read(&before);
	if (!state_of(a, pid, &state))
		return;
	if (state == CU_PROCESS_STATE_RUNNING) {
		err = driver.lock(pid, &lock);
		if (err == CUDA_ERROR_NOT_READY)
			fail(a, CK_CHECKPOINT_FAILED,
			     "its work on the GPU is still running (--suspend-wait)");
		else
			check(a, "cuCheckpointProcessLock", err);
		if (err)
			return;
		state = CU_PROCESS_STATE_LOCKED;
	}
	if (state == CU_PROCESS_STATE_LOCKED &&
	    !check(a, "cuCheckpointProcessCheckpoint", driver.checkpoint(pid, NULL)) &&
	    driver.unlock(pid, NULL) != CUDA_SUCCESS)
		a->status = CK_CHECKPOINT_LOST;
	cks_room_read(&after);
	cks_room_need(&before, &after, bytes ? strtoull(bytes + 1, NULL, 10) : 0, &a->need);
}

static bool has_room(struct cks_checkpoint_answer *a, const char *words)
{
	struct cks_room room, need;
	char why[sizeof(a->why)];

	cks_room_parse(words, &need);
	cks_room_read(&room);
	if (cks_room_suffices(&room, &need, why, sizeof(why)))
		return true;
	fail(a, CK_CHECKPOINT_NO_ROOM, "%s", why);
	return false;
}

static void move_in(struct cks_checkpoint_answer *a, int pid, const char *words)
{
	CUprocessState state;
	CUresult err;

	if (!state_of(a, pid, &state))
		return;
	if (state == CU_PROCESS_STATE_CHECKPOINTED) {
		if (!has_room(a, words))
			return;
		err = driver.restore(pid, NULL);
		if (!check(a, "cuCheckpointProcessRestore", err)) {
			if (err == CUDA_ERROR_OUT_OF_MEMORY)
				a->status = CK_CHECKPOINT_TOO_LATE;
			return;
		}
		state = CU_PROCESS_STATE_LOCKED;
	}
	if (state == CU_PROCESS_STATE_LOCKED)
		check(a, "cuCheckpointProcessUnlock", driver.unlock(pid, NULL));
}

int cks_checkpoint_main(char *const *words)
{
	struct cks_checkpoint_answer a = {.status = CK_CHECKPOINT_DONE};
	int pid = atoi(words[1]);
	int64_t begin;

	/* after a crash of the supervisor, the next one finishes this: two movers would disturb each other */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_NAME, "cricket-suspend");
	if (cks_driver_open(words[0], a.why, sizeof(a.why)) < 0 || !find_all()) {
		if (!a.why[0])
			fail(&a, 0, "the driver is too old: it has no cuCheckpointProcess...");
		a.status = CK_CHECKPOINT_FAILED;
	} else if (check(&a, "cuInit", ck_driver.cuInit(0))) {
		begin = ck_now_ms();
		if (strcmp(words[2], "out") == 0)
			move_out(&a, pid, words[3]);
		else
			move_in(&a, pid, words[3]);
		a.ms = (unsigned int)(ck_now_ms() - begin);
	}
	_exit(ck_fd_write_full(CK_ANSWER_FD, &a, sizeof(a)) < 0);
}

/* --- in the supervisor */

static _Noreturn void become(char *const *arguments, int fd)
{
	int high = fcntl(fd, F_DUPFD_CLOEXEC, 10);

	cks_child_signals();
	if (high >= 0 && dup2(high, CK_ANSWER_FD) >= 0)
		execv("/proc/self/exe", arguments);
	_exit(127);
}

pid_t cks_checkpoint_start(const char *name, const struct cks_checkpoint_move *move, int *fd)
{
	char pid_text[16], more[CK_ROOM_TEXT];
	char *arguments[] = {(char *)"cricket-rpc-server",
			     (char *)CK_CHECKPOINT_ARGUMENT,
			     (char *)name,
			     pid_text,
			     (char *)(move->out ? "out" : "in"),
			     more,
			     NULL};
	int ends[2];
	pid_t pid;

	snprintf(pid_text, sizeof(pid_text), "%d", (int)move->worker);
	if (move->out)
		snprintf(more, sizeof(more), "%u,%llu", move->wait_ms,
			 (unsigned long long)move->bytes);
	else
		cks_room_print(move->need, more);
	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
		return -errno;
	pid = fork();
	if (pid == 0)
		become(arguments, ends[1]);
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
		.status = CK_CHECKPOINT_FAILED,
		.why = "the process for it has ended without an answer"};
}
