/*
 * emu/checkpoint/mailbox.c - see mailbox.h.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "emu/checkpoint/evict.h"
#include "emu/checkpoint/mailbox.h"
#include "emu/core/call_gate.h"
#include "emu/core/emu.h"
#include "util/process/fd.h"
#include "util/log.h"
#include "util/until.h"

CK_LOG_DEFINE("emu");

#define DOZE_MS 100 /* the other process may end without waking anyone */

static struct {
	struct ck_emu_mailbox *box;
	int fd;
} own = {.fd = -1};

/* --- waiting, in both processes */

void ck_emu_mailbox_doze(_Atomic uint32_t *word, uint32_t value)
{
	const struct timespec time = {.tv_nsec = DOZE_MS * (long)CK_NS_PER_MS};

	syscall(SYS_futex, word, FUTEX_WAIT, value, &time, NULL, 0);
}

void ck_emu_mailbox_wake(_Atomic uint32_t *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

/* --- requests to this process, in the thread */

/* Wait for running work, and let no more in. */
static CUresult lock_process(const struct ck_emu_mailbox *box)
{
	struct timespec until = ck_until(box->timeout_ms * CK_NS_PER_MS);
	const struct timespec *limit = box->timeout_ms ? &until : NULL;

	if (!ck_emu_call_gate_close(limit))
		return CUDA_ERROR_NOT_READY;
	if (ck_emu_all_wait_until(limit))
		return CUDA_SUCCESS;
	ck_emu_call_gate_open();
	return CUDA_ERROR_NOT_READY;
}

static CUresult checkpoint_process(const struct ck_emu_mailbox *box)
{
	(void)box;
	return ck_emu_evict();
}

static CUresult restore_process(const struct ck_emu_mailbox *box)
{
	return ck_emu_evict_undo(box->pairs, ck_min(box->pair_count, (uint32_t)CK_EMU_MAX_DEVICES),
				 box->gpus);
}

static CUresult unlock_process(const struct ck_emu_mailbox *box)
{
	(void)box;
	ck_emu_call_gate_open();
	return CUDA_SUCCESS;
}

/* Each operation leads from one state to another. */
static const struct {
	CUprocessState from, to;
	CUresult (*run)(const struct ck_emu_mailbox *box);
} operations[] = {
	[CK_EMU_LOCK] = {CU_PROCESS_STATE_RUNNING, CU_PROCESS_STATE_LOCKED, lock_process},
	[CK_EMU_CHECKPOINT] = {CU_PROCESS_STATE_LOCKED, CU_PROCESS_STATE_CHECKPOINTED,
			       checkpoint_process},
	[CK_EMU_RESTORE] = {CU_PROCESS_STATE_CHECKPOINTED, CU_PROCESS_STATE_LOCKED,
			    restore_process},
	[CK_EMU_UNLOCK] = {CU_PROCESS_STATE_LOCKED, CU_PROCESS_STATE_RUNNING, unlock_process},
};

static CUresult carry_out(struct ck_emu_mailbox *box)
{
	unsigned int operation = (unsigned int)box->operation;
	CUresult result;

	if (operation >= CK_ARRAY_SIZE(operations))
		return CUDA_ERROR_INVALID_VALUE;
	if (atomic_load(&box->state) != (int32_t)operations[operation].from)
		return CUDA_ERROR_ILLEGAL_STATE;
	/* a call that is let in may ask for the state at once */
	if (operation == CK_EMU_UNLOCK)
		atomic_store(&box->state, CU_PROCESS_STATE_RUNNING);
	result = operations[operation].run(box);
	if (result == CUDA_SUCCESS)
		atomic_store(&box->state, (int32_t)operations[operation].to);
	return result;
}

static void *serve_mailbox(void *data)
{
	struct ck_emu_mailbox *box = data;

	prctl(PR_SET_NAME, "emu-checkpoint");
	box->thread = (int32_t)gettid();
	for (;;) {
		uint32_t asked = atomic_load(&box->asked);

		if (asked == atomic_load(&box->answered)) {
			syscall(SYS_futex, &box->asked, FUTEX_WAIT, asked, NULL, NULL, 0);
			continue;
		}
		box->result = (int32_t)carry_out(box);
		atomic_store(&box->answered, asked);
		ck_emu_mailbox_wake(&box->answered);
	}
	return NULL;
}

static int start_thread(struct ck_emu_mailbox *box)
{
	pthread_attr_t attributes;
	sigset_t all, was;
	pthread_t thread;
	int ret;

	sigfillset(&all);
	pthread_attr_init(&attributes);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	pthread_sigmask(SIG_SETMASK, &all, &was); /* signals are the application's */
	ret = -pthread_create(&thread, &attributes, serve_mailbox, box);
	pthread_sigmask(SIG_SETMASK, &was, NULL);
	pthread_attr_destroy(&attributes);
	return ret;
}

int ck_emu_mailbox_start(void)
{
	struct ck_emu_mailbox *box = MAP_FAILED;
	int fd = memfd_create(CK_EMU_MAILBOX, MFD_CLOEXEC), ret = 0;

	if (fd >= 0 && ck_fd_resize(fd, sizeof(*box)) == 0)
		box = mmap(NULL, sizeof(*box), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (box == MAP_FAILED) {
		ret = -errno;
		goto close_fd;
	}
	box->mark = CK_EMU_MAILBOX_MARK;
	madvise(box, sizeof(*box), MADV_DONTFORK); /* see is_own */
	ret = start_thread(box);
	if (ret == 0) {
		own.box = box;
		own.fd = fd;
		return 0;
	}
	munmap(box, sizeof(*box));
close_fd:
	if (fd >= 0)
		close(fd);
	ck_info("this process cannot be checkpointed: %s", strerror(-ret));
	return ret;
}

void ck_emu_mailbox_forked(void)
{
	if (!own.box)
		return;
	close(own.fd);
	own.box = NULL;
	own.fd = -1;
}

/* --- finding another process's */

/* Open entry @name of folder @dir of descriptors, if it is a mailbox; or -1. */
static int open_entry(int dir, const char *name)
{
	static const char wanted[] = "/memfd:" CK_EMU_MAILBOX;
	char link[sizeof(wanted) + 16];
	ssize_t n = readlinkat(dir, name, link, sizeof(link) - 1);

	if (n < (ssize_t)sizeof(wanted) - 1 || memcmp(link, wanted, sizeof(wanted) - 1) != 0)
		return -1;
	return openat(dir, name, O_RDWR | O_CLOEXEC);
}

static int find_file(int pid)
{
	char path[32];
	struct dirent *entry;
	int fd = -1;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	dir = opendir(path);
	while (dir && fd < 0 && (entry = readdir(dir)) != NULL)
		fd = open_entry(dirfd(dir), entry->d_name);
	if (dir)
		closedir(dir);
	return fd;
}

/* Is the mailbox that of process @pid? The child of a fork has its parent's descriptor for a
 * moment, but never the mapping. */
static bool is_own(int pid)
{
	char path[32], line[256];
	bool found = false;
	FILE *maps;

	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	maps = fopen(path, "re");
	while (maps && !found && fgets(line, sizeof(line), maps))
		found = strstr(line, "/memfd:" CK_EMU_MAILBOX) != NULL;
	if (maps)
		fclose(maps);
	return found;
}

struct ck_emu_mailbox *ck_emu_mailbox_open(int pid, int *fd)
{
	struct ck_emu_mailbox *box = MAP_FAILED;
	struct stat st;

	*fd = is_own(pid) ? find_file(pid) : -1;
	if (*fd < 0)
		return NULL;
	if (fstat(*fd, &st) == 0 && st.st_size == (off_t)sizeof(*box))
		box = mmap(NULL, sizeof(*box), PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
	if (box != MAP_FAILED && box->mark == CK_EMU_MAILBOX_MARK)
		return box;
	ck_emu_mailbox_close(box == MAP_FAILED ? NULL : box, *fd);
	return NULL;
}

void ck_emu_mailbox_close(struct ck_emu_mailbox *box, int fd)
{
	if (box)
		munmap(box, sizeof(*box));
	close(fd);
}
