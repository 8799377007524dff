/*
 * server/control/control_sockets.c - the sockets of control.h: made, handed to another program,
 * closed.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/control/control_part.h"
#include "server/door/listeners.h"
#include "server/processes/sockets.h"
#include "server/processes/state.h"
#include "util/log.h"

CK_LOG_DEFINE("server");

static struct cks_control *create_control(void)
{
	struct cks_control *c = calloc(1, sizeof(*c));

	for (size_t i = 0; c && i < CK_CONTROL_MAX; i++)
		c->connections[i] = (struct cks_connection){.fd = -1, .passed = -1};
	if (c)
		c->status.fd = -1;
	return c;
}

/* Listen for users too, beside the control socket: its path with .status in the place of .ctl. */
static void open_status(struct cks_control *c)
{
	const char *path = c->socket.path, *end = strrchr(path, '.');
	size_t stem = end && strcmp(end, ".ctl") == 0 ? (size_t)(end - path) : strlen(path);
	int n = snprintf(c->status.path, sizeof(c->status.path), "%.*s.status", (int)stem, path);

	if (n >= (int)sizeof(c->status.path))
		return;
	c->status.fd = cks_socket_listen(c->status.path, SOCK_STREAM | SOCK_NONBLOCK);
	if (c->status.fd >= 0 && chmod(c->status.path, 0666) == 0 &&
	    stat(c->status.path, &c->status.file) == 0)
		return;
	ck_warn("no status socket %s: %s", c->status.path,
		strerror(c->status.fd < 0 ? -c->status.fd : errno));
	if (c->status.fd >= 0)
		close(c->status.fd);
	c->status.fd = -1;
}

struct cks_control *cks_control_create(const char *path, const char *unix_path)
{
	struct cks_control *c = create_control();

	if (!c)
		return NULL;
	c->socket.fd = -EINVAL;
	if (path && strlen(path) < sizeof(c->socket.path))
		strcpy(c->socket.path, path);
	else if (!path && unix_path && strlen(unix_path) + 4 < sizeof(c->socket.path))
		sprintf(c->socket.path, "%s.ctl", unix_path);
	if (c->socket.path[0])
		c->socket.fd = cks_socket_listen(c->socket.path, SOCK_STREAM | SOCK_NONBLOCK);
	if (c->socket.fd >= 0 && stat(c->socket.path, &c->socket.file) == 0) {
		open_status(c);
		return c;
	}
	if (c->socket.path[0])
		ck_warn("no control socket %s: %s", c->socket.path,
			strerror(c->socket.fd < 0 ? -c->socket.fd : errno));
	cks_control_destroy(c);
	return NULL;
}

static bool is_of(const struct cks_control *c, unsigned int slot, const struct cks_asker *asker)
{
	return asker && asker->slot == slot && c->connections[slot].serial == asker->serial;
}

bool cks_control_busy(const struct cks_control *c, const struct cks_asker *asker)
{
	bool busy = false;

	for (unsigned int i = 0; c && i < CK_CONTROL_MAX; i++)
		busy |= c->connections[i].waiting && !is_of(c, i, asker);
	return busy;
}

/* A copy of @bytes; NULL: there are none, or no memory. */
static char *copy_bytes(const char *bytes, size_t size)
{
	char *copy = size ? malloc(size) : NULL;

	return copy ? memcpy(copy, bytes, size) : NULL;
}

/* -ENOMEM. */
static int save_caller(const struct cks_connection *k, struct cks_state_caller *saved)
{
	*saved = (struct cks_state_caller){.fd = k->fd,
					   .passed = k->passed,
					   .user = k->user,
					   .limited = k->limited,
					   .in_size = k->in_size,
					   .out_size = k->out ? k->out_size - k->out_at : 0};
	saved->in = copy_bytes(k->in, saved->in_size);
	saved->out = copy_bytes(k->out + k->out_at, saved->out_size);
	return (saved->in_size && !saved->in) || (saved->out_size && !saved->out) ? -ENOMEM : 0;
}

int cks_control_save(const struct cks_control *c, const struct cks_asker *asker,
		     struct cks_state *state)
{
	int ret = 0;

	if (!c)
		return 0;
	state->control = c->socket;
	state->status = c->status;
	state->callers = calloc(CK_CONTROL_MAX, sizeof(*state->callers));
	if (!state->callers)
		return -ENOMEM;
	for (unsigned int i = 0; ret == 0 && i < CK_CONTROL_MAX; i++) {
		if (is_of(c, i, asker))
			state->asker = c->connections[i].fd;
		else if (c->connections[i].fd >= 0)
			ret = save_caller(&c->connections[i],
					  &state->callers[state->caller_count++]);
	}
	return ret;
}

static void resume_caller(struct cks_control *c, const struct cks_state_caller *saved)
{
	struct cks_connection *k = c->connections;

	while (k < c->connections + CK_CONTROL_MAX && k->fd >= 0)
		k++;
	if (k == c->connections + CK_CONTROL_MAX || saved->in_size > sizeof(k->in)) {
		close(saved->fd);
		if (saved->passed >= 0)
			close(saved->passed);
		return;
	}
	*k = (struct cks_connection){.fd = saved->fd,
				     .serial = ++c->serial,
				     .limited = saved->limited,
				     .user = saved->user,
				     .passed = saved->passed,
				     .in_size = saved->in_size,
				     .out = copy_bytes(saved->out, saved->out_size),
				     .out_size = saved->out_size};
	if (saved->in)
		memcpy(k->in, saved->in, saved->in_size);
	if (saved->out && !k->out)
		cks_control_drop(k);
}

struct cks_control *cks_control_resume(const struct cks_state *state)
{
	struct cks_control *c = state->control.fd >= 0 ? create_control() : NULL;

	if (!c)
		return NULL;
	c->socket = state->control;
	cks_socket_path(&c->socket);
	c->status = state->status;
	if (c->status.fd >= 0)
		cks_socket_path(&c->status);
	else
		open_status(c); /* that of an older release has ended with it */
	if (state->asker >= 0)
		c->connections[0] =
			(struct cks_connection){.fd = state->asker, .waiting = true, .passed = -1};
	for (size_t i = 0; i < state->caller_count; i++)
		resume_caller(c, &state->callers[i]);
	return c;
}

void cks_control_drop(struct cks_connection *k)
{
	close(k->fd);
	if (k->passed >= 0)
		close(k->passed);
	free(k->out);
	*k = (struct cks_connection){.fd = -1, .passed = -1};
}

void cks_control_destroy(struct cks_control *c)
{
	if (!c)
		return;
	for (size_t i = 0; i < CK_CONTROL_MAX; i++) {
		if (c->connections[i].fd >= 0)
			cks_control_drop(&c->connections[i]);
	}
	if (c->status.fd >= 0) {
		close(c->status.fd);
		cks_unlink_own(c->status.path, &c->status.file);
	}
	if (c->socket.fd >= 0) {
		close(c->socket.fd);
		cks_unlink_own(c->socket.path, &c->socket.file);
	}
	free(c);
}
