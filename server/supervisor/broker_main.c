/*
 * server/supervisor/broker_main.c - the process of the memory broker.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "m3/broker.h"
#include "server/door/broker.h"
#include "server/policy/users.h"
#include "server/processes/sandbox.h"
#include "server/processes/state.h"
#include "server/worker/orphan_reconnect.h"
#include "util/process/fd.h"
#include "util/log.h"

CK_LOG_DEFINE("server");

#define CK_BROKER_REGIONS 1024 /* per user, as in m3-server */

/* How the broker outlives its supervisor. */
struct outliving {
	const char *folder;
	unsigned int seconds;
	int parent; /* the supervisor that started it, a pidfd */
};

static void *outlive_supervisor(void *data)
{
	const struct outliving *o = data;
	struct pollfd parent = {.fd = o->parent, .events = POLLIN};
	struct cks_state self;
	char byte;
	int leash;

	cks_state_init(&self);
	self.broker.fd = CK_BROKER_FD;
	while (poll(&parent, 1, -1) < 0)
		;
	while ((leash = cks_orphan_reconnect(o->folder, o->seconds, &self, CK_BROKER_FD)) >= 0) {
		while (recv(leash, &byte, 1, 0) > 0)
			; /* until that supervisor has gone, too */
		close(leash);
	}
	ck_warn("the memory broker ends: its server has not returned");
	_exit(1);
}

/* Start a thread that takes no signals: they are for the broker's loop. */
static void start_outliving(struct outliving *o)
{
	sigset_t all, before;
	pthread_t thread;
	pid_t parent = getppid();

	o->parent = (int)syscall(SYS_pidfd_open, parent, 0);
	if (o->parent < 0 || getppid() != parent)
		return;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	if (pthread_create(&thread, NULL, outlive_supervisor, o) == 0) {
		pthread_detach(thread);
		prctl(PR_SET_PDEATHSIG, 0);
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

int cks_broker_main(const char *driver, const char *folder, unsigned int seconds, const char *users)
{
	static struct outliving outliving;
	struct ck_m3_broker_options options = {
		.driver = driver, .listener = CK_BROKER_FD, .quota_regions = CK_BROKER_REGIONS};

	struct cks_user_range workers = {.first = 0};

	if (*users && cks_users_parse(users, &workers) < 0)
		return 2;
	options.workers_first = workers.first;
	options.workers_last = workers.last;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_NAME, "cricket-broker");
	signal(SIGPIPE, SIG_IGN);
	ck_fd_set_cloexec(CK_BROKER_FD, true);
	if (cks_sandbox_enter(CK_SANDBOX_SERVICE) < 0)
		return 1;
	outliving = (struct outliving){.folder = folder, .seconds = seconds};
	if (*folder)
		start_outliving(&outliving);
	return ck_m3_broker_main(&options);
}
