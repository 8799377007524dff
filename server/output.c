/*
 * server/output.c - the file in memory behind a worker's stdout; see output.h.
 *
 * Writers append, at any time. What has been taken is cut out as a hole, so the file keeps its
 * length, offsets only grow, and nothing that is written meanwhile is lost.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gen/handlers.h"
#include "server/output.h"
#include "server/session.h"
#include "util/log.h"

CK_LOG_DEFINE("server");

#define CK_OUTPUT_MAX (512u << 10) /* bytes of one reply */

struct ck_output {
	pthread_mutex_t lock;
	int fd;
	_Atomic off_t taken; /* bytes that have been taken; changed under the lock */
};

int ck_output_redirect(void)
{
	int fd = memfd_create("cricket-stdout", MFD_CLOEXEC);
	int ret;

	if (fd < 0)
		return -errno;
	fflush(stdout);
	if (fcntl(fd, F_SETFL, O_APPEND) < 0 || dup2(fd, STDOUT_FILENO) < 0) {
		ret = -errno;
		close(fd);
		return ret;
	}
	setvbuf(stdout, NULL, _IONBF, 0);
	return fd;
}

int ck_output_create(int fd, struct ck_output **out)
{
	struct ck_output *o = calloc(1, sizeof(*o));

	if (!o)
		return -ENOMEM;
	pthread_mutex_init(&o->lock, NULL);
	o->fd = fd;
	*out = o;
	return 0;
}

void ck_output_destroy(struct ck_output *o)
{
	if (!o)
		return;
	if (o->fd >= 0)
		close(o->fd);
	pthread_mutex_destroy(&o->lock);
	free(o);
}

bool ck_output_pending(struct ck_output *o)
{
	struct stat st;

	return o->fd >= 0 && fstat(o->fd, &st) == 0 && st.st_size > o->taken;
}

size_t ck_output_take(struct ck_output *o, void *buf, size_t size)
{
	ssize_t n = 0;

	if (o->fd < 0)
		return 0;
	pthread_mutex_lock(&o->lock);
	n = pread(o->fd, buf, size, o->taken);
	if (n > 0) {
		o->taken += n;
		if (fallocate(o->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, o->taken) < 0)
			ck_debug("output that was taken keeps its memory: %m");
	}
	pthread_mutex_unlock(&o->lock);
	return n > 0 ? (size_t)n : 0;
}

CUresult ck_serve_ck_output(struct ck_request *q, ck_output_args *a, ck_output_res *res)
{
	(void)a;
	if (!ck_output_pending(q->session->output))
		return CUDA_SUCCESS;
	res->text.text_val = malloc(CK_OUTPUT_MAX);
	if (!res->text.text_val)
		return CUDA_ERROR_OUT_OF_MEMORY;
	res->text.text_len = (u_int)ck_output_take(q->session->output, res->text.text_val,
						   CK_OUTPUT_MAX);
	return CUDA_SUCCESS;
}
