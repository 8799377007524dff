/*
 * server/control/control.c - the connections and their commands; see control.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/control/control_part.h"
#include "server/processes/session_info.h"
#include "server/rules/audit.h"

static unsigned int count_of(const struct cks_control *c, uid_t user)
{
	unsigned int count = 0;

	for (size_t i = 0; i < CK_CONTROL_MAX; i++) {
		const struct cks_connection *k = &c->connections[i];

		count += k->fd >= 0 && k->limited && k->user == user;
	}
	return count;
}

/*
 * If users have as many connections as they may, a new one closes the oldest of the user with most.
 * So one user cannot keep out the others. NULL: there is none to close, or no need.
 */
static struct cks_connection *find_victim(const struct cks_control *c, bool *full)
{
	const struct cks_connection *victim = NULL;
	unsigned int users = 0, most = 1;

	for (size_t i = 0; i < CK_CONTROL_MAX; i++) {
		const struct cks_connection *k = &c->connections[i];
		unsigned int count = k->fd >= 0 && k->limited ? count_of(c, k->user) : 0;

		users += count > 0;
		if (k->waiting || count < most || count == 1)
			continue;
		if (!victim || count > most || k->serial < victim->serial)
			victim = k;
		most = count;
	}
	*full = users >= CK_CONTROL_USERS;
	return *full ? (struct cks_connection *)(uintptr_t)victim : NULL;
}

size_t cks_control_poll(const struct cks_control *c, struct pollfd *fds)
{
	unsigned int free = 0;
	bool full;

	for (size_t i = 0; i < CK_CONTROL_POLL; i++)
		fds[i] = (struct pollfd){.fd = -1};
	if (!c)
		return CK_CONTROL_POLL;
	for (size_t i = 0; i < CK_CONTROL_MAX; i++) {
		const struct cks_connection *k = &c->connections[i];

		free += k->fd < 0;
		/* a waiting one tells only that its peer has gone */
		fds[2 + i] = (struct pollfd){.fd = k->fd,
					     .events = k->waiting ? 0
						       : k->out	  ? POLLOUT
								  : POLLIN};
	}
	if (free > 0)
		fds[0] = (struct pollfd){.fd = c->socket.fd, .events = POLLIN};
	if (free > 0 && (find_victim(c, &full) || !full))
		fds[1] = (struct pollfd){.fd = c->status.fd, .events = POLLIN};
	return CK_CONTROL_POLL;
}

/* Send as much as there is room for; false: the peer has gone. */
static bool send_out(struct cks_connection *k)
{
	ssize_t n = send(k->fd, k->out + k->out_at, k->out_size - k->out_at,
			 MSG_DONTWAIT | MSG_NOSIGNAL);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR;
	k->out_at += (size_t)n;
	if (k->out_at == k->out_size) {
		free(k->out);
		k->out = NULL;
		k->out_at = 0;
	}
	return true;
}

bool cks_control_waits(const struct cks_control *c, struct cks_asker asker)
{
	const struct cks_connection *k = c ? &c->connections[asker.slot] : NULL;

	return k && k->fd >= 0 && k->serial == asker.serial;
}

void cks_control_answer(struct cks_control *c, struct cks_asker asker, json_t *reply)
{
	struct cks_connection *k = c ? &c->connections[asker.slot] : NULL;
	char *text = json_dumps(reply, JSON_COMPACT);

	json_decref(reply);
	if (!cks_control_waits(c, asker) || !text) {
		free(text);
		return;
	}
	k->waiting = false;
	k->out_size = strlen(text);
	text[k->out_size++] = '\n'; /* in the place of the final 0 */
	k->out = text;
	if (!send_out(k))
		cks_control_drop(k);
}

json_t *cks_control_error(const char *format, ...)
{
	char text[512];
	json_t *reply;
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	reply = json_pack("{s:b, s:s}", "ok", 0, "error", text);
	/* a text that was cut inside of a character */
	return reply ? reply : json_pack("{s:b, s:s}", "ok", 0, "error", "it failed");
}

int cks_control_take(struct cks_control *c, struct cks_asker asker)
{
	struct cks_connection *k = &c->connections[asker.slot];
	int fd = k->passed;

	k->passed = -1;
	return fd;
}

bool cks_control_is_admin(const struct cks_control *c, struct cks_asker asker)
{
	return !c->connections[asker.slot].limited;
}

bool cks_control_is_owner(const struct cks_control *c, struct cks_asker asker,
			  const struct cks_owner *owner)
{
	const struct cks_connection *k = &c->connections[asker.slot];
	uint32_t user;

	memcpy(&user, owner->peer.bytes, sizeof(user));
	return owner->peer.kind == CK_PEER_USER && user == (k->limited ? k->user : geteuid());
}

