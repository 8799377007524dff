/*
 * server/worker/client_identity.c - see worker_part.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "m3/message.h"
#include "server/nvml/nvml.h"
#include "server/options/options.h"
#include "server/policy/meter.h"
#include "server/policy/terms.h"
#include "server/policy/users.h"
#include "server/processes/messages.h"
#include "server/session/output.h"
#include "server/worker/hello.h"
#include "server/worker/worker_part.h"
#include "util/log.h"

CK_LOG_DEFINE("server");

/* Of the session: options of the process that are others for its identity. */
static struct cks_options own;
static char cache_dir[32], compute_dir[48];

/* Receive the message that must come now, with its descriptor. */
static int receive_message(char kind, void *message, size_t size, int *fd)
{
	long n = ck_m3_receive(CK_WORKER_CONTROL, message, size, fd, 0);
	char got = *(char *)message;

	if (n == (long)size && got == kind && *fd >= 0)
		return 0;
	if (*fd >= 0)
		close(*fd);
	if (n > 0 && got != CK_CONTROL_STOP)
		return -EPROTO;
	_exit(0); /* the server is stopping */
}

/*
 * The folder of the cache is reached by its descriptor only. The driver's own cache would be in the
 * home of the server's user. NVIDIA's driver shares memory by handles (cuIpc...) among processes
 * that had the same user when it was initialised: so that is done before, as in a spare. A process
 * that changes its user is not killed with its parent any more.
 */
static int become_user(uid_t user, int fd)
{
	int ret;

	snprintf(cache_dir, sizeof(cache_dir), "/proc/self/fd/%d", fd);
	snprintf(compute_dir, sizeof(compute_dir), "%s/compute", cache_dir);
	own.cache_dir = cache_dir;
	if (setenv("CUDA_CACHE_PATH", compute_dir, 1) < 0)
		return -errno;
	cks_hello_prepare(&own); /* the next try reports a failure to the client */
	ret = cks_users_become(&own.worker_users, user);
	if (ret < 0)
		ck_err("becoming user %u: %s", (unsigned int)user, strerror(-ret));
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	return ret;
}

/* Find the client's identity, and switch to the user that its worker runs as. */
static int take_identity(void)
{
	struct cks_control_user message = {.kind = 0};
	int fd = -1, ret = receive_message(CK_CONTROL_USER, &message, sizeof(message), &fd);

	if (ret < 0)
		return ret;
	worker.client.identity = message.identity;
	worker.client.judged = true;
	if (own.worker_users.first)
		return become_user(message.user, fd);
	close(fd);
	return 0;
}

static int take_account(void)
{
	struct cks_control_account message = {.kind = 0};
	int fd = -1, ret = receive_message(CK_CONTROL_ACCOUNT, &message, sizeof(message), &fd);

	return ret < 0 ? ret : cks_meter_account(fd, message.seat);
}

static void apply_terms(struct ck_output *output)
{
	struct cks_terms terms;

	cks_meter_terms(&terms);
	cks_limits_apply(&own.limits, &terms);
	cks_output_bound(output, own.limits.value[CK_LIMIT_OUTPUT]);
	worker.max_lanes = (unsigned int)own.limits.value[CK_LIMIT_LANES];
	worker.bandwidth = terms.bandwidth;
	if (terms.time > 0 || terms.idle_end > 0)
		worker.max_lanes++; /* the client listens for words */
	if (terms.nvml_own)
		cks_nvml_narrow(cks_meter_is_own);
}

int cks_client_identity_apply(const struct cks_options **options, struct ck_output *output)
{
	int ret = 0;

	own = **options;
	if (own.worker_users.first || own.confine)
		ret = take_identity();
	if (ret == 0 && own.policy)
		ret = take_account();
	if (ret == 0)
		apply_terms(output);
	*options = &own;
	return ret;
}
