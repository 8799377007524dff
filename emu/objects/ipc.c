/*
 * emu/objects/ipc.c - see ipc.h. A shared event is a page of a file.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "emu/objects/ipc.h"
#include "util/process/fd.h"
#include "util/page.h"
#include "util/util.h"

#define STEP_NS 100000 /* between two polls of another process's event */

/* --- handles */

CUresult ck_emu_ipc_handle_make(struct ck_emu_ipc_handle *h, enum ck_emu_ipc_kind kind, int fd)
{
	struct stat st;

	memset(h, 0, sizeof(*h));
	if (fd < 0 || fstat(fd, &st) < 0)
		return CUDA_ERROR_INVALID_VALUE;
	h->mark = CK_EMU_IPC_MARK;
	h->pid = getpid();
	h->fd = fd;
	h->inode = st.st_ino;
	h->kind = kind;
	return CUDA_SUCCESS;
}

int ck_emu_ipc_handle_open(const struct ck_emu_ipc_handle *h, enum ck_emu_ipc_kind kind)
{
	char path[64];
	struct stat st;
	int fd;

	if (h->mark != CK_EMU_IPC_MARK || h->kind != (int32_t)kind)
		return -1;
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", h->pid, h->fd);
	fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
	if (fd >= 0 && (fstat(fd, &st) < 0 || st.st_ino != h->inode)) {
		close(fd); /* the number stands for something else by now */
		fd = -1;
	}
	return fd;
}

/* --- events */

struct ck_emu_ipc_event *ck_emu_ipc_event_map(int fd)
{
	struct stat st;
	void *at = MAP_FAILED;

	if (fstat(fd, &st) == 0 && st.st_size == (off_t)ck_page())
		at = mmap(NULL, ck_page(), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	return at == MAP_FAILED ? NULL : at;
}

struct ck_emu_ipc_event *ck_emu_ipc_event_create(int *fd)
{
	struct ck_emu_ipc_event *event = NULL;

	*fd = memfd_create("cricket event", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (*fd >= 0 && ck_fd_resize(*fd, ck_page()) == 0 &&
	    fcntl(*fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL) == 0)
		event = ck_emu_ipc_event_map(*fd);
	if (!event && *fd >= 0)
		close(*fd);
	return event;
}

void ck_emu_ipc_event_close(struct ck_emu_ipc_event *event, int fd)
{
	if (!event)
		return;
	munmap(event, ck_page());
	close(fd);
}

void ck_emu_ipc_event_reach(struct ck_emu_ipc_event *event, uint64_t number)
{
	ck_atomic_lift(&event->reached, number);
}

void ck_emu_ipc_event_wait(const struct ck_emu_ipc_event *event, uint64_t number,
			   const struct ck_emu_context *context)
{
	while (atomic_load(&event->reached) < number && atomic_load(&context->live) &&
	       !atomic_load(&context->cancelled))
		nanosleep(&(struct timespec){.tv_nsec = STEP_NS}, NULL);
}
