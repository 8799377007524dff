/*
 * server/door/listeners_check.c - would a server get the sockets that its options name? See
 * listeners.h.
 *
 * A server with the same options may run meanwhile. So an address that is in use is not wrong, and
 * no file of a socket is touched.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "rpc/chan.h"
#include "server/door/listeners.h"
#include "server/options/options.h"
#include "util/address/unixsock.h"
#include "util/process/fd.h"

/* The sockets at the addresses so far: a server has all of them at the same time. */
struct opened {
	int fds[CK_LISTEN_MAX];
	size_t count;
};

static void close_all(struct opened *o)
{
	while (o->count > 0)
		close(o->fds[--o->count]);
}

/* The same host, at a port that the kernel chooses. */
static int listen_at_any_port(const char *address)
{
	char text[CK_ADDRESS_MAX], why[CK_ADDRESS_WHY];
	struct ck_address a;

	if (ck_address_parse(address, &a, why) < 0)
		return -EINVAL;
	snprintf(text, sizeof(text), a.ipv6 ? "[%s]:0" : "%s:0", a.host);
	return ck_chan_listen(text);
}

static int report(FILE *out, const char *option, const char *address, int error)
{
	const char *path = ck_address_path(address);
	char why[CK_LISTEN_WHY];

	cks_listen_error(address, error, why);
	if (strcmp(option, "unix") == 0)
		address = path;
	if (error != -EADDRINUSE)
		return cks_options_wrong(out, option, "%s: %s", address, why);
	fprintf(out, "# %s: %s: %s\n", option, address, why);
	return 0;
}

/* @address is in use. By the sockets before it? They are closed then. */
static int check_conflict(const char *address, FILE *out, struct opened *o)
{
	int fd;

	close_all(o);
	fd = ck_chan_listen(address);
	if (fd < 0)
		return report(out, "listen", address, fd);
	close(fd);
	return cks_options_wrong(out, "listen", "%s: an address before it includes it", address);
}

static int check_tcp(const char *address, const char *exposure, FILE *out, struct opened *o)
{
	int fd = ck_chan_listen(address), ret = 0;

	if (fd == -EADDRINUSE) {
		ret = check_conflict(address, out, o);
		fd = listen_at_any_port(address);
	}
	if (fd < 0)
		return report(out, "listen", address, fd);
	o->fds[o->count++] = fd;
	if (exposure && ck_fd_exposed(fd))
		ret = cks_options_wrong(out, "listen", "%s: %s", address, exposure);
	return ret;
}

static int check_unix(const char *option, const char *path, FILE *out)
{
	char address[CK_ADDRESS_MAX];
	int ret =
		cks_options_service_makes(out, option, path) ? 0 : ck_unix_check(path, SOCK_STREAM);

	snprintf(address, sizeof(address), "unix:%s", path);
	return ret < 0 ? report(out, option, address, ret) : 0;
}

/* Is the socket at @path also that of an address before @index, or of --unix? */
static bool is_given_twice(const struct cks_options *o, size_t index, const char *path)
{
	bool twice = o->unix_path && !o->no_unix && strcmp(path, o->unix_path) == 0;

	for (size_t i = 0; i < index && !twice; i++) {
		const char *other = ck_address_path(o->listen[i]);

		twice = other && strcmp(other, path) == 0;
	}
	return twice;
}

static int check_listen(const struct cks_options *o, size_t index, FILE *out, struct opened *opened)
{
	const char *address = o->listen[index], *path = ck_address_path(address);

	if (path && is_given_twice(o, index, path))
		return cks_options_wrong(out, "listen", "%s: it is given twice", address);
	if (ck_address_kind_of(address) == CK_ADDRESS_UNIX)
		return check_unix("listen", path, out);
	return check_tcp(address, cks_listeners_exposure(o), out, opened);
}

static int check_group(const struct cks_options *o, FILE *out)
{
	gid_t group = (gid_t)o->socket_group;

	if (o->socket_group < 0 || o->no_unix || geteuid() == 0 || getegid() == group ||
	    group_member(group))
		return 0;
	return cks_options_wrong(out, "socket-group", "this user is not in the group");
}

int cks_listeners_check(const struct cks_options *o, FILE *out)
{
	struct opened opened = {.count = 0};
	int ret = check_group(o, out);

	for (size_t i = 0; i < o->listen_count; i++) {
		if (check_listen(o, i, out, &opened) < 0)
			ret = -EINVAL;
	}
	close_all(&opened);
	if (o->unix_path && !o->no_unix && check_unix("unix", o->unix_path, out) < 0)
		ret = -EINVAL;
	return ret;
}
