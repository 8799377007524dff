/*
 * server/life/rendezvous.c - see rendezvous.h.
 *
 * A state that arrives is checked like any other. The kernel says which process sent it, and of
 * which user it is. One of the server's user could do more harm by other means. With
 * --worker-users, a process of another user may be a worker that a client has taken over: it is no
 * broker, it is the user that the kernel names, and that must have been its identity's (uids.h).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "m3/message.h"
#include "server/children/workers.h"
#include "server/door/broker.h"
#include "server/door/listeners.h"
#include "server/life/rendezvous.h"
#include "server/processes/messages.h"
#include "server/processes/sockets.h"
#include "server/processes/state.h"
#include "server/worker/orphan_reconnect.h"
#include "util/process/fd.h"
#include "util/log.h"
#include "util/until.h"

CK_LOG_DEFINE("server");

#define CK_SILENCE_MS 5000

void cks_rendezvous_init(struct cks_rendezvous *r)
{
	*r = (struct cks_rendezvous){.socket.fd = -1};
	for (int i = 0; i < CK_RENDEZVOUS_MAX; i++)
		r->waiting[i] = -1;
}

int cks_rendezvous_open(struct cks_rendezvous *r, const char *folder,
			const struct cks_user_range *users)
{
	int ret = cks_orphan_folder(folder);

	r->users = users;
	if (ret < 0)
		return ret;
	cks_orphan_path(folder, r->socket.path);
	r->socket.fd = cks_socket_listen(r->socket.path, SOCK_SEQPACKET | SOCK_NONBLOCK);
	if (r->socket.fd < 0) {
		ck_err("state folder %s: %s", folder, strerror(-r->socket.fd));
		return r->socket.fd;
	}
	ret = cks_users_admit(users, folder);
	if (ret == 0)
		ret = cks_users_admit(users, r->socket.path);
	if (ret < 0)
		return ret;
	return stat(r->socket.path, &r->socket.file) < 0 ? -errno : 0;
}

static void drop_connection(struct cks_rendezvous *r, int i)
{
	close(r->waiting[i]);
	r->waiting[i] = -1;
}

void cks_rendezvous_close(struct cks_rendezvous *r)
{
	for (int i = 0; i < CK_RENDEZVOUS_MAX; i++) {
		if (r->waiting[i] >= 0)
			drop_connection(r, i);
	}
	if (r->socket.fd < 0)
		return;
	close(r->socket.fd);
	cks_unlink_own(r->socket.path, &r->socket.file);
	r->socket.fd = -1;
}

size_t cks_rendezvous_poll(const struct cks_rendezvous *r, struct pollfd *fds)
{
	bool room = false;

	for (int i = 0; i < CK_RENDEZVOUS_MAX; i++) {
		room |= r->waiting[i] < 0;
		fds[1 + i] = (struct pollfd){.fd = r->waiting[i], .events = POLLIN};
	}
	fds[0] = (struct pollfd){.fd = room ? r->socket.fd : -1, .events = POLLIN};
	return CK_RENDEZVOUS_POLL;
}

static void accept_one(struct cks_rendezvous *r, int64_t now)
{
	int fd = accept4(r->socket.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK), i = 0;

	while (i < CK_RENDEZVOUS_MAX && r->waiting[i] >= 0)
		i++;
	if (fd < 0)
		return;
	if (i == CK_RENDEZVOUS_MAX || !cks_orphan_trusts(fd, r->users)) {
		close(fd);
		return;
	}
	r->waiting[i] = fd;
	r->since[i] = now;
}

/* A descriptor of the process at the other end, @peer; it cannot be another's, since it is
 * connected. */
static int process_of(int control, struct ucred *peer)
{
	struct pollfd p = {.fd = control, .events = POLLRDHUP};
	socklen_t size = sizeof(*peer);
	int process;

	if (getsockopt(control, SOL_SOCKET, SO_PEERCRED, peer, &size) < 0)
		return -errno;
	process = (int)syscall(SYS_pidfd_open, peer->pid, 0);
	if (process < 0)
		return -errno;
	if (poll(&p, 1, 0) != 0) { /* it has ended, and its number may be another's */
		close(process);
		return -ECONNRESET;
	}
	return process;
}

/* Take the process that @state describes and @control is connected to; @fd came with it. Takes
 * @control and @fd if it succeeds. */
static int adopt_process(struct cks_state *state, int control, int fd, struct cks_workers *workers,
			 struct cks_broker *broker)
{
	const char taken = CK_CONTROL_TAKEN;
	struct ucred peer;
	int process = process_of(control, &peer), ret = -EPROTO;
	bool ours = process >= 0 && peer.uid == cks_users_server();

	if (process < 0)
		return process;
	if (send(control, &taken, 1, MSG_DONTWAIT | MSG_NOSIGNAL) != 1) {
		ret = -errno;
	} else if (state->worker_count == 1 && state->workers[0].named && fd < 0) {
		state->workers[0].info.pid = peer.pid;
		state->workers[0].info.user = ours ? 0 : peer.uid;
		state->workers[0].control = control;
		state->workers[0].process = process;
		ret = cks_workers_return(workers, &state->workers[0]);
	} else if (state->broker.fd >= 0 && fd >= 0 && ours) {
		ret = cks_broker_return(broker, fd, peer.pid, process, control);
	}
	if (ret < 0)
		close(process);
	return ret;
}

/* Read the description of connection @control. False: close it. */
static bool receive_state(int control, struct cks_workers *workers, struct cks_broker *broker)
{
	char text[CK_ORPHAN_PACKET];
	struct cks_state state;
	int fd;
	long n = ck_m3_receive(control, text, sizeof(text), &fd, MSG_DONTWAIT), ret = n;

	cks_state_init(&state);
	if (n > 0)
		ret = cks_state_parse(text, (size_t)n, &state);
	if (n > 0 && ret == 0)
		ret = adopt_process(&state, control, fd, workers, broker);
	cks_state_free(&state);
	if (n > 0 && ret == 0)
		return true;
	if (n != 0)
		ck_warn("a returning process is not accepted: %s", strerror((int)-ret));
	if (fd >= 0)
		close(fd);
	return false;
}

void cks_rendezvous_run(struct cks_rendezvous *r, const struct pollfd *fds,
			struct cks_workers *workers, struct cks_broker *broker)
{
	int64_t now = ck_now_ms();

	for (int i = 0; i < CK_RENDEZVOUS_MAX; i++) {
		if (r->waiting[i] < 0)
			continue;
		if (fds[1 + i].revents && receive_state(r->waiting[i], workers, broker))
			r->waiting[i] = -1; /* it has a place elsewhere */
		else if (fds[1 + i].revents || now - r->since[i] > CK_SILENCE_MS)
			drop_connection(r, i);
	}
	if (fds[0].revents)
		accept_one(r, now);
}
