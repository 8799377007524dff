/*
 * command/sessions/local.c - see local.h.
 *
 * The kernel lists the sockets of this host with their paths. A server says in its status at which
 * addresses it listens. Any user may make a socket and say so; thus, outside the usual places, only
 * root is believed, and a user for whom the kernel lists a socket that listens at the port.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "command/config/command.h"
#include "command/sessions/control.h"
#include "command/sessions/local.h"
#include "rpc/chan.h"
#include "util/text.h"
#include "util/util.h"

#define SOCKETS 64 /* looked at, at most */
#define ANSWER_S 2 /* a server that stands still does not keep the others from being found */
#define LISTENING 0x10000u /* flag in /proc/net/unix */
#define TCP_LISTEN 0x0au   /* state in /proc/net/tcp */

struct sockets {
	char stems[SOCKETS][CK_UNIX_PATH_MAX];
	size_t count;
	size_t usual; /* the first ones are at the usual places */
};

/* --- which sockets there are */

static void add_socket(struct sockets *all, const char *stem, size_t length)
{
	if (length == 0 || length >= CK_UNIX_PATH_MAX || all->count == SOCKETS)
		return;
	for (size_t i = 0; i < all->count; i++) {
		if (strncmp(all->stems[i], stem, length) == 0 && !all->stems[i][length])
			return;
	}
	memcpy(all->stems[all->count], stem, length);
	all->stems[all->count++][length] = '\0';
}

/* A line of /proc/net/unix: "Num: RefCount Protocol Flags Type St Inode Path". */
static void add_line(struct sockets *all, char *line)
{
	const size_t suffix = strlen(CKX_STATUS_SUFFIX);
	unsigned int flags;
	int path = 0;
	size_t length;

	line[strcspn(line, "\n")] = '\0';
	if (sscanf(line, "%*s %*x %*x %x %*x %*x %*u %n", &flags, &path) != 1 || path == 0)
		return;
	length = strlen(line + path);
	if ((flags & LISTENING) && line[path] == '/' && length > suffix &&
	    strcmp(line + path + length - suffix, CKX_STATUS_SUFFIX) == 0)
		add_socket(all, line + path, length - suffix);
}

static void find_sockets(struct sockets *all)
{
	FILE *f = fopen("/proc/net/unix", "re");
	const char *path;
	char *line = NULL;
	size_t room = 0;

	all->count = 0;
	for (unsigned int i = 0; (path = ck_chan_default_unix(i)) != NULL; i++)
		add_socket(all, path, strlen(path));
	all->usual = all->count;
	while (f && getline(&line, &room, f) > 0)
		add_line(all, line);
	free(line);
	if (f)
		fclose(f);
}

/* --- connecting */

int ckx_local_dial(const char *path, struct ckx_local *local)
{
	char socket[CK_UNIX_PATH_MAX];
	int n = snprintf(socket, sizeof(socket), "%s" CKX_STATUS_SUFFIX, path);

	if (n >= (int)sizeof(socket))
		return -ENAMETOOLONG;
	strcpy(local->stem, path);
	local->fd = ck_unix_dial(socket, SOCK_STREAM);
	return local->fd < 0 ? local->fd : 0;
}

static int try_usual(const char *path, void *local)
{
	return ckx_local_dial(path, local);
}

int ckx_local_usual(struct ckx_local *local)
{
	const char *path;

	return ck_chan_try_usual(try_usual, local, &path);
}

/* --- whom to believe */

#define ANYONE ((uid_t)-1)

/* Does @file, /proc/net/tcp or tcp6, list a socket of @user that listens at @port? */
static bool listens_in(const char *file, uid_t user, unsigned int port)
{
	FILE *f = fopen(file, "re");
	char line[512];
	bool found = false;

	while (f && !found && fgets(line, sizeof(line), f)) {
		unsigned int at, state, owner;

		found = sscanf(line,
			       " %*u: %*[0-9A-Fa-f]:%x %*[0-9A-Fa-f]:%*x %x %*x:%*x %*x:%*x "
			       "%*x %u",
			       &at, &state, &owner) == 3 &&
			at == port && state == TCP_LISTEN && (user == ANYONE || owner == user);
	}
	if (f)
		fclose(f);
	return found;
}

static bool user_is_listening(uid_t user, unsigned int port)
{
	return listens_in("/proc/net/tcp", user, port) || listens_in("/proc/net/tcp6", user, port);
}

