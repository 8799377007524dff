/*
 * server/supervisor/rpcbind.c - registration with rpcbind, so that `rpcinfo` shows program 99.
 *
 * libtirpc's calls block on a slow or dead rpcbind. So a child process makes them, and only if
 * something answers at the port of rpcbind.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <rpc/rpc.h>
#include <rpc/rpcb_clnt.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "rpc/record.h"
#include "server/processes/child.h"
#include "server/supervisor/host.h"
#include "util/log.h"

CK_LOG_DEFINE("server");

#define CK_RPCBIND_PORT 111
#define CK_ANSWER_MS 200
#define CK_CHILD_S 5 /* time limit of the child */
#define CK_UNSET_MS 1000

/* A portable server (make portable) has no Kerberos, which this part of libtirpc needs: it is then
 * not linked, and the server registers nowhere. */
#pragma weak rpcb_set
#pragma weak rpcb_unset

static bool registered;

static bool rpcbind_answers(void)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(CK_RPCBIND_PORT)};
	struct pollfd p = {.events = POLLOUT};
	int error = 0;
	socklen_t size = sizeof(error);
	bool ok;

	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	p.fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (p.fd < 0)
		return false;
	connect(p.fd, (struct sockaddr *)&at, sizeof(at));
	ok = poll(&p, 1, CK_ANSWER_MS) == 1 &&
	     getsockopt(p.fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0;
	close(p.fd);
	return ok;
}

/* Run in the child, for at most CK_CHILD_S. */
static _Noreturn void run_child(struct sockaddr_in *address)
{
	struct netconfig *tcp;
	struct netbuf buf = {.maxlen = sizeof(*address), .len = sizeof(*address), .buf = address};
	int ok;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	cks_child_signals();
	signal(SIGALRM, SIG_DFL);
	alarm(CK_CHILD_S);
	tcp = getnetconfigent("tcp");
	if (!tcp)
		_exit(1);
	rpcb_unset(CK_PROGRAM, CK_VERSION, tcp);
	ok = !address || rpcb_set(CK_PROGRAM, CK_VERSION, tcp, &buf);
	_exit(!ok);
}

void cks_rpcbind_set(int fd)
{
	struct sockaddr_storage bound;
	struct sockaddr_in address;
	socklen_t size = sizeof(bound);
	pid_t pid;

	if (getsockname(fd, (struct sockaddr *)&bound, &size) < 0)
		return;
	/* rpcbind's tcp means IPv4; register a dual-stack IPv6 socket for any address. */
	address = (struct sockaddr_in){.sin_family = AF_INET};
	if (bound.ss_family == AF_INET)
		address = *(struct sockaddr_in *)&bound;
	else if (bound.ss_family == AF_INET6)
		address.sin_port = ((struct sockaddr_in6 *)&bound)->sin6_port;
	else
		return;
	if (registered || !rpcb_set || !rpcbind_answers())
		return;
	pid = fork();
	if (pid == 0)
		run_child(&address);
	registered = pid > 0;
}

void cks_rpcbind_unset(void)
{
	const struct timespec step = {.tv_nsec = 10 * 1000000L};
	pid_t pid;

	if (!registered || !rpcbind_answers())
		return;
	pid = fork();
	if (pid == 0)
		run_child(NULL);
	for (int ms = 0; pid > 0 && ms < CK_UNSET_MS; ms += 10) {
		if (waitpid(pid, NULL, WNOHANG) == pid)
			return;
		nanosleep(&step, NULL);
	}
	if (pid > 0)
		kill(pid, SIGKILL);
}
