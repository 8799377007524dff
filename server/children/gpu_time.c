/*
 * server/children/gpu_time.c - see gpu_time.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/children/gpu_time.h"
#include "server/children/workers.h"
#include "server/helpers/gpu_time_meter.h"
#include "server/processes/child.h"
#include "util/log.h"
#include "util/util.h"

CK_LOG_DEFINE("server");

static int launch_gauge(struct cks_gpu_time *g)
{
	char *arguments[] = {(char *)"cricket-rpc-server", (char *)CK_GPU_TIME_ARGUMENT,
			     (char *)(uintptr_t)g->driver, NULL};
	int pair[2], ret = 0;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	g->pid = fork();
	if (g->pid == 0)
		cks_child_execute(arguments, pair[1], -1);
	if (g->pid < 0)
		ret = -errno;
	close(pair[1]);
	if (ret < 0)
		close(pair[0]);
	else
		g->control = pair[0];
	return ret;
}

void cks_gpu_time_start(struct cks_gpu_time *g, bool wanted, const char *driver)
{
	int ret;

	*g = (struct cks_gpu_time){.wanted = wanted, .driver = driver, .control = -1};
	ret = wanted ? launch_gauge(g) : 0;
	if (ret < 0)
		ck_err("--gpu-time: %s", strerror(-ret));
}

void cks_gpu_time_stop(struct cks_gpu_time *g)
{
	if (g->control >= 0 && g->wanted)
		close(g->control); /* it ends */
	g->control = -1;
}

void cks_gpu_time_poll(const struct cks_gpu_time *g, struct pollfd *fd)
{
	*fd = (struct pollfd){.fd = g->wanted ? g->control : -1, .events = POLLIN};
}

void cks_gpu_time_run(struct cks_gpu_time *g, struct cks_workers *workers)
{
	struct cks_gpu_time_note note;
	ssize_t n = recv(g->control, &note, sizeof(note), MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n != (ssize_t)sizeof(note)) {
		cks_gpu_time_stop(g);
		return;
	}
	for (uint32_t i = 0; i < ck_min(note.count, (uint32_t)CK_GPU_TIME_NOTES); i++)
		cks_workers_add_gpu_time(workers, (pid_t)note.list[i].pid, note.list[i].us);
}

bool cks_gpu_time_ended(struct cks_gpu_time *g, pid_t pid)
{
	if (!g->wanted || g->pid != pid)
		return false;
	cks_gpu_time_stop(g);
	g->wanted = false;
	return true;
}
