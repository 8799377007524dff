/*
 * server/children/fork_server.c - see fork_server.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/children/fork_server.h"
#include "server/children/workers_part.h"
#include "server/processes/child.h"
#include "server/worker/fork_server.h"
#include "util/log.h"
#include "util/until.h"

CK_LOG_DEFINE("server");

#define READY_MS 1000  /* at the start of the server */
#define ANSWER_MS 5000 /* until it counts as stuck */
#define AGAIN_MS 1000  /* until another one is started after one has ended */

static int launch_fork_server(struct cks_fork_server *n, struct cks_worker_command *command)
{
	int pair[2], ret = 0;

	n->begun = ck_now_ms();
	n->ready = false;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	n->pid = fork();
	if (n->pid == 0) {
		command->arguments[1] = (char *)CK_FORK_SERVER_ARGUMENT;
		cks_child_execute(command->arguments, pair[1], -1);
	}
	if (n->pid < 0)
		ret = -errno;
	close(pair[1]);
	n->control = ret < 0 ? -1 : pair[0];
	if (ret < 0) {
		n->pid = 0;
		close(pair[0]);
	}
	return ret;
}

/* A word of it: -ETIMEDOUT, -EPIPE: it has ended. */
static pid_t receive_word(int control, int ms)
{
	struct pollfd p = {.fd = control, .events = POLLIN};
	int32_t word;
	int n;

	do
		n = poll(&p, 1, ms);
	while (n < 0 && errno == EINTR);
	if (n != 1)
		return -ETIMEDOUT;
	return recv(control, &word, sizeof(word), MSG_DONTWAIT) == (ssize_t)sizeof(word) ? word
											 : -EPIPE;
}

static bool is_ready(struct cks_fork_server *n, int ms)
{
	int word;

	if (n->ready || n->control < 0)
		return n->ready;
	word = receive_word(n->control, ms);
	n->ready = word == 0;
	if (word == -EPIPE)
		cks_fork_server_stop(n);
	return n->ready;
}

void cks_fork_server_start(struct cks_fork_server *n, const char *driver,
			   struct cks_worker_command *command)
{
	*n = (struct cks_fork_server){.control = -1};
	n->wanted = strcmp(driver, "emu") == 0 && cks_fork_server_possible();
	if (n->wanted)
		launch_fork_server(n, command);
}

void cks_fork_server_await(struct cks_fork_server *n)
{
	is_ready(n, READY_MS);
}

void cks_fork_server_stop(struct cks_fork_server *n)
{
	if (n->control >= 0)
		close(n->control); /* it ends */
	n->control = -1;
	n->ready = false;
}

static int send_request(int control, int connection, int worker_control, const char *gpus)
{
	struct cks_fork_server_request request = {.gpus = ""};
	union {
		struct cmsghdr align;
		char space[CMSG_SPACE(2 * sizeof(int))];
	} ancillary = {.space = {0}};
	struct iovec iov = {&request, sizeof(request)};
	struct msghdr message = {.msg_iov = &iov,
				 .msg_iovlen = 1,
				 .msg_control = ancillary.space,
				 .msg_controllen = sizeof(ancillary.space)};
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);
	const int fds[2] = {connection, worker_control};

	snprintf(request.gpus, sizeof(request.gpus), "%s", gpus);
	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(sizeof(fds));
	memcpy(CMSG_DATA(header), fds, sizeof(fds));
	return sendmsg(control, &message, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? -errno : 0;
}

pid_t cks_fork_server_fork(struct cks_fork_server *n, struct cks_worker_command *command,
			   int connection, int control, const char *gpus)
{
	pid_t pid;

	if (n->wanted && !n->pid && ck_now_ms() - n->begun > AGAIN_MS)
		launch_fork_server(n, command);
	if (!is_ready(n, 0) || send_request(n->control, connection, control, gpus) < 0)
		return -ENOENT;
	pid = receive_word(n->control, ANSWER_MS);
	if (pid == -ETIMEDOUT || pid == -EPIPE) {
		/* it may have forked: the connection is not for another one */
		ck_warn("the process from which workers are forked does not respond: killed");
		kill(n->pid, SIGKILL);
		cks_fork_server_stop(n);
	}
	return pid;
}

bool cks_fork_server_ended(struct cks_fork_server *n, pid_t pid)
{
	if (!n->pid || n->pid != pid)
		return false;
	cks_fork_server_stop(n);
	n->pid = 0;
	return true;
}
