/*
 * server/worker/orphan_reconnect.c - see orphan_reconnect.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "m3/message.h"
#include "server/options/options.h"
#include "server/policy/users.h"
#include "server/processes/messages.h"
#include "server/processes/state.h"
#include "server/worker/orphan_reconnect.h"
#include "util/process/fd.h"
#include "util/log.h"
#include "util/address/unixsock.h"
#include "util/until.h"

CK_LOG_DEFINE("server");

#define CK_AGAIN_MS 50
#define CK_ANSWER_MS 5000

bool cks_orphans_allowed(const struct cks_options *o)
{
	return o->state_dir && o->limits.value[CK_LIMIT_KEEP] > 0;
}

const char *cks_orphan_folder_check(const char *folder, uid_t user)
{
	struct stat st;

	if (stat(folder, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == user &&
	    !(st.st_mode & 067)) /* workers of other users may find a socket in it */
		return NULL;
	return "not a folder that is the server's user's alone (mode 0700)";
}

int cks_orphan_folder(const char *folder)
{
	const char *wrong;

	if (mkdir(folder, 0700) < 0 && errno != EEXIST) {
		ck_err("folder %s: %m", folder);
		return -errno;
	}
	wrong = cks_orphan_folder_check(folder, geteuid());
	if (wrong)
		ck_err("folder %s: %s", folder, wrong);
	return wrong ? -EPERM : 0;
}

void cks_orphan_path(const char *folder, char path[108])
{
	if (snprintf(path, 108, "%s/" CK_ORPHAN_SOCKET, folder) >= 108)
		path[0] = '\0'; /* no address, so it is refused */
}

bool cks_orphan_trusts(int fd, const struct cks_user_range *workers)
{
	struct ucred peer;
	socklen_t size = sizeof(peer);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
	       (peer.uid == cks_users_server() || (workers && cks_users_has(workers, peer.uid)));
}

static int dial_supervisor(const char *path)
{
	int fd = ck_unix_dial(path, SOCK_SEQPACKET);

	if (fd < 0 || cks_orphan_trusts(fd, NULL))
		return fd;
	close(fd);
	return -ECONNREFUSED;
}

/* Describe this process; true: the supervisor has taken it. */
static bool introduce_process(int control, const char *text, int fd)
{
	struct pollfd p = {.fd = control, .events = POLLIN};
	char taken;

	return ck_m3_send(control, text, strlen(text), NULL, 0, fd, 0) == 0 &&
	       poll(&p, 1, CK_ANSWER_MS) == 1 && recv(control, &taken, 1, 0) == 1;
}

int cks_orphan_reconnect(const char *folder, unsigned int seconds, const struct cks_state *self,
			 int fd)
{
	const struct timespec pause = {.tv_nsec = CK_AGAIN_MS * 1000000L};
	int64_t by = ck_now_ms() + seconds * 1000LL;
	char path[108], *text = cks_state_print(self);
	int control = -ETIMEDOUT;

	cks_orphan_path(folder, path);
	while (text && ck_now_ms() < by) {
		control = dial_supervisor(path);
		if (control >= 0 && introduce_process(control, text, fd))
			break;
		if (control >= 0)
			close(control);
		control = -ETIMEDOUT;
		nanosleep(&pause, NULL);
	}
	free(text);
	return control;
}

int cks_orphan_control(const struct cks_options *o, struct cks_state_worker *self)
{
	struct cks_state state;
	int control;

	if (!cks_orphans_allowed(o))
		return -ETIMEDOUT;
	cks_state_init(&state);
	state.workers = self;
	state.worker_count = 1;
	control = cks_orphan_reconnect(o->state_dir, (unsigned int)o->limits.value[CK_LIMIT_KEEP],
				       &state, -1);
	if (control < 0)
		return control;
	dup2(control, CK_WORKER_CONTROL);
	ck_fd_set_cloexec(CK_WORKER_CONTROL, true);
	close(control);
	return 0;
}
