/*
 * server/worker/fork_server.c - see fork_server.h.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "server/options/options.h"
#include "server/processes/messages.h"
#include "server/session/driver.h"
#include "server/worker/fork_server.h"

#define LOW 10 /* descriptors below are a worker's */

/* The C library's record of the only thread, which a fork renews: where its id is, and its list of
 * robust mutexes. */
struct thread {
	int *id;
	void *robust;
	size_t robust_size;
};

static bool find_thread(struct thread *t)
{
#if defined(__GLIBC__) && defined(PR_GET_TID_ADDRESS) && !defined(__SANITIZE_THREAD__) &&          \
	!defined(__SANITIZE_ADDRESS__)
	return prctl(PR_GET_TID_ADDRESS, &t->id, 0, 0, 0) == 0 && t->id && *t->id == getpid() &&
	       syscall(SYS_get_robust_list, 0, &t->robust, &t->robust_size) == 0;
#else
	(void)t;
	return false;
#endif
}

int cks_fork_server_possible(void)
{
	struct thread t;

	return find_thread(&t);
}

/* fork(2), but the child's parent is this process's own. The C library's fork has no such flag.
 * This does what it does for a process with one thread and no handlers. */
static pid_t fork_sibling(const struct thread *t)
{
	long pid = syscall(SYS_clone,
			   CLONE_PARENT | CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID | SIGCHLD, 0, 0,
			   t->id, 0);

	if (pid == 0)
		syscall(SYS_set_robust_list, t->robust, t->robust_size);
	return pid < 0 ? -errno : (pid_t)pid;
}

static bool has_one_thread(void)
{
	DIR *folder = opendir("/proc/self/task");
	unsigned int count = 0;

	while (folder && readdir(folder))
		count++;
	if (folder)
		closedir(folder);
	return count == 3; /* with "." and ".." */
}

/* Receive a request with its two descriptors, all above LOW. False: the supervisor has gone. */
static bool receive_request(int control, struct cks_fork_server_request *request, int fds[2])
{
	union {
		struct cmsghdr align;
		char space[CMSG_SPACE(2 * sizeof(int))];
	} ancillary;
	struct iovec iov = {request, sizeof(*request)};
	struct msghdr message = {.msg_iov = &iov,
				 .msg_iovlen = 1,
				 .msg_control = ancillary.space,
				 .msg_controllen = sizeof(ancillary.space)};
	struct cmsghdr *header;
	ssize_t n;

	do
		n = recvmsg(control, &message, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	header = n == (ssize_t)sizeof(*request) ? CMSG_FIRSTHDR(&message) : NULL;
	if (!header || header->cmsg_len != CMSG_LEN(2 * sizeof(int)))
		return false;
	memcpy(fds, CMSG_DATA(header), 2 * sizeof(int));
	request->gpus[sizeof(request->gpus) - 1] = '\0';
	return true;
}

/* In a worker: only its own descriptors stay. */
static void setup_worker(int control, const struct cks_fork_server_request *request,
			 const int fds[2])
{
	close(control);
	if (dup2(fds[0], CK_WORKER_CONNECTION) < 0 || dup2(fds[1], CK_WORKER_CONTROL) < 0)
		_exit(126);
	for (int fd = CK_WORKER_CONTROL + 1; fd < LOW; fd++)
		close(fd);
	close(fds[0]);
	close(fds[1]);
	if (request->gpus[0])
		setenv("CUDA_VISIBLE_DEVICES", request->gpus, 1);
}

/* The numbers that workers need, and those below LOW that come with a request, are never free
 * here. */
static int make_room(void)
{
	int control = fcntl(CK_FORK_SERVER_SOCKET, F_DUPFD_CLOEXEC, LOW);
	int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);

	for (int fd = CK_FORK_SERVER_SOCKET; fd < LOW; fd++) {
		if (control < 0 || nothing < 0 ||
		    (fd != nothing && dup3(nothing, fd, O_CLOEXEC) < 0))
			return -1;
	}
	return control;
}

void cks_fork_server_serve(const struct cks_options *options)
{
	struct cks_fork_server_request request;
	struct thread thread;
	char why[256];
	int control = make_room(), fds[2];
	int32_t pid = 0;

	prctl(PR_SET_NAME, "cricket-nursery");
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGINT, SIG_IGN);
	if (control < 0 || !find_thread(&thread) ||
	    cks_driver_open(options->driver, why, sizeof(why)) < 0 || !has_one_thread())
		_exit(1);
	while (send(control, &pid, sizeof(pid), MSG_NOSIGNAL) > 0 &&
	       receive_request(control, &request, fds)) {
		pid = fork_sibling(&thread);
		if (pid == 0) {
			setup_worker(control, &request, fds);
			return;
		}
		close(fds[0]);
		close(fds[1]);
	}
	_exit(0);
}
