/*
 * server/door/listeners.c - the sockets at which clients connect.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <netdb.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "rpc/chan.h"
#include "server/door/listeners.h"
#include "server/options/options.h"
#include "server/policy/token.h"
#include "server/processes/sockets.h"
#include "util/process/fd.h"
#include "util/log.h"
#include "util/util.h"

CK_LOG_DEFINE("server");

void cks_listeners_address(const struct cks_socket *s, char *text, size_t size)
{
	struct sockaddr_storage bound;
	socklen_t length = sizeof(bound);
	char host[64], port[8];

	if (getsockname(s->fd, (struct sockaddr *)&bound, &length) < 0)
		bound.ss_family = AF_UNSPEC;
	if (bound.ss_family == AF_UNIX)
		snprintf(text, size, "unix:%s", s->path);
	else if (getnameinfo((struct sockaddr *)&bound, length, host, sizeof(host), port,
			     sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV) == 0)
		snprintf(text, size, strchr(host, ':') ? "[%s]:%s" : "%s:%s", host, port);
	else
		snprintf(text, size, "?");
}

void cks_listeners_announce(const struct cks_listeners *l)
{
	char text[CK_LISTENER_TEXT];

	for (size_t i = 0; i < l->count; i++) {
		cks_listeners_address(&l->list[i], text, sizeof(text));
		ck_info("listening on %s", text);
	}
}

static void record_socket(struct cks_listeners *l, int fd, const char *address)
{
	struct cks_socket *s = &l->list[l->count++];
	const char *path = ck_address_path(address);

	*s = (struct cks_socket){.fd = fd};
	if (path) {
		snprintf(s->path, sizeof(s->path), "%s", path);
		if (stat(s->path, &s->file) < 0)
			s->path[0] = '\0';
	}
}

/* Let others than the server's user connect, as far as the options say. -errno, logged. */
static int admit_others(const char *address, const struct cks_options *o)
{
	const char *path = ck_address_path(address);
	int ret = 0;

	if (!path)
		return 0;
	if ((o->socket_group >= 0 && chown(path, (uid_t)-1, (gid_t)o->socket_group) < 0) ||
	    (o->socket_mode && chmod(path, o->socket_mode) < 0)) {
		ret = -errno;
		ck_err("mode and group of %s: %m", path);
	}
	return ret;
}

/* Has everyone who comes over TCP shown who it is? */
static bool knows_everyone(const struct cks_options *o)
{
	return cks_token_wanted(o->token_file) || (o->tls_ca && o->tls_required);
}

const char *cks_listeners_exposure(const struct cks_options *o)
{
	if (knows_everyone(o) || o->insecure)
		return NULL;
	return "other hosts can connect (--listen), and there is no token: cricket-rpc-server "
	       "--setup makes one; or give --token-file FILE or the variable CRICKET_TOKEN, or "
	       "--insecure to serve everyone who can connect";
}

/* A token of a host on the network can be read on its way. */
static void warn_of_plain_text(const struct cks_options *o)
{
	if (!o->tls_cert)
		ck_warn("other hosts can connect, and nothing on the network is encrypted, the "
			"token "
			"included: give --tls-cert and --tls-key (--new-cert makes them)");
}

/* A server that admits any host on the network is rarely meant to: -EPERM, logged, unless
 * --insecure says so. */
static int judge_exposure(const struct cks_listeners *l, const struct cks_options *options)
{
	const char *wrong = cks_listeners_exposure(options);
	size_t i = 0;

	while (i < l->count && !ck_fd_exposed(l->list[i].fd))
		i++;
	if (i == l->count)
		return 0;
	if (knows_everyone(options)) {
		warn_of_plain_text(options);
		return 0;
	}
	if (wrong) {
		ck_err("%s", wrong);
		return -EPERM;
	}
	ck_warn("INSECURE: everyone who can connect runs programs on this machine's GPUs, without "
		"a "
		"token (--insecure)");
	return 0;
}

static int listen_at(const char *address)
{
	int64_t by = 0;
	int fd;

	do
		fd = ck_chan_listen(address);
	while (fd == -EADDRINUSE && cks_wait_in_use(address, &by));
	return fd;
}

/* @option: its value is @address. */
static int add_listener(struct cks_listeners *l, const char *option, const char *address,
			const struct cks_options *options)
{
	int fd = listen_at(address);

	char why[CK_LISTEN_WHY];

	if (fd < 0) {
		const char *path = ck_address_path(address);

		ck_err("%s %s: %s", option, path && strcmp(option, "--unix") == 0 ? path : address,
		       cks_listen_error(address, fd, why));
		return fd;
	}
	record_socket(l, fd, address);
	return admit_others(address, options);
}

/* Make the unix socket, at the given path or the first usual place that works. */
static int add_unix(struct cks_listeners *l, const struct cks_options *options)
{
	const char *path = options->unix_path;
	char address[128];
	int fd = -1;

	if (options->no_unix)
		return 0;
	if (path) {
		snprintf(address, sizeof(address), "unix:%s", path);
		return add_listener(l, "--unix", address, options);
	}
	for (unsigned int i = 0; fd < 0 && (path = ck_chan_default_unix(i)); i++) {
		snprintf(address, sizeof(address), "unix:%s", path);
		fd = listen_at(address);
		if (fd < 0)
			ck_info("no unix socket %s: %s", path, strerror(-fd));
	}
	if (fd >= 0) /* else not fatal: tcp works */
		record_socket(l, fd, address);
	return fd >= 0 ? admit_others(address, options) : 0;
}

int cks_listeners_open(struct cks_listeners *l, const struct cks_options *options)
{
	int ret = 0;

	for (size_t i = 0; i < options->listen_count && ret == 0; i++)
		ret = add_listener(l, "--listen", options->listen[i], options);
	if (ret == 0)
		ret = judge_exposure(l, options);
	return ret < 0 ? ret : add_unix(l, options);
}

void cks_listeners_resume(struct cks_listeners *l)
{
	for (size_t i = 0; i < l->count; i++)
		cks_socket_path(&l->list[i]);
}

void cks_listeners_close(struct cks_listeners *l)
{
	for (size_t i = 0; i < l->count; i++) {
		close(l->list[i].fd);
		if (l->list[i].path[0])
			cks_unlink_own(l->list[i].path, &l->list[i].file);
	}
	l->count = 0;
}

const char *cks_listeners_unix(const struct cks_listeners *l)
{
	for (size_t i = l->count; i-- > 0;) {
		if (l->list[i].path[0])
			return l->list[i].path;
	}
	return NULL;
}
