/*
 * server/processes/state_fd.c - the state as a file in memory, and its descriptors across an exec.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/processes/state.h"
#include "util/process/fd.h"

#define CK_STATE_SIZE_MAX (64 << 20)
#define CK_SEALS (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

int cks_state_write(const struct cks_state *state)
{
	char *text = cks_state_print(state);
	int fd, ret;

	if (!text)
		return -ENOMEM;
	fd = memfd_create("cricket-state", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	ret = fd < 0 ? -errno : ck_fd_write_full(fd, text, strlen(text));
	free(text);
	if (ret == 0 && fcntl(fd, F_ADD_SEALS, CK_SEALS) < 0)
		ret = -errno;
	if (ret < 0 && fd >= 0)
		close(fd);
	return ret < 0 ? ret : fd;
}

int cks_state_read(int fd, struct cks_state *state)
{
	int seals = fcntl(fd, F_GET_SEALS), ret = -EPROTO;
	struct stat st;
	char *text;

	cks_state_init(state);
	if (seals < 0 || (seals & CK_SEALS) != CK_SEALS)
		return -EPERM;
	if (fstat(fd, &st) < 0 || st.st_size > CK_STATE_SIZE_MAX)
		return -EFBIG;
	text = malloc((size_t)st.st_size + 1);
	if (!text)
		return -ENOMEM;
	if (pread(fd, text, (size_t)st.st_size, 0) == st.st_size)
		ret = cks_state_parse(text, (size_t)st.st_size, state);
	free(text);
	return ret;
}

static void inherit_fd(int fd, bool on, int *ret)
{
	int error = fd >= 0 ? ck_fd_set_cloexec(fd, !on) : 0;

	if (error < 0)
		*ret = error;
}

int cks_state_inherit(const struct cks_state *s, bool on)
{
	int ret = 0;

	inherit_fd(s->pid_file, on, &ret);
	inherit_fd(s->broker.fd, on, &ret);
	inherit_fd(s->control.fd, on, &ret);
	inherit_fd(s->status.fd, on, &ret);
	inherit_fd(s->asker, on, &ret);
	inherit_fd(s->rendezvous.fd, on, &ret);
	inherit_fd(s->broker_process ? s->broker_process : -1, on, &ret);
	inherit_fd(s->broker_leash ? s->broker_leash : -1, on, &ret);
	for (size_t i = 0; i < s->listeners.count; i++)
		inherit_fd(s->listeners.list[i].fd, on, &ret);
	for (size_t i = 0; i < s->worker_count; i++) {
		inherit_fd(s->workers[i].control, on, &ret);
		inherit_fd(s->workers[i].process ? s->workers[i].process : -1, on, &ret);
	}
	for (size_t i = 0; i < s->fresh_count; i++)
		inherit_fd(s->fresh[i].fd, on, &ret);
	for (size_t i = 0; i < s->caller_count; i++) {
		inherit_fd(s->callers[i].fd, on, &ret);
		inherit_fd(s->callers[i].passed, on, &ret);
	}
	return ret;
}