static bool is_trusted(int fd, unsigned int port)
{
	struct ucred peer;
	socklen_t size = sizeof(peer);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0)
		return false;
	if (peer.uid == 0)
		return true;
	return port == 0 ? peer.uid == geteuid() : user_is_listening(peer.uid, port);
}

/* Connect to number @i; @port: that it must listen at, 0: any. NULL: it does not answer, or is not
 * to be believed. */
static json_t *ask_socket(const struct sockets *all, size_t i, unsigned int port,
			  struct ckx_local *local)
{
	const struct timeval most = {.tv_sec = ANSWER_S};
	json_t *report = NULL;

	if (ckx_local_dial(all->stems[i], local) < 0)
		return NULL;
	setsockopt(local->fd, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof(most));
	if (i < all->usual || is_trusted(local->fd, port))
		report = ckx_control_try(local->fd, json_pack("{s:s}", "command", "status"));
	if (json_is_true(json_object_get(report, "ok"))) {
		setsockopt(local->fd, SOL_SOCKET, SO_RCVTIMEO, &(struct timeval){0}, sizeof(most));
		return report;
	}
	json_decref(report);
	close(local->fd);
	return NULL;
}

/* --- the server at an address */

static bool listens_at(const json_t *report, const struct ckx_resolved *wanted)
{
	const json_t *item;
	size_t i;

	json_array_foreach(json_object_get(report, "addresses"), i, item)
	{
		if (ckx_resolved_has(wanted, json_string_value(item)))
			return true;
	}
	return false;
}

static int find_listening(const struct sockets *all, const struct ckx_resolved *wanted,
			  struct ckx_local *local)
{
	struct ckx_local one;

	local->fd = -1;
	for (size_t i = 0; i < all->count; i++) {
		json_t *report = ask_socket(all, i, wanted->port, &one);
		bool asked = report, here = listens_at(report, wanted);

		json_decref(report);
		if (asked && (!here || local->fd >= 0))
			close(one.fd);
		if (!here)
			continue;
		if (local->fd >= 0) {
			close(local->fd);
			return -ENOTUNIQ;
		}
		*local = one;
		if (i < all->usual)
			break;
	}
	return local->fd >= 0 ? 0 : -ESRCH;
}

int ckx_local_listening(const struct ck_address *address, struct ckx_local *local)
{
	struct sockets *all = malloc(sizeof(*all));
	struct ckx_resolved wanted;
	int ret = all ? ckx_resolve(address, &wanted) : -ENOMEM;

	if (ret == 0)
		ret = wanted.count > 0 ? 0 : -EREMOTE;
	if (ret == 0) {
		find_sockets(all);
		ret = find_listening(all, &wanted, local);
		if (ret == -ESRCH && !user_is_listening(ANYONE, wanted.port))
			ret = -EADDRNOTAVAIL;
	}
	free(all);
	return ret;
}

static void print_server(const char *stem, const json_t *report)
{
	const json_t *item;
	char text[512] = "", shown[CK_UNIX_PATH_MAX];
	size_t i, used = 0;

	json_array_foreach(json_object_get(report, "addresses"), i, item)
	{
		const char *address = json_string_value(item);

		if (address && ck_address_has(address, CK_ADDRESS_NETWORK) && used < sizeof(text))
			used += (size_t)snprintf(text + used, sizeof(text) - used, ", %s", address);
	}
	ck_text_copy(shown, sizeof(shown), stem);
	ck_text_plain(text, sizeof(text));
	if (report)
		ckx_error("  -s unix:%s (pid %lld%s)", shown,
			  (long long)json_integer_value(json_object_get(report, "pid")), text);
	else
		ckx_error("  -s unix:%s", shown);
}

void ckx_local_print(void)
{
	struct sockets *all = malloc(sizeof(*all));
	struct ckx_local one;
	bool none = true;

	if (!all)
		return;
	find_sockets(all);
	for (size_t i = 0; i < all->count; i++) {
		json_t *report = ask_socket(all, i, 0, &one);

		if (report || i >= all->usual) {
			if (none)
				ckx_error("the servers of this host:");
			none = false;
			print_server(all->stems[i], report);
		}
		if (report)
			close(one.fd);
		json_decref(report);
	}
	if (none)
		ckx_error("no server of this host has a status socket");
	free(all);
}
