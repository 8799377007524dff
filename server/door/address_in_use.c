/*
 * server/door/address_in_use.c - see listeners.h.
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/door/listeners.h"
#include "util/address/address.h"
#include "util/address/unixsock.h"

#define CK_LISTENS 0x0a /* a state in /proc/net/tcp */

/* A socket of another program that listens. */
struct occupant {
	unsigned long inode;
	unsigned int uid;
	pid_t pid; /* 0: this process may not see it */
};

static unsigned int port_of(const char *address)
{
	char why[CK_ADDRESS_WHY];
	struct ck_address a;

	return ck_address_parse(address, &a, why) == 0 ? (unsigned int)a.port : 0;
}

/* Find the socket that listens at @port, in /proc/net/tcp or tcp6. */
static bool find_socket(const char *file, unsigned int port, struct occupant *out)
{
	FILE *f = fopen(file, "re");
	unsigned int local, state;
	char line[256];
	bool found = false;

	while (f && !found && fgets(line, sizeof(line), f))
		found = sscanf(line, "%*d: %*[0-9A-F]:%x %*s %x %*s %*s %*s %u %*d %lu", &local,
			       &state, &out->uid, &out->inode) == 4 &&
			local == port && state == CK_LISTENS;
	if (f)
		fclose(f);
	return found;
}

static bool has_socket(const char *process, unsigned long inode)
{
	char path[64], link[64], wanted[64];
	const struct dirent *e;
	bool found = false;
	ssize_t n;
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%.16s/fd", process);
	snprintf(wanted, sizeof(wanted), "socket:[%lu]", inode);
	d = opendir(path);
	while (d && !found && (e = readdir(d)) != NULL) {
		n = readlinkat(dirfd(d), e->d_name, link, sizeof(link) - 1);
		link[n > 0 ? n : 0] = '\0';
		found = strcmp(link, wanted) == 0;
	}
	if (d)
		closedir(d);
	return found;
}

static pid_t find_process(unsigned long inode)
{
	const struct dirent *e;
	pid_t pid = 0;
	DIR *d = opendir("/proc");

	while (d && pid == 0 && (e = readdir(d)) != NULL) {
		if (isdigit((unsigned char)e->d_name[0]) && has_socket(e->d_name, inode))
			pid = (pid_t)strtol(e->d_name, NULL, 10);
	}
	if (d)
		closedir(d);
	return pid;
}

static bool find_unix(const char *path, struct occupant *out)
{
	int fd = ck_unix_dial(path, SOCK_STREAM);
	struct ucred peer;
	socklen_t size = sizeof(peer);
	bool found = fd >= 0 && getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0;

	if (found)
		*out = (struct occupant){.uid = peer.uid, .pid = peer.pid};
	if (fd >= 0)
		close(fd);
	return found;
}

static bool find_tcp(const char *address, struct occupant *out)
{
	unsigned int port = port_of(address);

	if (!find_socket("/proc/net/tcp", port, out) && !find_socket("/proc/net/tcp6", port, out))
		return false;
	out->pid = find_process(out->inode);
	return true;
}

/* The file name of its program, as it was started. */
static const char *name_of(pid_t pid, char *name, size_t size)
{
	char path[64], line[PATH_MAX] = "";
	const char *slash;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)pid);
	f = fopen(path, "re");
	if (f) {
		line[fread(line, 1, sizeof(line) - 1, f)] = '\0';
		fclose(f);
	}
	slash = strrchr(line, '/');
	snprintf(name, size, "%s", !line[0] ? "a program" : slash ? slash + 1 : line);
	return name;
}

static void name_occupant(const char *address, char why[CK_LISTEN_WHY])
{
	struct occupant o = {.pid = 0};
	const char *path = ck_address_path(address);
	bool found = path ? find_unix(path, &o) : find_tcp(address, &o);
	const struct passwd *user = found ? getpwuid(o.uid) : NULL;
	char name[64];

	snprintf(why, CK_LISTEN_WHY, "the address is in use already");
	if (!found)
		return;
	if (o.pid > 0)
		snprintf(why, CK_LISTEN_WHY, "%s (pid %d) uses the address already",
			 name_of(o.pid, name, sizeof(name)), (int)o.pid);
	else
		snprintf(why, CK_LISTEN_WHY, "a program of user %s uses the address already",
			 user ? user->pw_name : "?");
}

const char *cks_listen_error(const char *address, int error, char why[CK_LISTEN_WHY])
{
	static const struct {
		int error;
		const char *text;
	} reasons[] = {
		{-EINVAL, "not HOST, HOST:PORT, [IPV6]:PORT or unix:/PATH, with a PORT from 0 to "
			  "65535"},
		{-ENXIO, "no host has this name"},
		{-EAGAIN, "the name servers know no address of this name, or do not answer"},
		{-EADDRNOTAVAIL, "this host does not have the address"},
		{-EACCES, "not permitted for this user"},
		{-ENOTSOCK, "the file is no socket"},
		{-ENAMETOOLONG, "the path of a socket has at most 107 bytes"},
	};
	const char *path = ck_address_path(address);

	if (error == -EADDRINUSE) {
		name_occupant(address, why);
		return why;
	}
	snprintf(why, CK_LISTEN_WHY, "%s", strerror(-error));
	if (error == -EINVAL && path && strlen(path) >= CK_UNIX_PATH_MAX)
		error = -ENAMETOOLONG;
	for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++) {
		if (reasons[i].error == error)
			snprintf(why, CK_LISTEN_WHY, "%s", reasons[i].text);
	}
	return why;
}