bool cks_control_owns(const struct cks_control *c, struct cks_asker asker,
		      const struct cks_session_info *s)
{
	return cks_control_is_owner(c, asker, &s->owner);
}

static json_t *run_command(struct cks_server *server, const struct cks_command *command,
			   const json_t *request, struct cks_asker asker)
{
	const char *session = json_string_value(json_object_get(request, "session"));
	uid_t user = server->control->connections[asker.slot].user;
	json_t *reply;

	if (!command->for_users && !cks_control_is_admin(server->control, asker))
		reply = cks_control_error("%s is for root and the server's user only",
					  command->name);
	else
		reply = command->run(server, request, asker);
	if (!command->only_reads)
		cks_audit_command(server->audit, user, command->name, session, reply);
	return reply;
}

static json_t *carry_out(struct cks_server *server, const json_t *request, struct cks_asker asker)
{
	const char *name = json_string_value(json_object_get(request, "command"));

	if (!name)
		return cks_control_error("not a JSON object with a \"command\"");
	for (const struct cks_command *command = server->commands; command->name; command++) {
		if (strcmp(command->name, name) == 0 && command->run)
			return run_command(server, command, request, asker);
	}
	return cks_control_error("there is no command %s", name);
}

/* Carry out the requests that have arrived, up to one that is answered later. */
static void serve_requests(struct cks_control *c, unsigned int slot, struct cks_server *server)
{
	struct cks_connection *k = &c->connections[slot];
	const struct cks_asker asker = {slot, k->serial};
	char *end;

	while (k->fd >= 0 && k->serial == asker.serial && !k->waiting && !k->out &&
	       (end = memchr(k->in, '\n', k->in_size)) != NULL) {
		size_t line = (size_t)(end - k->in);
		json_t *request = json_loadb(k->in, line, 0, NULL), *reply;

		k->in_size -= line + 1;
		memmove(k->in, end + 1, k->in_size);
		k->waiting = true;
		reply = carry_out(server, request, asker);
		json_decref(request);
		if (reply)
			cks_control_answer(c, asker, reply);
	}
}

/* Keep the descriptor that came with a message. The kernel closes those beyond the first. */
static void keep_passed(struct cks_connection *k, struct msghdr *message)
{
	struct cmsghdr *head = CMSG_FIRSTHDR(message);

	if (!head || head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS ||
	    head->cmsg_len != CMSG_LEN(sizeof(int)))
		return;
	if (k->passed >= 0)
		close(k->passed);
	memcpy(&k->passed, CMSG_DATA(head), sizeof(int));
}

static bool receive_request(struct cks_connection *k)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))];
	struct iovec room = {k->in + k->in_size, sizeof(k->in) - k->in_size};
	struct msghdr message = {.msg_iov = &room,
				 .msg_iovlen = 1,
				 .msg_control = control,
				 .msg_controllen = sizeof(control)};
	ssize_t n = recvmsg(k->fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR;
	keep_passed(k, &message);
	k->in_size += (size_t)n;
	return n > 0 && (k->in_size < sizeof(k->in) || memchr(k->in, '\n', k->in_size));
}

/* By the status socket come others than the server's user. */
static void accept_one(struct cks_control *c, int listener)
{
	int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct ucred peer = {.uid = (uid_t)-1};
	socklen_t size = sizeof(peer);
	bool limited = listener == c->status.fd, full;
	struct cks_connection *victim;
	size_t i = 0;

	if (fd < 0)
		return;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0)
		limited = limited && peer.uid != 0 && peer.uid != geteuid();
	victim = limited ? find_victim(c, &full) : NULL;
	if (victim)
		cks_control_drop(victim);
	while (i < CK_CONTROL_MAX && c->connections[i].fd >= 0)
		i++;
	if (i == CK_CONTROL_MAX) {
		close(fd);
		return;
	}
	c->connections[i] = (struct cks_connection){.fd = fd,
						    .serial = ++c->serial,
						    .limited = limited,
						    .user = peer.uid,
						    .passed = -1};
}

void cks_control_run(struct cks_control *c, const struct pollfd *fds, struct cks_server *server)
{
	for (unsigned int i = 0; c && i < CK_CONTROL_MAX; i++) {
		struct cks_connection *k = &c->connections[i];
		short events = fds[2 + i].revents;

		if (k->fd < 0 || k->fd != fds[2 + i].fd || !events)
			continue;
		if ((k->waiting || !(events & (POLLIN | POLLOUT))) || (k->out && !send_out(k)) ||
		    ((events & POLLIN) && !receive_request(k)))
			cks_control_drop(k);
		else
			serve_requests(c, i, server);
	}
	if (c && fds[0].revents)
		accept_one(c, c->socket.fd);
	if (c && fds[1].revents)
		accept_one(c, c->status.fd);
}
