/*
 * server/worker/spare.c - a worker that waits for a client: see worker_part.h.
 *
 * Nothing here depends on a session. As in a fresh worker, the token is checked at the hello, and
 * arguments, environment and limits are the same.
 */
#define _GNU_SOURCE
#include <poll.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "server/memory/lease.h"
#include "server/objects/warm.h"
#include "server/options/options.h"
#include "server/processes/messages.h"
#include "server/worker/hello.h"
#include "server/worker/worker_part.h"
#include "util/process/fd.h"
#include "util/log.h"

CK_LOG_DEFINE("server");

static bool client_waits(void)
{
	struct pollfd p = {.fd = CK_WORKER_CONTROL, .events = POLLIN};

	return poll(&p, 1, 0) > 0;
}

/* Wait for the client's connection, and move it to a worker's descriptor. False: it must create
 * contexts first. */
static bool take_client(void)
{
	char kind = CK_CONTROL_PRESS;
	int fd = -1;

	while (kind == CK_CONTROL_PRESS) { /* a session needs memory */
		if (ck_fd_recv(CK_WORKER_CONTROL, &kind, 1, &fd) < 0)
			_exit(0); /* the server is stopping */
		if (kind == CK_CONTROL_PRESS)
			cks_lease_cancel();
	}
	if (kind == CK_CONTROL_WARM && fd < 0)
		return false;
	if (kind != CK_CONTROL_CLIENT || fd < 0 || dup2(fd, CK_WORKER_CONNECTION) < 0)
		_exit(CK_SPARE_FAILED);
	close(fd);
	ck_fd_set_cloexec(CK_WORKER_CONNECTION, true);
	return true;
}

static _Noreturn void become_fresh(char **argv)
{
	ck_fd_set_cloexec(CK_WORKER_CONNECTION, false);
	ck_fd_set_cloexec(CK_WORKER_CONTROL, false);
	argv[1] = (char *)CK_WORKER_ARGUMENT;
	execv("/proc/self/exe", argv);
	_exit(127);
}

/* If a client is waiting already, a fresh worker serves it and reports the error. */
static _Noreturn void give_up(char **argv)
{
	if (!client_waits())
		_exit(CK_SPARE_FAILED);
	take_client();
	become_fresh(argv);
}

static void send_note(int kind)
{
	struct cks_worker_note note;

	memset(&note, 0, sizeof(note));
	note.kind = kind;
	if (ck_fd_write_full(CK_WORKER_CONTROL, &note, sizeof(note)) < 0)
		_exit(0); /* the server has stopped */
}

void cks_spare_wait(const struct cks_options *options, char **argv)
{
	prctl(PR_SET_NAME, CK_SPARE_NAME);
	if (cks_hello_prepare(options) < 0)
		give_up(argv);
	send_note(CK_NOTE_STANDBY);
	while (!take_client()) {
		cks_warm_up(options->warm_devices);
		if (strcmp(options->warm_devices, "none") != 0)
			cks_hello_reserve(options);
		send_note(CK_NOTE_READY);
	}
	if (!cks_warm_sound()) {
		ck_warn("a spare worker's context is broken: the worker is replaced");
		become_fresh(argv);
	}
	prctl(PR_SET_NAME, "cricket-worker");
}
